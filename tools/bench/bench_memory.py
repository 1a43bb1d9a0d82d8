"""Memory: a daemon whose history is full, 8 GPUs x 40 fields at 10 Hz, scraped every 15 s.

A capture is replayed at 40 times its speed, with 40 times as many scrapes. The loads in it are random, so that the
history compresses worse than that of real GPUs.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.support.daemon import Daemon, free_port, serving
from tools.bench.bench_daemon import AS_PROMETHEUS, SCRAPE_SECONDS, TICKS
from tools.bench.captures import capture
from tools.bench.children import Usage, child
from tools.bench.exporters import url
from tools.bench.figure import Bar, Figure
from tools.bench.measure import samples_taken

INTERVAL = 0.1
SPEED = 40
FULL_SECONDS = 600.0
"""history.seconds by default."""

FILLED_TICKS = 1.1 * FULL_SECONDS / INTERVAL
PATIENCE_SECONDS = 300.0


def run() -> Iterator[Figure]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        recording = folder / "capture.txt"
        recording.write_text(capture(TICKS), encoding="utf-8")
        exporters, port = free_port(), free_port()
        stack.enter_context(child("tools.bench.exporters", exporters, 1))
        republisher = Usage(stack.enter_context(child("tools.bench.client_app", port, url(exporters, 0), 1)).pid)
        daemon = stack.enter_context(
            serving(
                folder,
                *("--source", "replay", "--set", f"source.replay.path={recording}"),
                *("--set", "source.replay.loop=true", "--set", f"source.replay.speed={SPEED}"),
                *("--set", f"source.interval={INTERVAL}"),
            )
        )
        usage = Usage(daemon.process.pid)
        yield Figure("at the start", usage.resident_megabytes(), "MB")
        _fill(daemon)
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).close()
        baseline = Figure("prometheus_client republishes", republisher.resident_megabytes(), "MB")
        yield baseline
        yield Figure("history full", usage.resident_megabytes(), "MB", baseline, Bar("value", 60))
        daemon.get("/gpus")
        yield Figure(
            "history full, after the first /gpus", usage.resident_megabytes(), "MB", baseline, Bar("value", 72)
        )
        times = daemon.get("/gpus/0/history").json()["time"]
        if times[-1] - times[0] < 0.99 * FULL_SECONDS:
            raise RuntimeError(f"the history holds {times[-1] - times[0]:.0f} s instead of {FULL_SECONDS:.0f}")
        yield Figure("the same after the first download of a history", usage.resident_megabytes(), "MB", baseline)


def _fill(daemon: Daemon) -> None:
    """Scrape until the history is full and has begun to drop samples."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while samples_taken(daemon.get("/metrics").text) < FILLED_TICKS:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the history is not full after {PATIENCE_SECONDS:.0f} s:\n{daemon.log()[-2000:]}")
        daemon.get("/metrics", AS_PROMETHEUS)
        time.sleep(SCRAPE_SECONDS / SPEED)
