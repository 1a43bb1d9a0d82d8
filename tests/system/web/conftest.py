"""One Chromium and one demo daemon for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.support.daemon import Daemon, serving
from tests.system.web.browser import launch, started_playwright


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    # Playwright's event loop runs in this thread until the end: no other package's tests may run meanwhile.
    with started_playwright() as playwright:
        started = launch(playwright)
        yield started
        started.close()


@pytest.fixture(scope="package")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with serving(tmp_path_factory.mktemp("demo"), "--source", "demo") as daemon:
        yield daemon
