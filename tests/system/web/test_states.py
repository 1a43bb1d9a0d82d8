"""What the page shows of values that are missing, open, stale or hostile: never a 0 that was not measured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.support.daemon import Daemon, serving
from tests.system.web.browser import Tab, tab, url
from tests.system.web.exporter_text import FULL, IDLE, NOTHING, PARTIAL, Row, exporter_text


@contextmanager
def showing(
    browser: Browser, folder: Path, *rows: Row, flags: tuple[str, ...] = (), **options: str
) -> Iterator[tuple[Tab, Path, Daemon]]:
    """Open the page of a daemon that reads an exporter's page from a file."""
    file = folder / "page.prom"
    file.write_text(exporter_text(*rows))
    arguments = ("--source", "exporter", "--set", f"source.exporter.targets=[{file}]", "--set", "source.interval=1s")
    with serving(folder, *arguments, *flags) as daemon, tab(browser, url(daemon), **options) as opened:
        yield opened, file, daemon


def test_missing_inputs_are_bounds_and_dashes(browser: Browser, tmp_path: Path) -> None:
    with showing(browser, tmp_path, Row(0, FULL), Row(1, PARTIAL), Row(2, NOTHING), Row(3, IDLE)) as (opened, _, _):
        page = opened.open()
        tiles = page.locator(".tile")
        expect(tiles.nth(0).locator(".big")).to_have_text("59\u00a0%")
        expect(tiles.nth(1).locator(".big")).to_have_text("15..78\u00a0%")
        expect(tiles.nth(1).locator(".bar")).to_have_attribute("data-open", "")
        expect(tiles.nth(1).locator(".class")).to_contain_text("?")
        expect(tiles.nth(1).locator(".tile-pipes")).to_have_text("SM --Tensor --DRAM 30")
        expect(tiles.nth(2).locator(".big")).to_have_text("0..100\u00a0%")
        expect(tiles.nth(2).locator(".bar")).to_have_attribute("data-state", "missing")
        expect(tiles.nth(2).locator(".tile-board")).to_have_text("--41\u00a0°C--")
        expect(tiles.nth(3).locator(".big")).to_have_text("0\u00a0%")
        expect(tiles.nth(3).locator(".tile-pipes")).to_have_text("SM 0Tensor 0DRAM 0")
        totals = page.locator(".totals")
        expect(totals).to_contain_text("4: 2 busy, 1 held idle, 1 unknown")
        expect(totals).to_contain_text("18..59\u00a0%")  # of all four, as the two unknown ones may be
        expect(totals).to_contain_text("2/4")
        page.goto(f"{opened.url}#/?q=sm<.5")
        expect(page.locator(".tile")).to_have_count(1)


def test_ok_is_shown_with_the_number_of_known_checks(browser: Browser, tmp_path: Path) -> None:
    text = re.compile(r"^ok [1-9]\d*/\d+$")
    with showing(browser, tmp_path, Row(0, FULL), Row(1, IDLE)) as (opened, _, _):
        page = opened.open()
        expect(page.locator(".tile .chip[data-health=ok]").first).to_have_text(text)
        expect(page.locator("#header .chip[data-health=ok]")).to_have_text(text)
        expect(page.locator(".totals .chip[data-health=ok]")).to_have_text(re.compile(r"^2 ok \d+/\d+$"))
        page.goto(f"{opened.url}#/?v=table")
        expect(page.locator("tbody .chip[data-health=ok]").first).to_have_text(text)
        page.goto(f"{opened.url}#/gpu/0")
        expect(page.locator(".gpu-head .chip[data-health=ok]")).to_have_text(text)
        assert opened.violations() == []


def test_the_input_that_would_settle_an_unknown_class(browser: Browser, tmp_path: Path) -> None:
    with showing(browser, tmp_path, Row(0, PARTIAL)) as (opened, _, _):
        page = opened.open("#/gpu/0")
        why = page.locator(".panel", has_text="Why")
        expect(why).to_contain_text("The inputs allow several classes")
        expect(why).to_contain_text("DCGM field 1002 DCGM_FI_PROF_SM_ACTIVE")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        button = why.locator(".copyable", has_text="DCGM_FI_PROF_SM_ACTIVE, gauge,").get_by_role("button")
        button.click()
        expect(button).to_have_text("Copied")
        assert "DCGM_FI_PROF_SM_ACTIVE, gauge," in page.evaluate("navigator.clipboard.readText()")
        expect(page.locator(".bar-row", has_text="Tensor")).to_contain_text("--")
        assert opened.violations() == []


