"""Attacks: the largest memory and the slowest probe of daemons with 8 GPUs and a full history while clients attack."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.attacks.http_clients import ATTACKS
from tests.support.attacks.watch import LOGIN, attacked, forget_peak, serving_with_tls
from tests.support.daemon import serving
from tools.bench.figure import Bar, Figure

SECONDS = 3.0
MEBIBYTES = 128

HISTORY_SECONDS = 60.0
"""Time in which 10 ticks per second fill the history as 10 minutes of one per second do."""


def run() -> Iterator[Figure]:
    demo = ("--source", "demo", "--set", "source.interval=0.1s")
    with contextlib.ExitStack() as stack:
        plain, secure = (Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2))
        daemons = (
            ("HTTP", stack.enter_context(serving(plain, *demo)), None),
            ("TLS", stack.enter_context(serving_with_tls(secure, *demo)), LOGIN),
        )
        time.sleep(HISTORY_SECONDS)
        for name, daemon, login in daemons:
            peaks: dict[str, float] = {}
            probes: dict[str, float] = {}
            failed = 0
            for attack in ATTACKS:
                forget_peak(daemon.process.pid)
                seen = attacked(daemon, attack, SECONDS, login)
                peaks[attack], probes[attack] = seen.peak_megabytes, max(seen.slowest.values())
                failed += len(seen.failed)
            title = f"{len(ATTACKS)} attacks, {name}"
            note = _worst(peaks, MEBIBYTES)
            yield Figure(f"{title}: peak", max(peaks.values()), "MiB", bar=Bar("value", MEBIBYTES), note=note)
            note = f"{_worst(probes, 1)}; {failed} probes failed"
            yield Figure(f"{title}: slowest probe", max(probes.values()), "s", bar=Bar("value", 1), note=note)


def _worst(figures: Mapping[str, float], limit: float) -> str:
    """Return the worst attack, and the first one beyond a limit: later ones begin with what it left."""
    worst = max(figures, key=figures.__getitem__)
    first = next((name for name, value in figures.items() if value > limit), worst)
    return worst if first == worst else f"worst {worst}, first {first}"
