"""Install: the daemon with its dependencies on disk, and from its start to the first sample."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.daemon import serving
from tools.bench.figure import Bar, Figure
from tools.bench.installed import ROOT, install

STARTS = 5
"""The best of so many: whatever else runs only makes it later."""


def run() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = install(str(ROOT), Path(name) / "pulsed")
        size = sum(file.lstat().st_blocks * 512 for file in folder.rglob("*"))
        packages = sum(1 for _ in folder.glob("*.dist-info"))
        yield Figure("on disk", size / 1e6, "MB", bar=Bar("value", 80), note=f"{packages} packages, without Python")
    seconds = min(_start() for _ in range(STARTS))
    yield Figure("start to first sample", seconds, "s", bar=Bar("value", 1), note="to within 0.05 s")


def _start() -> float:
    """Return the seconds until a daemon has a sample."""
    with tempfile.TemporaryDirectory() as name:
        begun = time.monotonic()
        with serving(Path(name), "--source", "demo"):
            return time.monotonic() - begun
