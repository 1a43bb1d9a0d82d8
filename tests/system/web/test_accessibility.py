"""Every view in both themes: no violation of WCAG 2.2 AA that axe finds, and an empty console."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.support.daemon import Daemon
from tests.support.nightly import nightly_after
from tests.system.web.browser import THEMES, Tab, Theme, tab, url

VIEWS = {
    "#/": ".tile",
    "#/?v=table": "table.gpus tbody tr",
    "#/?v=map": "canvas.heatmap",
    "#/?v=map&c=bottleneck&q=class!=idle": "canvas.heatmap",
    "#/?v=map&c=health": "canvas.heatmap",
    "#/?q=nothing": ".empty",
    "#/gpu/7": ".u-wrap canvas",
    "#/gpu/nothing": ".empty",
    "#/plot": ".u-wrap canvas",
    "#/plot?m=map&f=ru,power": "canvas.time-map",
    "#/job/4711": ".job .u-wrap canvas",
    "#/pod/demo/demo-notebook-0?with=4711": ".job-gpus tbody tr",
    "#/work?by=namespace&sort=energy": "tr.group",
    "#/events": ".toolbar button[aria-pressed=true]",
    "#/events?k=health,owner,workload_class": "table.events tbody tr",
    "#/work": "table.work tbody tr",
    "#/sources": "tbody tr",
}
"""With something that each shows once it has its data."""


@pytest.fixture(scope="module", params=nightly_after(1, THEMES))
def themed(request: pytest.FixtureRequest, browser: Browser, demo: Daemon) -> Iterator[Tab]:
    with tab(browser, url(demo), theme=request.param) as opened:
        yield opened


@pytest.mark.parametrize("hash_", VIEWS)
def test_no_violation_and_no_console_message(themed: Tab, hash_: str) -> None:
    page = themed.open(hash_)
    page.locator(VIEWS[hash_]).first.wait_for()
    assert themed.violations() == []
    assert themed.console == []


@pytest.mark.parametrize("theme", nightly_after(1, THEMES))
def test_the_help(browser: Browser, demo: Daemon, theme: Theme) -> None:
    with tab(browser, url(demo), theme=theme) as opened:
        page = opened.open()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("Memory:")
        assert opened.violations() == []


@pytest.fixture(scope="module", params=nightly_after(1, [320, 700]))
def narrow(request: pytest.FixtureRequest, browser: Browser, demo: Daemon) -> Iterator[Tab]:
    with tab(browser, url(demo), viewport={"width": request.param, "height": 800}) as opened:
        yield opened


@pytest.mark.parametrize("hash_", ["#/", "#/gpu/7", "#/plot", "#/events", "#/work", "#/job/4711", "#/sources"])
def test_narrow_screens_scroll_in_one_direction_only(narrow: Tab, hash_: str) -> None:
    page = narrow.open(hash_)
    page.locator(VIEWS[hash_].replace(".u-wrap canvas", ".chart")).first.evaluate("e => e.scrollIntoView()")
    page.locator(VIEWS[hash_]).first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_keyboard_alone_reaches_everything(browser: Browser, demo: Daemon) -> None:
    with tab(browser, url(demo)) as opened:
        page = opened.open()
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
        for _ in range(3):
            page.keyboard.press("j")
        expect(page.get_by_role("link", name="GPU 2")).to_be_focused()
        page.keyboard.press("k")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("GPU 1")
        chart = page.locator(".plot").first
        page.locator(".u-wrap canvas").first.wait_for()
        chart.focus()
        page.keyboard.press("ArrowLeft")
        expect(page.locator(".chart figcaption small").nth(1)).not_to_be_empty()
        page.keyboard.press("Escape")
        for key, heading in (
            ("3", "Plot"),
            ("4", "Events"),
            ("5", "Work"),
            ("6", "Sources"),
            ("1", "Fleet"),
        ):
            page.keyboard.press(key)
            expect(page.get_by_role("heading", level=1)).to_have_text(heading)
        page.keyboard.press("v")
        expect(page.locator("table.gpus")).to_be_visible()
        page.keyboard.press("v")
        page.locator("canvas.heatmap").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        expect(page.locator(".cell-text")).to_contain_text("GPU 1, real utilization")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("GPU 1")
        page.keyboard.press("Escape")
        expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")


def test_single_keys_can_be_turned_off(browser: Browser, demo: Daemon) -> None:
    with tab(browser, url(demo)) as opened:
        page = opened.open()
        page.keyboard.press("?")
        page.get_by_label("Single keys are on").uncheck()
        page.keyboard.press("Escape")
        page.keyboard.press("5")
        page.keyboard.press("?")
        expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
        page.get_by_role("button", name="Help").click()
        expect(page.get_by_role("dialog")).to_be_visible()


def test_the_focus_is_not_below_the_bar_at_the_top(browser: Browser, demo: Daemon) -> None:
    with tab(browser, url(demo), viewport={"width": 1000, "height": 500}) as opened:
        page = opened.open("#/?v=table")
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        for _ in range(8):
            page.keyboard.press("k")
        bottom = page.locator("#header").bounding_box()
        focused = page.locator(":focus").bounding_box()
        assert bottom
        assert focused
        assert focused["y"] >= bottom["y"] + bottom["height"]
