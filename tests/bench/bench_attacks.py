"""Memory and the slowest probe of a daemon with 8 GPUs while clients attack it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.attacks.http_clients import ATTACKS
from tests.attacks.watch import attacked
from tests.bench.figure import Bar, Figure
from tests.daemon import serving

SECONDS = 10.0
MEGABYTES = 192
"""The chart's limit of memory."""


def run() -> Iterator[Figure]:
    for name in ATTACKS:
        with (
            tempfile.TemporaryDirectory() as folder,
            serving(Path(folder), "--source", "demo") as daemon,
        ):
            daemon.get("/gpus")
            seen = attacked(daemon, name, SECONDS)
        note = f"{len(seen.failed)} of {seen.probes} probes failed" if seen.failed else ""
        yield Figure(f"{name}, peak", seen.peak_megabytes, "MiB", bar=Bar("value", MEGABYTES))
        slowest = max(seen.slowest.values())
        yield Figure(f"{name}, slowest probe", slowest, "s", bar=Bar("value", 1.0), note=note)
