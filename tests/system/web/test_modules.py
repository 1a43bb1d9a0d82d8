"""Modules of the page without a view, run in the browser that they are for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from pulsed.present.terminal.frame import mean_utilization, without_parts
from tests.gpu_filter_cases import FOUND, REFUSED
from tests.present.terminal.fleet_model import boards, documents, model
from tests.support.daemon import Daemon
from tests.system.web.browser import tab, url


@pytest.fixture(scope="module")
def page(browser: Browser, demo: Daemon) -> Iterator[Page]:
    with tab(browser, url(demo)) as opened:
        yield opened.open()


def run(page: Page, module: str, expression: str) -> Any:
    """Return the value of an expression in which `m` is a module."""
    main = page.locator('script[type="module"]').get_attribute("src")
    assert main
    path = main.replace("core/main.js", module)
    return page.evaluate(
        f"async (path) => {{ const m = await import(new URL(path, document.baseURI)); return {expression}; }}", path
    )


def test_a_long_filter_in_a_link_takes_no_time(page: Page) -> None:
    """A number of 100,000 digits took 10 s."""
    expression = """(() => {
        const started = performance.now();
        for (const text of ["ru<" + "1".repeat(1e5) + "x", "a|".repeat(1e5), "ru" + " ".repeat(1e5), "&".repeat(1e5)])
          try { m.parseFilter(text); } catch (error) { if (!(error instanceof m.FilterError)) throw error; }
        return performance.now() - started;
    })()"""
    assert run(page, "text/filter.js", expression) < 5000


@pytest.mark.parametrize(
    ("kind", "one", "several"),
    [
        ("incident", "1 incident", "2 incidents"),
        ("owner", "1 change of owners", "2 changes of owners"),
        ("workload_class", "1 change of class", "2 changes of class"),
    ],
)
def test_counts_of_changes(page: Page, kind: str, one: str, several: str) -> None:
    assert run(page, "text/change_text.js", f"[1, 2].map((count) => m.countText('{kind}', count))") == [one, several]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("percent(null)", "--"),
        ("percent(0)", "0\u00a0%"),
        ("percent(0.001)", "<1\u00a0%"),
        ("percent(1)", "100\u00a0%"),
        ("percentRange(null, 0.381, 0.612)", "38..61\u00a0%"),
        ("percentRange(0.5, 0.5, 0.5)", "50\u00a0%"),
        ("percentRange(0.5, 0.4, 0.6)", "50\u00a0% (40..60)"),
        ("percentRange(null, null, null)", "--"),
        ("watts(null)", "--"),
        ("watts(0)", "0\u00a0W"),
        ("watts(31240)", "31\u00a0kW"),
        ("memoryOf(null, null)", "--"),
        ("memoryOf(null, 80 * 2 ** 30)", "--/80\u00a0GiB"),
        ("memoryOf(0, 80 * 2 ** 30)", "0/80\u00a0GiB"),
        ("memoryOf(10607 * 2 ** 30, 20480 * 2 ** 30)", "10.4/20\u00a0TiB"),
        ("energy(null)", "--"),
        ("energy(3600 * 1234)", "1.23\u00a0kWh"),
        ("span(59.4)", "59\u00a0s"),
        ("span(3600 * 3 + 61)", "3\u00a0h\u00a01\u00a0m"),
        ("span(null)", "--"),
    ],
)
def test_format(page: Page, call: str, text: str) -> None:
    assert run(page, "text/format.js", f"m.{call}") == text


@pytest.mark.parametrize(
    ("owners", "use", "text"),
    [
        ("null", "held", "owner unknown"),
        ("[]", "free", "free"),
        ("[]", "held", "no owner"),
        ("[]", "busy", "no owner"),
        ('["slurm_job:47", "pod:ml/train/main"]', "busy", "job 47, ml/train"),
    ],
)
def test_the_owners_of_a_gpu(page: Page, owners: str, use: str, text: str) -> None:
    fleet = f'{{owners: [{owners}], get: (name) => name === "use" ? "{use}" : null}}'
    assert run(page, "text/use.js", f"m.ownersText({fleet}, 0)") == text


def test_the_filter_finds_what_that_of_pulsed_top_finds(page: Page) -> None:
    summary = documents(boards())["summary"]
    expression = f"""(async () => {{
        const state = path.replace("text/filter", "core/fleet_state");
        const {{ FleetState }} = await import(new URL(state, document.baseURI));
        const fleet = new FleetState();
        fleet.load({json.dumps(summary)});
        const named = (i) => fleet.nameOf(i).replace("GPU ", "");
        const outcome = (text) => {{
            try {{
                const test = m.parseFilter(text);
                return fleet.all.filter((i) => test(fleet, i)).map(named).join(" ");
            }} catch (error) {{
                if (!(error instanceof m.FilterError)) throw error;
                return error.message;
            }}
        }};
        return {json.dumps([*FOUND, *REFUSED])}.map(outcome);
    }})()"""
    outcomes = dict(zip([*FOUND, *REFUSED], run(page, "text/filter.js", f"await {expression}"), strict=True))
    assert {text: outcomes[text] for text in FOUND} == FOUND
    assert {text: outcomes[text][: len(REFUSED[text])] for text in REFUSED} == REFUSED


def test_sums_are_those_of_pulsed_top(page: Page) -> None:
    shown = without_parts(model().gpus)
    mean = mean_utilization([gpu for gpu in shown if not gpu.stale], len(shown))
    busy = sum(gpu.use == "busy" for gpu in shown)
    expression = f"""(async () => {{
        const at = (name) => import(new URL(path.replace("text/totals.js", name), document.baseURI));
        const {{ FleetState }} = await at("core/fleet_state.js");
        const {{ percentRange }} = await at("text/format.js");
        const fleet = new FleetState();
        fleet.load({json.dumps(documents(boards())["summary"])});
        const {{ busy, gpus, utilization: {{ ratio, lower, upper, known }} }} = m.totalsOf(fleet, fleet.all);
        return [busy, `${{percentRange(ratio, lower, upper).replace("\u00a0", " ")}}, ${{known}}/${{gpus}}`];
    }})()"""
    assert run(page, "text/totals.js", f"await {expression}") == [busy, mean]


def test_points_of_the_stream_leave_gaps(page: Page) -> None:
    script = """(() => {
        const series = new m.Series(["x"], 60);
        const x = {mean: [1, 2, null], min: [1, 1, null], max: [1, 3, null]};
        series.merge({step_seconds: 2, time: [100, 102, 104]}, {interval_seconds: 1, fields: {x}});
        series.push(106.5, {x: 5});
        series.push(107.1, {x: 6});
        series.push(116, {x: 7});
        series.merge({step_seconds: 2, time: [114, 116, 118]}, {fields: {x: {mean: [4, 7, 8]}}});
        return [series.time, series.fields.x, series.high.x.slice(0, 2)];
    })()"""
    time, values, high = run(page, "core/history.js", script)
    assert time == [100, 102, 104, 106, 108, 110, 112, 114, 116, 118]
    assert values == [1, 2, None, 5, None, None, None, 4, 7, 8]
    assert high == [1, 3]


def test_the_router_keeps_what_it_is_given(page: Page) -> None:
    page.goto(page.url.split("#")[0] + "#/gpu/n%2F1%3A0?s=60&q=ru%3C.1%20%26%20a%7Cb")
    found = run(
        page, "core/router.js", "((r) => [r.view, r.rest, r.get('s'), r.get('q'), r.to('gpu', 'a/b')])(new m.Router())"
    )
    assert found == ["gpu", "n/1:0", "60", "ru<.1 & a|b", "#/gpu/a%2Fb?q=ru%3C.1+%26+a%7Cb"]


def test_text_is_copied_without_a_secure_context(page: Page) -> None:
    script = """(async () => {
        Object.defineProperty(navigator, "clipboard", {value: undefined});
        let copied = null;
        document.addEventListener("copy", () => (copied = document.activeElement.value));
        return [await m.copyText("nvidia-smi -r"), copied];
    })()"""
    assert run(page, "ui/copy.js", script) == [True, "nvidia-smi -r"]