def test_the_link_of_a_superchip_is_shown_where_it_is(browser: Browser, tmp_path: Path) -> None:
    """A superchip that loads data, an idle one whose exporter lacks the counters of the link, and a busy one, too."""
    gh200 = "NVIDIA GH200 480GB"
    loading = IDLE | {"DCGM_FI_PROF_C2C_TX_ALL_BYTES": 1e9, "DCGM_FI_PROF_C2C_RX_ALL_BYTES": 1e11}
    little = IDLE | {"DCGM_FI_PROF_DRAM_ACTIVE": 0.02}
    rows = (Row(0, loading, model=gh200), Row(1, IDLE, model=gh200), Row(2, little, model=gh200), Row(3, IDLE))
    with showing(browser, tmp_path, *rows) as (opened, _, _):
        page = opened.open("#/gpu/0")
        why, link = page.locator(".panel", has_text="Why"), page.locator(".bar-row", has_text="C2C")
        expect(why).to_contain_text("io or data loading matches")
        expect(why).to_contain_text("PCIe and C2C 100 GB/s")
        expect(link).to_contain_text("27 %")
        page.goto(f"{opened.url}#/gpu/1")
        expect(why.locator("h2")).to_contain_text("idle")
        expect(why.locator(".rules").first).to_contain_text("idle matches")
        page.goto(f"{opened.url}#/gpu/2")
        expect(why).to_contain_text("The inputs allow several classes: idle, io or data loading")
        expect(why).to_contain_text("DCGM field 1076 DCGM_FI_PROF_C2C_TX_ALL_BYTES")
        expect(link).to_contain_text("--")
        page.goto(f"{opened.url}#/gpu/3")
        expect(why.locator("h2")).to_contain_text("idle")
        expect(link).to_be_hidden()
        assert opened.violations() == []


def test_mig_instances_are_listed_with_their_board(browser: Browser, tmp_path: Path) -> None:
    instances = [
        Row(
            0,
            {name: value for name, value in FULL.items() if "_PROF_" in name},
            {"GPU_I_ID": str(number), "GPU_I_PROFILE": "3g.40gb"},
        )
        for number in (1, 2)
    ]
    with showing(browser, tmp_path, Row(0, FULL), *instances, Row(1, IDLE)) as (opened, _, _):
        page = opened.open()
        expect(page.locator(".tile")).to_have_count(4)
        expect(page.locator(".totals")).to_contain_text("2: ")
        page.get_by_role("link", name="GPU 0:1").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("GPU 0:1")
        expect(page.locator(".gpu-head")).to_contain_text("3g.40gb")
        page.goto(f"{opened.url}#/gpu/0")
        expect(page.locator(".panel.wide tbody tr")).to_have_count(2)
        assert opened.violations() == []


def test_a_source_that_is_down_makes_its_gpus_stale_and_returns(browser: Browser, tmp_path: Path) -> None:
    flags = ("--set", "source.stale_after=3s")
    with showing(browser, tmp_path, Row(0, FULL), Row(1, FULL), flags=flags) as (opened, file, _):
        page = opened.open()
        expect(page.locator(".banner")).to_be_hidden()
        file.rename(file.with_suffix(".away"))
        expect(page.locator(".chip[data-health=stale]").first).to_contain_text("stale")
        expect(page.locator(".attention")).to_contain_text("silent")
        expect(page.locator(".tile .big").first).to_have_text("--")
        expect(page.locator(".tile .class-name").first).to_have_text("was: tensor heavy compute")
        expect(page.locator(".totals")).to_contain_text("2: 0 busy, 2 stale")
        assert opened.violations() == []
        page.goto(f"{opened.url}#/sources")
        expect(page.get_by_role("row", name="page.prom")).to_contain_text("down")
        assert opened.violations() == []
        file.with_suffix(".away").rename(file)
        page.goto(f"{opened.url}#/")
        expect(page.locator(".tile .big").first).to_have_text("59\u00a0%")
        expect(page.locator(".banner")).to_be_hidden()


