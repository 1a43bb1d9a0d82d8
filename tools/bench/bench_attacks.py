"""Memory and the slowest probe of a daemon with 8 GPUs while clients attack it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.attacks.http_clients import ATTACKS
from tests.support.attacks.watch import LOGIN, Seen, attacked, forget_peak, serving_with_tls
from tests.support.daemon import serving
from tools.bench.figure import Bar, Figure

SECONDS = 10.0
MEGABYTES = 192
"""The chart's limit of memory."""

HISTORY_SECONDS = 60.0
"""Time in which 10 ticks per second fill the history as 10 minutes of one per second do."""


def run() -> Iterator[Figure]:
    demo = ("--source", "demo", "--set", "source.interval=0.1s")
    for name in ATTACKS:
        with tempfile.TemporaryDirectory() as folder, serving(Path(folder), *demo) as daemon:
            daemon.get("/gpus")
            if "histor" in name:
                time.sleep(HISTORY_SECONDS)
            forget_peak(daemon.process.pid)
            yield from _figures(name, attacked(daemon, name, SECONDS))
    for name in ATTACKS:
        with tempfile.TemporaryDirectory() as folder, serving_with_tls(Path(folder), *demo) as daemon:
            yield from _figures(f"{name}, TLS", attacked(daemon, name, SECONDS, LOGIN))


def _figures(name: str, seen: Seen) -> Iterator[Figure]:
    note = f"{len(seen.failed)} of {seen.probes} probes failed" if seen.failed else ""
    yield Figure(f"{name}, peak", seen.peak_megabytes, "MiB", bar=Bar("value", MEGABYTES))
    yield Figure(f"{name}, slowest probe", max(seen.slowest.values()), "s", bar=Bar("value", 1.0), note=note)
