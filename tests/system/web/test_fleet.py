"""The fleet in a browser."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect

from tests.support.daemon import Daemon
from tests.system.web.browser import tab, url


def test_a_tile_per_gpu_and_what_it_shows(browser: Browser, demo: Daemon) -> None:
    with tab(browser, url(demo)) as opened:
        page = opened.open()
        expect(page.locator(".tile")).to_have_count(8)
        expect(page.locator(".badge")).to_have_text("DEMO")
        held = page.locator(".tile", has=page.get_by_role("link", name="GPU 5"))
        expect(held.locator(".big")).to_have_text("0\u00a0%")
        expect(held.locator(".owner")).to_have_text("idle, held by demo/demo-notebook-0")
        bar = page.get_by_role("img", name="Real utilization").first
        expect(bar).to_have_attribute("aria-label", re.compile(r"^Real utilization: \d+\s%; nvidia-smi \d+\s%$"))


def test_sparklines_have_the_pixels_of_their_place(browser: Browser, demo: Daemon) -> None:
    with tab(browser, url(demo), viewport={"width": 350, "height": 900}) as opened:
        page = opened.open()
        line = page.locator("canvas.sparkline").first
        page.wait_for_function("document.querySelector('canvas.sparkline').height !== 150")
        assert line.evaluate("(e) => [e.width - e.clientWidth, e.height - e.clientHeight]") == [0, 0]


def test_the_window_of_charts_and_the_same_time_in_grafana(browser: Browser, demo: Daemon) -> None:
    with tab(browser, url(demo)) as opened:
        config = {"publish": {"grafana_url": "https://grafana.example.org/g"}}
        opened.page.route("**/config", lambda route: route.fulfill(json=config))
        page = opened.open("#/gpu/3")
        window = page.get_by_label("Window")
        expect(window).to_have_value("600")
        window.select_option("60")
        assert page.url.endswith("?s=60")
        link = page.get_by_role("link", name="Open in Grafana")
        expect(link).to_have_attribute(
            "href",
            re.compile(r"^https://grafana\.example\.org/g/d/pulsed-gpu\?from=now-60s&to=now&var-node=.+&var-gpu=3$"),
        )
        page.goto(f"{opened.url}#/plot")
        expect(link).to_have_attribute("href", re.compile(r"/d/pulsed-fleet\?from=now-600s"))


def test_the_filter_and_the_order_are_in_the_hash(browser: Browser, demo: Daemon) -> None:
    with tab(browser, url(demo)) as opened:
        page = opened.open("#/?v=table&sort=power")
        rows = page.locator("tbody tr")
        expect(rows).to_have_count(8)
        page.keyboard.press("/")
        page.keyboard.type("class=idle & held=yes")
        expect(rows.filter(has_text="GPU 5")).to_have_count(1)
        expect(rows.filter(has_text="GPU 0")).to_have_count(0)
        assert "q=class%3Didle" in page.url
        page.reload()
        expect(page.locator("#filter")).to_have_value("class=idle & held=yes")
        page.locator("#filter").fill("nothing<1")
        expect(page.locator("#filter")).to_have_attribute("aria-invalid", "true")
        page.locator("#filter").fill("")
        page.get_by_role("button", name="nvidia-smi").click()
        expect(page.get_by_role("columnheader", name="nvidia-smi")).to_have_attribute("aria-sort", "descending")


def test_pause_freezes_the_picture_and_steps_back(browser: Browser, demo: Daemon) -> None:
    with tab(browser, url(demo)) as opened:
        page = opened.open()
        page.wait_for_timeout(3500)
        page.keyboard.press("p")
        expect(page.locator(".live")).to_have_attribute("data-state", "paused")
        shown = page.locator(".live").inner_text()
        page.wait_for_timeout(1500)
        assert page.locator(".live").inner_text() == shown
        page.keyboard.press("[")
        page.keyboard.press("[")
        expect(page.locator(".live")).not_to_have_text(shown)
        page.keyboard.press("p")
        expect(page.locator(".live")).to_have_attribute("data-state", "live")
