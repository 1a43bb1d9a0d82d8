"""Pages beside misbehaving exporters, one of each kind of `tests.system.end_to_end.misbehaving`, on two busy cores."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.daemon import free_port, serving
from tests.system.end_to_end.misbehaving import KINDS
from tools.bench.children import child
from tools.bench.figure import Bar, Figure

SECONDS = 30.0
BUSY_CORES = 2


def run() -> Iterator[Figure]:
    kinds, port = [*list(KINDS)[::2], "good"], free_port()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        config = folder / "pulsed.yaml"
        targets = "".join(f"      - http://127.0.0.1:{port}/{name}\n" for name in kinds)
        config.write_text(f"source:\n  kind: exporter\n  interval: 3s\n  exporter:\n    targets:\n{targets}")
        stack.enter_context(child("tests.system.end_to_end.misbehaving", port))
        daemon = stack.enter_context(serving(folder, "--config.file", str(config)))
        for _ in range(BUSY_CORES):
            busy = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(busy.kill)
        pages: list[float] = []
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            begun = time.perf_counter()
            daemon.get("/metrics")
            pages.append((time.perf_counter() - begun) * 1e3)
            time.sleep(0.05)
    yield Figure("median page", sorted(pages)[len(pages) // 2], "ms", note=f"{len(kinds) - 1} kinds")
    yield Figure("slowest page", max(pages), "ms", bar=Bar("value", 250), note=f"of {len(pages)}")
