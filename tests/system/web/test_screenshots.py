"""The look of the fleet on fixed data, compared with pictures; UPDATE_GOLDEN=1 writes them anew.

Fonts differ between systems: the pictures are of Debian's fonts-dejavu-core.
"""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image, ImageChops
from playwright.sync_api import Browser, Page

from tests.support.daemon import Daemon, serving
from tests.support.nightly import nightly_after
from tests.support.tools import missing
from tests.system.web.browser import THEMES, Theme, tab, url
from tests.system.web.exporter_text import FULL, IDLE, NOTHING, PARTIAL, Row, exporter_text

PICTURES = Path(__file__).parent / "pictures"
MAX_PIXELS = 0.001
"""Share of pixels that may differ by more than `MAX_DIFFERENCE` in a channel."""

MAX_DIFFERENCE = 24
OWNER = {"namespace": "ml", "pod": "train-0", "container": "main"}
VOLATILE = ".live, .totals > div:nth-child(5) dd, .sparkline, .class-name"
"""Ages, the host's load, and times of classes."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("fleet")
    file = folder / "page.prom"
    file.write_text(exporter_text(Row(0, FULL, OWNER), Row(1, PARTIAL), Row(2, NOTHING), Row(3, IDLE, OWNER)))
    flags = ("--source", "exporter", "--set", f"source.exporter.targets=[{file}]", "--set", "source.interval=1s")
    with serving(folder, *flags) as daemon:
        yield daemon


@pytest.mark.parametrize("theme", nightly_after(1, THEMES))
@pytest.mark.parametrize("view", ["tiles", "table", "map"])
def test_the_look_of_the_fleet(browser: Browser, fleet: Daemon, theme: Theme, view: str) -> None:
    font = subprocess.run(["fc-match", "system-ui"], capture_output=True, text=True, check=True).stdout
    if "DejaVu Sans" not in font:
        missing("the system's font is not DejaVu Sans: apt-get install fonts-dejavu-core")
    with tab(browser, url(fleet), theme=theme, viewport={"width": 1000, "height": 760}) as opened:
        page = opened.open(f"#/?v={view}")
        page.locator(".totals dd").first.wait_for()
        page.wait_for_timeout(2500)  # the class is settled
        page.evaluate("document.querySelector('.totals > div:nth-child(5)').style.width = '260px'")
        compare(page, PICTURES / f"{view}-{theme}.png")


def compare(page: Page, picture: Path) -> None:
    """Compare a screenshot with a picture."""
    found = Image.open(io.BytesIO(page.screenshot(mask=[page.locator(VOLATILE)], mask_color="#808080"))).convert("RGB")
    if os.environ.get("UPDATE_GOLDEN"):
        picture.parent.mkdir(exist_ok=True)
        found.quantize(128).save(picture, optimize=True)
    expected = Image.open(picture).convert("RGB")
    assert found.size == expected.size
    bands = ImageChops.difference(found, expected).convert("L").histogram()
    different = sum(bands[MAX_DIFFERENCE:]) / (found.size[0] * found.size[1])
    if different > MAX_PIXELS:
        found.save(Path(os.environ.get("TMPDIR", "/tmp")) / f"pulsed-{picture.name}")
    assert different <= MAX_PIXELS, f"{different:.2%} of the pixels of {picture.name} differ"
