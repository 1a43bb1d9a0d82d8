"""Memory: 8 GPUs x 40 fields at 10 Hz, scraped every 15 s, with a full history, JSON and jobs.

Pages with jobs are replayed at 40 times their speed, with 40 times as many scrapes. Their loads are random, so that the
history compresses worse than that of real GPUs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.daemon import Daemon, serving
from tools.bench.bench_daemon import AS_PROMETHEUS, SCRAPE_SECONDS
from tools.bench.children import Usage
from tools.bench.figure import Bar, Figure
from tools.bench.ticks import GPUS, pages

INTERVAL = 0.1
SPEED = 40
PAGES, PAGES_OF_A_JOB = 600, 300

HISTORY_SECONDS = 600.0
"""history.seconds by default; history.max_bytes may keep less of random values."""

FULL_TICKS = int(1.1 * HISTORY_SECONDS / INTERVAL)
MORE_TICKS = 2 * FULL_TICKS
PATIENCE_SECONDS = 300.0

DOCUMENTS = (
    *("/gpus", "/gpus?view=summary", "/gpus/0/history", "/jobs", "/workloads", "/health/gpus"),
    *("/events/recent", "/container/metrics?derived=true", "/openapi.json"),
)


def run() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        recording = Path(name) / "pages"
        recording.mkdir()
        for number, page in enumerate(pages(GPUS, PAGES)):
            job = b'hpc_job="%d",Hostname=' % (4711 + number // PAGES_OF_A_JOB)
            (recording / f"page-{number:03}.prom").write_bytes(page.replace(b"Hostname=", job))
        settings = {
            "source.replay.path": recording,
            "source.replay.loop": "true",
            "source.replay.speed": SPEED,
            "source.interval": INTERVAL,
        }
        options = [f"--set={key}={value}" for key, value in settings.items()]
        with serving(Path(name), "--source", "replay", *options) as daemon:
            yield from _measured(daemon)


def _measured(daemon: Daemon) -> Iterator[Figure]:
    usage = Usage(daemon.process.pid)
    yield Figure("at the start", usage.resident_megabytes(), "MB")
    _read_until(daemon, FULL_TICKS)
    yield Figure("history full", usage.resident_megabytes(), "MB")
    times = daemon.get("/gpus/0/history").json()["time"]
    yield _with_documents("history full, JSON and jobs", daemon, f", {times[-1] - times[0]:.0f} s of history")
    _read_until(daemon, FULL_TICKS + MORE_TICKS)
    yield _with_documents(f"the same after {MORE_TICKS:,} further ticks", daemon)


def _with_documents(name: str, daemon: Daemon, note: str = "") -> Figure:
    """Return the memory once all documents were read."""
    documents = {path: daemon.get(path).json() for path in DOCUMENTS}
    note = f"{len(documents['/jobs']['jobs'])} jobs{note}"
    megabytes = Usage(daemon.process.pid).resident_megabytes()
    return Figure(name, megabytes, "MB", bar=Bar("value", 100), note=note)


def _read_until(daemon: Daemon, ticks: int) -> None:
    """Scrape until so many ticks were read."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _ticks_read(daemon) < ticks:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{ticks} ticks are not read after {PATIENCE_SECONDS:.0f} s:\n{daemon.log()[-2000:]}")
        daemon.get("/metrics", AS_PROMETHEUS)
        time.sleep(SCRAPE_SECONDS / SPEED)


def _ticks_read(daemon: Daemon) -> float:
    rows = daemon.get("/metrics").text.splitlines()
    return sum(float(row.rpartition(" ")[2]) for row in rows if row.startswith("pulsed_source_samples_total{"))
