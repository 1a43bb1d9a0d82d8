"""The page of a fleet: names that several nodes have, the map of large and of split nodes, and narrow screens."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.daemon import Daemon, serving
from tests.system.web.browser import tab, url
from tests.system.web.exporter_text import FULL, IDLE, Row, exporter_text

CELL, GAP, NAME = 32, 6, 15
PER_NODE, COLUMNS = 128, 16
SPLIT = {name: value for name, value in FULL.items() if "_PROF_" in name}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Two nodes of 128 GPUs, one with MIG, and a source that is down."""
    folder = tmp_path_factory.mktemp("fleet")
    rows = [Row(gpu, IDLE, node=node) for node in ("big-1", "big-2") for gpu in range(PER_NODE)]
    for gpu in range(2):
        rows.append(Row(gpu, FULL, node="mig-1"))
        rows += [Row(gpu, SPLIT, {"GPU_I_ID": str(i), "GPU_I_PROFILE": "2g.20gb"}, node="mig-1") for i in (1, 2, 3)]
    file = folder / "page.prom"
    file.write_text(exporter_text(*rows))
    targets = json.dumps([str(file), "http://localhost:1/metrics"])
    with serving(folder, "--source", "exporter", "--set", f"source.exporter.targets={targets}") as daemon:
        yield daemon


def test_a_name_on_several_nodes_offers_the_choice(browser: Browser, fleet: Daemon) -> None:
    with tab(browser, url(fleet)) as opened:
        page = opened.open("#/gpu/0")
        expect(page.locator(".empty")).to_contain_text("3 GPUs are named 0.")
        expect(page.locator("ul.choice a")).to_have_text(["big-1 · 0", "big-2 · 0", "mig-1 · 0"])
        assert opened.violations() == []
        page.get_by_role("link", name="big-2 · 0").click()
        expect(page.locator(".gpu-head")).to_contain_text("big-2")
        page.goto(f"{opened.url}#/gpu/nine")
        expect(page.locator(".empty")).to_contain_text("No GPU is named nine.")


def test_the_daemons_host_is_not_shown_beside_other_nodes(browser: Browser, fleet: Daemon, demo: Daemon) -> None:
    for daemon, is_shown in ((fleet, False), (demo, True)):
        with tab(browser, url(daemon)) as opened:
            page = opened.open()
            expect(page.locator(".totals")).to_contain_text("busy")
            expect(page.locator(".totals dt", has_text="Host")).to_be_visible(visible=is_shown)
            page.goto(f"{opened.url}#/sources")
            expect(page.locator(".cost")).to_contain_text("memory of pulsed")
            expect(page.locator(".cost dt", has_text="CPU of the host")).to_be_visible(visible=is_shown)


def spoken(page: Page, x: int, y: int) -> str:
    """Return what the map names at a cell."""
    box = page.locator("canvas.heatmap").bounding_box()
    assert box
    page.mouse.move(box["x"] + x + CELL // 2, box["y"] + NAME + y + CELL // 2)
    return page.locator(".cell-text").inner_text()


def test_the_map_has_nodes_side_by_side_and_a_row_for_each_board_with_mig(browser: Browser, fleet: Daemon) -> None:
    with tab(browser, url(fleet)) as opened:
        page = opened.open("#/?v=map")
        expect(page.locator("canvas.heatmap")).to_have_attribute("aria-label", "Map of 264 GPUs by real utilization")
        node = COLUMNS * CELL + GAP
        assert spoken(page, 0, 0).startswith("big-1 · 0,")
        assert spoken(page, (COLUMNS - 1) * CELL, 7 * CELL).startswith("big-1 · 127,")
        assert spoken(page, node, 0).startswith("big-2 · 0,")
        assert spoken(page, node + (COLUMNS - 1) * CELL, 7 * CELL).startswith("big-2 · 127,")
        assert spoken(page, 2 * node, CELL).startswith("mig-1 · 1,")
        assert spoken(page, 2 * node + 3 * CELL, CELL).startswith("mig-1 · 1:3,")
        box = page.locator("canvas.heatmap").bounding_box()
        assert box
        assert box["height"] == NAME + 8 * CELL + 2


def test_an_error_of_a_source_is_read_on_a_phone(browser: Browser, fleet: Daemon) -> None:
    with tab(browser, url(fleet), viewport={"width": 390, "height": 800}) as opened:
        page = opened.open("#/sources")
        error = page.locator("table.sources td.what", has_text="localhost")
        box = error.bounding_box()
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        assert box["width"] > 250
        assert opened.violations() == []


def test_many_gpus_are_a_band_or_a_map_over_time(browser: Browser, fleet: Daemon) -> None:
    with tab(browser, url(fleet)) as opened:
        page = opened.open("#/plot?q=node=big-1&f=ru,power")
        expect(page.get_by_role("group", name="Lines")).to_contain_text(f"mean of {PER_NODE} GPUs")
        expect(page.locator(".chart h2")).to_have_text(["Real utilization", "Power"])
        page.locator(".u-wrap canvas").first.wait_for()
        page.get_by_role("button", name="map").click()
        shown = page.locator("canvas.time-map")
        expect(shown).to_have_count(2)
        expect(shown.first).to_have_attribute(
            "aria-label", re.compile(f"^Real utilization of {PER_NODE} GPUs over time")
        )
        page.get_by_text("Quantities").click()
        page.get_by_role("group", name="Quantities").get_by_role("button", name="PCIe out").click()
        expect(shown).to_have_count(3)
        expect(page.locator(".chart figcaption small").first).to_contain_text("0 to 100")
        shown.first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        expect(page.locator(".chart figcaption small").first).to_contain_text("big-1 · 1, ")
        assert opened.violations() == []


def test_all_charts_have_one_legend(browser: Browser, demo: Daemon) -> None:
    with tab(browser, url(demo)) as opened:
        page = opened.open("#/plot")
        expect(page.get_by_role("group", name="Lines").get_by_role("button")).to_have_count(8)
        expect(page.locator(".charts .chart").first.locator("figcaption small")).to_contain_text("%")
        expect(page.locator(".charts .legend")).to_have_count(0)
        assert opened.violations() == []
