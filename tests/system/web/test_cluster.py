"""The page at 64 GPUs with real names: the demo's cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.daemon import Daemon, serving
from tests.support.nightly import nightly_after
from tests.support.waiting import until
from tests.system.web.browser import THEMES, Tab, Theme, tab, url

WIDTHS = (768, 1440, 1920)
VIEWS = {
    "#/": "canvas.heatmap",
    "#/?v=table": "table.gpus tbody tr:nth-child(64)",
    "#/gpu/gpu-node-03:5": ".u-wrap canvas",
    "#/work": "table.work tbody tr",
    "#/events": "table.events tbody tr",
    "#/sources": "table.sources tbody tr",
    "#/job/48213": ".verdict .big",
    "#/pod/research/llm-finetune-customer-support-v2-1-7hq2m/trainer": ".verdict .big",
}
"""With something that each shows once it has its data."""

CUT = """(selector) => [...document.querySelectorAll(selector)]
    .filter((cell) => cell.offsetParent && cell.scrollWidth > cell.clientWidth + 1)
    .map((cell) => cell.textContent)"""

SHIFTS = """new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift = (window.shift ?? 0) + entry.value;
}).observe({ type: "layout-shift", buffered: true })"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon whose cluster shows all of its troubles."""
    flags = ("--source", "demo", "--set", "source.demo.scene=cluster")
    with serving(tmp_path_factory.mktemp("cluster"), *flags) as daemon:
        until(lambda: daemon.get("/attention").json()["total"] == 3)
        until(lambda: daemon.get("/jobs/48213").json()["total"]["gpu_seconds"] > 200)
        yield daemon


@pytest.fixture
def opened(browser: Browser, cluster: Daemon) -> Iterator[Tab]:
    with tab(browser, url(cluster), viewport={"width": 1440, "height": 900}) as found:
        yield found


def first_screen(page: Page, selector: str) -> None:
    """Expect an element in the part of the page that is seen without scrolling."""
    expect(page.locator(selector).first).to_be_in_viewport()


def test_the_sick_gpu_is_one_click_away(opened: Tab) -> None:
    page = opened.open()
    row = page.locator(".attention li").first
    expect(row).to_contain_text("XID 79, GPU fell off the PCIe bus")
    expect(row).to_contain_text("drain the node and restart it")
    expect(row.locator(".owner")).to_have_text("research/llm-finetune-customer-support-v2-1-7hq2m")
    row.get_by_role("link", name="gpu-node-03 · 5").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("gpu-node-03 · 5")
    first_screen(page, "article.check[data-health=crit]")
    first_screen(page, ".gpu-history .chart")
    expect(page.locator(".followed summary").first).to_contain_text("The GPU does not answer")


def test_who_wastes_is_one_click_away(opened: Tab) -> None:
    page = opened.open()
    page.get_by_role("link", name="Work", exact=True).click()
    first_screen(page, "tr[data-held] a[href*='data-science/jupyter-singleuser-0']")
    expect(page.locator("tr[data-held] td.held").first).to_contain_text("for")


def test_why_a_job_is_slow_is_two_clicks_away(opened: Tab) -> None:
    page = opened.open()
    page.get_by_role("link", name="Work", exact=True).click()
    page.get_by_role("link", name="job 48213").click()
    first_screen(page, ".verdict .big")
    expect(page.locator(".verdict .big")).to_contain_text("GPU gpu-node-02/3 did")


def test_counts_classes_and_nodes_are_filters(opened: Tab) -> None:
    page = opened.open("#/?v=table")
    rows = page.locator("table.gpus tbody tr")
    page.locator(".totals").get_by_role("link", name="1 crit").click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("gpu-node-03 · 5")
    page.goto(f"{opened.url}#/gpu/gpu-node-07:4")
    page.locator(".gpu-head").get_by_role("link", name="gpu-node-07.hpc.example.com").click()
    expect(page.locator("table.gpus tbody tr")).to_have_count(8)


