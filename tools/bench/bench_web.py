"""Web: the page's size, its first paint, the CPU of a tab in Chromium, and what a tab costs the daemon."""

from __future__ import annotations

import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from playwright.sync_api import Browser, Page

from pulsed.present.web import Assets
from tests.support.daemon import Daemon, free_port, serving
from tests.support.waiting import until
from tests.system.web.browser import has_chromium, launch, new_context, started_playwright
from tools.bench.children import Usage, child
from tools.bench.exporters import url
from tools.bench.figure import Bar, Figure, Skipped
from tools.bench.ticks import GPUS

SECONDS = 20.0
PAINTS = 9
TABS = 8


def run() -> Iterator[Figure]:
    if not has_chromium():
        raise Skipped("chromium is not installed: apt-get install chromium")
    assets = Assets.load()
    files = {name: asset for name, asset in assets.files.items() if not name.endswith("LICENSE")}
    page = assets.page("0", "/metrics", None)
    size = len(page.compressed) + sum(len(asset.compressed) for asset in files.values())
    vendored = sum(len(asset.compressed) for name, asset in files.items() if name.startswith("vendor/"))
    yield Figure(
        "page, all files, gzip", size / 1000, "kB", bar=Bar("value", 150), note=f"{vendored / 1000:.0f} kB of it uPlot"
    )
    with started_playwright() as playwright:
        browser = launch(playwright)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with serving(folder, "--source", "demo") as daemon:
                yield from _small(browser, daemon)
            yield from _large(browser, folder, 32, "256 rows at 1 Hz", 1.0, 5.0)
            yield from _large(browser, folder, 1250, "10,000 cells every 15 s", 15.0, 2.0)
        browser.close()


def _small(browser: Browser, daemon: Daemon) -> Iterator[Figure]:
    address = f"http://{daemon.address}/"
    before = Usage(daemon.process.pid)
    time.sleep(SECONDS)
    alone = before.cpu_percent()
    _open(browser, address).context.close()  # the first request imports the API
    paints = []
    for _ in range(PAINTS):
        page = _open(browser, address)
        paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        page.context.close()
    yield Figure("first paint, nothing cached", statistics.median(paints), "ms", bar=Bar("value", 300))
    page = _open(browser, address)
    for what, hash_ in (
        ("8 tiles at 1 Hz", "#/"),
        ("a GPU with 8 charts", "#/gpu/0"),
        ("12 plots of 8 GPUs", "#/plot"),
    ):
        yield _tab(page, address, hash_, f"tab: {what}", 3.0)
    page.context.close()
    memory = before.resident_megabytes()
    idle = _percent(daemon)
    with contextlib.ExitStack() as stack:
        for _ in range(TABS):
            stack.callback(_open(browser, address).context.close)
        busy = _percent(daemon)
        each = (before.resident_megabytes() - memory) / TABS
    yield Figure("daemon: 1 Hz without a tab", alone, "% of a core", note=f"{idle:.2f} % after one was open")
    yield Figure("daemon: each further tab", max(0.0, (busy - idle) / TABS), "% of a core", bar=Bar("value", 0.1))
    yield Figure("daemon: memory of each tab", max(0.0, each), "MB", bar=Bar("value", 0.5))


def _large(browser: Browser, folder: Path, nodes: int, what: str, interval: float, limit: float) -> Iterator[Figure]:
    port = free_port()
    with child("tools.bench.exporters", port, nodes):
        settings = {
            "source.interval": f"{interval}s",
            "source.exporter.targets": [url(port, node) for node in range(nodes)],
        }
        flags = [word for name, value in settings.items() for word in ("--set", f"{name}={json.dumps(value)}")]
        with serving(folder, "--source", "exporter", *flags) as daemon:
            until(lambda: len(daemon.get("/gpus?view=summary&fields=health_state").json()["stale"]) == nodes * GPUS)
            time.sleep(interval)
            address = f"http://{daemon.address}/"
            page = _open(browser, address)
            yield _tab(page, address, "#/", f"tab: {what}", limit, max(SECONDS, 2 * interval))
            page.context.close()


def _open(browser: Browser, address: str) -> Page:
    page = new_context(browser).new_page()
    page.goto(address)
    page.locator(".live[data-state=live], .live[data-state=polling]").wait_for(timeout=60_000)
    return page


def _tab(page: Page, address: str, hash_: str, name: str, limit: float, seconds: float = SECONDS) -> Figure:
    """Measure the CPU of the tab's process, and of all of Chromium, which paints without a GPU here."""
    page.goto(f"{address}{hash_}")
    time.sleep(max(5.0, seconds / 2))
    renderers, others = _chromium(page)
    begun = time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - begun
    own = sum(usage.cpu_seconds() for usage in renderers)
    rest = sum(usage.cpu_seconds() for usage in others)
    note = f"and {100 * rest / elapsed:.1f} % in Chromium's other processes, with painting in software"
    return Figure(name, 100 * own / elapsed, "% of a core", bar=Bar("value", limit), note=note)


def _chromium(page: Page) -> tuple[list[Usage], list[Usage]]:
    """Return the usage of the processes of tabs, and of the others, of the browser of this page."""
    session = page.context.browser.new_browser_cdp_session() if page.context.browser else None
    if session is None:
        raise RuntimeError("the page has no browser")
    found = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    alive = [(each["type"], each["id"]) for each in found if psutil.pid_exists(each["id"])]
    tabs = [Usage(pid) for kind, pid in alive if kind == "renderer"]
    return tabs, [Usage(pid) for kind, pid in alive if kind != "renderer"]


def _percent(daemon: Daemon) -> float:
    usage = Usage(daemon.process.pid)
    time.sleep(SECONDS)
    return usage.cpu_percent()
