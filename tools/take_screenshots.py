"""Takes pictures of the page on the demo's cluster: `python -m tools.take_screenshots FOLDER [SECONDS]`.

Needs Chromium and the font DejaVu. The demo is the same in each run, and the pictures are taken after some minutes, by
default ten, for their history.
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

from tests.support.daemon import serving
from tests.system.web.browser import Theme, launch, new_context, started_playwright

SECONDS = 620.0
WIDTH = 1440
COLOURS = 160
MAX_BYTES = 150_000

PICTURES: tuple[tuple[str, str, Theme, int | None], ...] = (
    ("fleet", "#/", "dark", 900),
    ("fleet-light", "#/", "light", 900),
    ("gpu", "#/gpu/gpu-node-03:5", "dark", 1100),
    ("job", "#/job/48213", "dark", 1440),
    ("plot", "#/plot", "dark", 800),
    ("events", "#/events", "dark", 800),
    ("work", "#/work", "dark", 800),
)
"""Name, hash, theme, and height; None: the whole page."""


def take(folder: Path, seconds: float) -> None:
    """Start a demo, wait, and write the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    flags = ("--source", "demo", "--set", "source.demo.scene=cluster")
    with tempfile.TemporaryDirectory() as scratch, serving(Path(scratch), *flags) as daemon:
        time.sleep(seconds)
        with started_playwright() as playwright:
            browser = launch(playwright)
            for name, hash_, theme, height in PICTURES:
                viewport = {"width": WIDTH, "height": height or 1800}
                page = new_context(browser, theme, viewport=viewport).new_page()
                page.goto(f"http://{daemon.address}/{hash_}")
                page.locator(".live[data-state=live]").wait_for()
                page.wait_for_timeout(5000)
                picture = Image.open(io.BytesIO(page.screenshot(full_page=height is None))).convert("RGB")
                page.context.close()
                file = folder / f"{name}.png"
                picture.quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
                size = file.stat().st_size
                print(f"{file}: {size / 1000:.0f} kB")
                if size > MAX_BYTES:
                    raise SystemExit(f"{file} has more than {MAX_BYTES / 1000:.0f} kB")
            browser.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS)
