"""Square: a GPU that is busy for 0.3 s of every second, seen for ten minutes by a real Prometheus every 15 s."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import which

from tests.support.square_wave import BUSY, compare
from tools.bench.figure import Bar, Figure, Skipped

SCRAPES = 41


def run() -> Iterator[Figure]:
    if which("prometheus") is None:
        raise Skipped("prometheus is missing: apt-get install prometheus")
    with tempfile.TemporaryDirectory() as folder:
        seen = compare(Path(folder), SCRAPES)
    yield Figure("truth", seen.truth * 100, "%", note=f"share of time at real utilization 1; {BUSY:.0%} as played")
    error = _error(seen.gauge, seen.truth)
    gauge = Figure("error of the gauge's average", error, "% of it", note=f"{seen.gauge:.4f}, {seen.samples} samples")
    yield gauge
    yield Figure(
        "error of the counters' quotient",
        _error(seen.counter, seen.truth),
        "% of it",
        gauge,
        Bar("value", 0.5),
        f"{seen.counter:.4f} of observed time, which is {seen.observed:.2%} of what ticks cover",
    )


def _error(share: float, truth: float) -> float:
    return abs(share / truth - 1) * 100
