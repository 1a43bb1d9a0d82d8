"""Streams that end, are refused or forbidden; proxies; many windows; hidden ones."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, expect

from tests.server.test_users import hashed
from tests.support.daemon import Daemon, free_port, serving
from tests.support.waiting import until
from tests.system.web.browser import new_context, tab, url

RECOVERY_MS = 90_000
"""The back-off is at most 30 s."""


HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_without_a_place_for_a_stream_it_polls_until_there_is_one(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path, "--source", "demo", "--set", "events.max_subscribers=1") as daemon:
        other = http.client.HTTPConnection("127.0.0.1", daemon.port)
        other.request("GET", "/events")
        assert other.getresponse().status == 200
        with tab(browser, url(daemon)) as opened:
            page = opened.open()
            expect(page.locator(".live")).to_have_attribute("data-state", "polling")
            expect(page.locator(".live")).to_contain_text(re.compile("polling [0-3]\\s"))
            first = page.locator(".tile .big").first.inner_text()
            expect(page.locator(".tile .big").first).not_to_have_text(first, timeout=RECOVERY_MS)
            other.close()
            expect(page.locator(".live")).to_have_attribute("data-state", "live", timeout=RECOVERY_MS)
            refused = [line for line in opened.console if "503" not in line]
            assert refused == []
            opened.console.clear()  # the browser itself logs each 503


@pytest.mark.nightly
def test_a_daemon_that_restarts(browser: Browser, tmp_path: Path) -> None:
    port = free_port()
    flags = ("--source", "demo", "--web.listen-address", f"127.0.0.1:{port}")
    with serving(tmp_path, *flags), tab(browser, f"http://127.0.0.1:{port}/") as opened:
        page = opened.open()
    with serving(tmp_path, *flags) as daemon, tab(browser, f"http://127.0.0.1:{port}/") as opened:
        page = opened.open()
        daemon.stop()
        expect(page.locator(".live")).to_have_attribute("data-state", "offline")
        expect(page.locator(".banner")).to_contain_text("No connection to the daemon")
        expect(page.locator(".tile")).to_have_count(8)
        with serving(tmp_path, *flags):
            expect(page.locator(".live")).to_have_attribute("data-state", "live", timeout=RECOVERY_MS)
            expect(page.locator(".banner")).to_be_hidden()
            assert all("ERR_" in line for line in opened.console)
            opened.console.clear()  # the browser logs refused connections


def test_users_sign_in_and_again_when_the_password_changes(browser: Browser, tmp_path: Path) -> None:
    config = tmp_path / "web.yml"
    config.write_text(yaml.safe_dump({"basic_auth_users": {"alice": hashed(b"hunter2")}}))
    flags = ("--source", "demo", "--set", "web.open_probes=true", "--web.config.file", str(config))
    alice = {"username": "alice", "password": "hunter2"}
    with serving(tmp_path, *flags) as daemon, tab(browser, url(daemon), http_credentials=alice) as opened:
        page = opened.open()
        expect(page.locator(".live")).to_have_attribute("data-state", "live")
        context = page.context
        context.route(re.compile("/(gpus|events|host)"), lambda route: route.fulfill(status=401, body="Unauthorized"))
        page.evaluate("dispatchEvent(new Event('online'))")
        expect(page.locator(".banner")).to_contain_text("sign-in")
        expect(page.get_by_role("button", name="Sign in")).to_be_visible()
        context.unroute_all()
        expect(page.locator(".live")).to_have_attribute("data-state", "live", timeout=RECOVERY_MS)
        expect(page.locator(".banner")).to_be_hidden()
        assert all("401" in line for line in opened.console)
        opened.console.clear()


@contextmanager
def proxy(daemon: Daemon, prefix: str) -> Iterator[str]:
    """Serve a daemon below a prefix; yield the address."""
    port = free_port()
    words = ("-m", "tests.system.web.prefix_proxy", str(port), f"http://{daemon.address}", prefix)
    with subprocess.Popen([sys.executable, *words]) as process:
        try:
            until(lambda: _listens(port))
            yield f"http://127.0.0.1:{port}{prefix}/"
        finally:
            process.kill()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@pytest.mark.parametrize("is_configured", [False, True])
def test_below_a_path_of_a_proxy(browser: Browser, tmp_path: Path, is_configured: bool) -> None:
    flags = ("--web.external-url=https://example.org/x/gpu", "--web.route-prefix=/") if is_configured else ()
    with (
        serving(tmp_path, "--source", "demo", *flags) as daemon,
        proxy(daemon, "/x/gpu") as address,
        tab(browser, address) as opened,
    ):
        page = opened.open()
        expect(page.locator(".live")).to_have_attribute("data-state", "live")
        expect(page.locator(".tile")).to_have_count(8)
        page.get_by_role("link", name="GPU 3").click()
        page.locator(".u-wrap canvas").first.wait_for()
        assert page.url.startswith(f"{address}#/gpu/")


@pytest.mark.nightly
def test_seven_windows_all_show_data(browser: Browser, demo: Daemon) -> None:
    context = new_context(browser)
    try:
        pages = [context.new_page() for _ in range(7)]
        for page in pages:
            page.goto(url(demo))
            page.locator(".live[data-state=live], .live[data-state=polling]").wait_for()
        for page in pages:
            expect(page.locator(".tile")).to_have_count(8)
            page.wait_for_timeout(2500)
            expect(page.locator(".live")).to_contain_text(re.compile(r"(live|polling) [0-4]\s"))
    finally:
        context.close()


def test_a_hidden_tab_gives_its_stream_back(browser: Browser, demo: Daemon) -> None:
    with tab(browser, url(demo)) as opened:
        opened.page.clock.install()
        page = opened.open()
        expect(page.locator(".live")).to_have_attribute("data-state", "live")
        page.evaluate(HIDE, True)
        page.clock.run_for(31_000)
        expect(page.locator(".live")).to_have_attribute("data-state", "hidden")
        page.evaluate(HIDE, False)
        expect(page.locator(".live")).to_have_attribute("data-state", "live")