def test_what_is_wrong_and_what_to_do(browser: Browser, tmp_path: Path) -> None:
    failing = {**FULL, "DCGM_FI_DEV_ROW_REMAP_FAILURE": 1, "DCGM_FI_DEV_ROW_REMAP_PENDING": 1}
    with showing(browser, tmp_path, Row(0, FULL), Row(1, failing)) as (opened, _, _):
        page = opened.open("#/?sort=health")
        expect(page.locator(".tile").first).to_contain_text("GPU 1")
        expect(page.locator(".tile").first.locator(".chip")).to_have_attribute("data-health", "crit")
        expect(page).to_have_title(re.compile(r"^\(1 crit\)"))
        page.locator(".tile").get_by_role("link", name="GPU 1").click()
        checks = page.locator("article.check")
        expect(checks).to_have_count(2)
        expect(page.locator("article.check:visible")).to_have_count(1)
        expect(page.locator(".followed summary")).to_contain_text("1 consequence")
        expect(checks.first).to_contain_text("row remap failure1")
        expect(checks.first.get_by_role("link", name="Runbook")).to_have_attribute(
            "href", "docs/health#row_remap_failed"
        )
        expect(checks.first).to_contain_text("What to do")
        checks.first.get_by_role("button").first.click()
        unknown = page.locator("details", has_text="unknown").last
        unknown.locator("summary").click()
        expect(unknown).to_contain_text("needs ")
        assert opened.violations() == []
        page.goto(f"{opened.url}#/events")
        incident = page.locator("table.events tbody tr")
        expect(incident).to_have_count(1)
        expect(incident).to_contain_text("crit")
        incident.locator("summary").click()
        expect(incident.locator("li")).to_have_count(1)
        page.goto(f"{opened.url}#/?q=health>=warn")
        expect(page.locator(".tile")).to_have_count(1)


def test_a_gpu_without_an_owner_may_be_free(browser: Browser, tmp_path: Path) -> None:
    labels = {"pod": "train-0", "namespace": "ml", "container": "main"}
    with showing(browser, tmp_path, Row(0, FULL, labels), Row(1, IDLE)) as (opened, _, _):
        page = opened.open("#/gpu/1")
        owners = page.locator(".panel", has=page.get_by_role("heading", name="Owners"))
        expect(owners.locator("p")).to_have_text("Not known: no source names an owner. This GPU may be free.")


HOSTILE = (
    "<img src=x onerror=alert(1)>",
    '"><script>alert(2)</script>',
    "javascript:alert(3)",
    "{{7*7}} ${alert(4)} '`",
    "a/../../b?c#d&e=%00%zz",
    "\u202eevil\u0007 \u200b名前",
)


def test_names_and_labels_inject_nothing(browser: Browser, tmp_path: Path) -> None:
    rows = [
        Row(gpu, IDLE, {"pod": name, "namespace": name, "container": name}, node=name, model=name)
        for gpu, name in enumerate(HOSTILE)
    ]
    with showing(browser, tmp_path, *rows) as (opened, _, _):
        page = opened.open()
        page.on("dialog", lambda dialog: opened.console.append(f"dialog: {dialog.message}"))
        expect(page.locator(".tile")).to_have_count(len(HOSTILE))
        for gpu, name in enumerate(HOSTILE):
            page.goto(f"{opened.url}#/")
            tile = page.locator(".tile", has_text=f"· {gpu}")
            expect(tile).to_contain_text(name.strip()[:8].strip())
            tile.click()
            expect(page.get_by_role("heading", level=1)).to_contain_text(f"· {gpu}")
        for view in ("", "?v=table", "?v=map", "plot", "events?k=owner", "work", "sources"):
            page.goto(f"{opened.url}#/{view}")
            page.wait_for_timeout(300)
            assert page.locator("main img, main script, main iframe").count() == 0
        for name in HOSTILE:
            page.locator("#filter").fill(name)
            page.wait_for_timeout(400)
            assert page.evaluate("[...document.querySelectorAll('a')].every((a) => /^https?:/.test(a.href))")