def test_a_wrong_filter_changes_nothing_and_enter_opens_the_only_match(opened: Tab) -> None:
    page = opened.open("#/?v=table&q=node~gpu-node-03")
    rows, field = page.locator("table.gpus tbody tr"), page.locator("#filter")
    expect(rows).to_have_count(8)
    field.fill("nothing<1")
    expect(page.locator("#filter-problem")).to_be_visible()
    expect(page.locator("#filter-problem")).to_contain_text("there is no nothing")
    expect(rows).to_have_count(8)
    field.fill("health=crit")
    field.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("gpu-node-03 · 5")


def test_jump_opens_gpus_owners_nodes_and_views(opened: Tab) -> None:
    page = opened.open()
    for typed, heading in (("node-06 6", "gpu-node-06 · 6"), ("48301", "Job 48301"), ("sources", "Sources")):
        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Jump to").fill(typed)
        assert opened.violations() == []
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text(heading)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_gpu_health_or_finding_is_cut(browser: Browser, cluster: Daemon, width: int) -> None:
    with tab(browser, url(cluster), viewport={"width": width, "height": 1000}) as opened:
        for hash_, shown in VIEWS.items():
            page = opened.open(hash_)
            page.locator(shown).first.wait_for()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), hash_
            assert page.evaluate(CUT, ".c-gpu, .c-health, td:has(> .chip), button.chips, .attention .where") == [], (
                hash_
            )


@pytest.mark.parametrize("hash_", VIEWS)
def test_the_layout_does_not_shift(browser: Browser, cluster: Daemon, hash_: str) -> None:
    with tab(browser, url(cluster), viewport={"width": 1440, "height": 900}) as opened:
        opened.page.add_init_script(SHIFTS)
        page = opened.open(hash_)
        page.locator(VIEWS[hash_]).first.wait_for()
        page.wait_for_timeout(1500)
        assert page.evaluate("window.shift ?? 0") < 0.1


@pytest.mark.parametrize("theme", nightly_after(1, THEMES))
def test_every_view_is_accessible(browser: Browser, cluster: Daemon, theme: Theme) -> None:
    with tab(browser, url(cluster), theme=theme, viewport={"width": 1440, "height": 900}) as opened:
        for hash_, shown in VIEWS.items():
            page = opened.open(hash_)
            page.locator(shown).first.wait_for()
            assert opened.violations() == [], hash_


def test_a_phone_has_one_line_of_header(browser: Browser, cluster: Daemon) -> None:
    with tab(browser, url(cluster), viewport={"width": 390, "height": 844}) as opened:
        for hash_, shown in VIEWS.items():
            page = opened.open(hash_)
            page.locator(shown).first.wait_for()
            header = page.locator("#header").bounding_box()
            assert header
            assert header["height"] < 60, hash_
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), hash_


def test_the_page_dims_while_the_daemon_is_away_and_returns(browser: Browser, cluster: Daemon) -> None:
    with tab(browser, url(cluster)) as opened:
        page = opened.open()
        page.context.set_offline(True)
        page.evaluate("dispatchEvent(new Event('online'))")
        expect(page.locator("body.lost")).to_be_visible()
        assert page.title().startswith("✕ ")
        page.context.set_offline(False)
        expect(page.locator(".live[data-state=live]")).to_be_visible()
        expect(page.locator("body.lost")).to_have_count(0)
        opened.console.clear()  # Chromium reports the requests that failed


def test_the_first_paint_has_the_theme_and_the_header(browser: Browser, cluster: Daemon) -> None:
    with tab(browser, url(cluster), theme="dark") as opened:
        opened.page.route("**/core/main.js", lambda route: route.abort())
        opened.page.goto(f"{opened.url}#/")
        assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
        expect(opened.page.get_by_role("navigation", name="Views").get_by_role("link")).to_have_count(6)
        expect(opened.page.locator(".skeleton")).to_be_visible()
        opened.console.clear()  # Chromium reports the aborted request
