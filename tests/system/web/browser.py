"""A real Chromium: pages that fail a test when the console shows anything, and axe for accessibility."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal

from playwright._impl._driver import compute_driver_executable
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright

from tests.support.daemon import Daemon
from tests.support.tools import missing, tool
from tests.support.waiting import SECONDS

CHROMIUM = "chromium-headless-shell"
"""Program and Debian package: Chromium without its own windows, whose pages open for a third of the CPU."""

AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
VIOLATIONS = f"""async () => {{
    const found = await axe.run({{runOnly: {RULES}, resultTypes: ["violations"]}});
    return found.violations.flatMap(({{id, nodes}}) =>
        nodes.map(({{target, failureSummary}}) => `${{id}}: ${{target}}: ${{failureSummary}}`));
}}"""
"""Only the violations: axe describes all nodes that passed, too, for half of its time."""

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")


@contextlib.contextmanager
def started_playwright() -> Iterator[Playwright]:
    """Start Playwright, where there is a Chromium for it and its Node.js starts."""
    tool(CHROMIUM, CHROMIUM)
    program = subprocess.run([*compute_driver_executable(), "--version"], capture_output=True, text=True, check=False)
    if program.returncode != 0:
        missing(f"Playwright does not start: {program.stderr.strip()}: apt-get install libatomic1")
    with sync_playwright() as playwright:
        yield playwright


def launch(playwright: Playwright) -> Browser:
    """Start the system's Chromium, with the same look on every machine."""
    return playwright.chromium.launch(
        executable_path=tool(CHROMIUM, CHROMIUM),
        args=["--no-sandbox", "--font-render-hinting=none", "--force-color-profile=srgb", "--disable-dev-shm-usage"],
    )


def url(daemon: Daemon) -> str:
    """Return the address of a daemon's page."""
    return f"http://{daemon.address}/"


@dataclass
class Tab:
    """A page, what its console showed, and the requests that it sent to other origins."""

    page: Page
    url: str
    console: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(1000 * SECONDS)
        self.page.on("console", lambda message: self.console.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.console.append(f"error: {error}"))
        self.page.on("request", self._note)

    def _note(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:")):
            self.foreign.append(request.url)

    def open(self, hash_: str = "#/") -> Page:
        """Open the page at a hash, and wait until it shows data."""
        self.page.goto(f"{self.url}{hash_}")
        self.page.locator(".live[data-state=live], .live[data-state=polling]").wait_for()
        return self.page

    def violations(self) -> list[str]:
        """Run axe; return a line per violation."""
        if self.page.evaluate("typeof axe") == "undefined":
            self.page.evaluate(AXE)
        lines: list[str] = self.page.evaluate(VIOLATIONS)
        return lines


@contextlib.contextmanager
def tab(browser: Browser, url: str, **options: Any) -> Iterator[Tab]:
    """Open a tab in a context of its own; afterwards the console must be empty, and nothing was sent elsewhere."""
    context = new_context(browser, **options)
    try:
        opened = Tab(context.new_page(), url)
        yield opened
        assert not opened.console, opened.console
        assert not opened.foreign, opened.foreign
    finally:
        context.close()


def new_context(browser: Browser, theme: Theme = "light", **options: Any) -> BrowserContext:
    """Return a context without animations."""
    given = {"viewport": {"width": 1280, "height": 900}, **options}
    return browser.new_context(color_scheme=theme, reduced_motion="reduce", **given)
