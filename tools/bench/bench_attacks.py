"""Attacks: the largest memory and the slowest probe of daemons with 8 GPUs, a full history and accounts in files."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.attacks.account_files import write_account_files
from tests.support.attacks.http_clients import ATTACKS
from tests.support.attacks.watch import LOGIN, PROBES, attacked, forget_peak, serving_with_tls
from tests.support.daemon import serving
from tools.bench.figure import Bar, Figure

SECONDS = 3.0
MEBIBYTES = 128

HEALTH = "/health/gpus"

ACCOUNT_MEBIBYTES = 256
"""The default of `accounts.max_bytes`."""

HISTORY_SECONDS = 60.0
"""Time in which 10 ticks per second fill the history as 10 minutes of one per second do."""


def run() -> Iterator[Figure]:
    demo = ("--source", "demo", "--set", "source.interval=0.1s")
    with contextlib.ExitStack() as stack:
        plain, secure = (Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2))
        for folder in (plain, secure):
            write_account_files(folder / "state", ACCOUNT_MEBIBYTES)
        states = [f"--set=state_dir={folder / 'state'}" for folder in (plain, secure)]
        daemons = (
            ("HTTP", stack.enter_context(serving(plain, *demo, states[0])), None),
            ("TLS", stack.enter_context(serving_with_tls(secure, *demo, states[1])), LOGIN),
        )
        time.sleep(HISTORY_SECONDS)
        for protocol, daemon, login in daemons:
            peaks: dict[str, float] = {}
            probes: dict[str, float] = {}
            health: dict[str, float] = {}
            failed = Counter[str]()
            for attack in ATTACKS:
                forget_peak(daemon.process.pid)
                seen = attacked(daemon, attack, SECONDS, login, (*PROBES, HEALTH))
                peaks[attack], health[attack] = seen.peak_megabytes, seen.slowest.pop(HEALTH)
                probes[attack] = max(seen.slowest.values())
                failed.update(text.partition(":")[0] for text in seen.failed)
            title = f"{len(ATTACKS)} attacks, {protocol}"
            note = _worst(peaks, MEBIBYTES)
            yield Figure(f"{title}: peak", max(peaks.values()), "MiB", bar=Bar("value", MEBIBYTES), note=note)
            for name, seconds in (("probe", probes), (HEALTH, health)):
                failures = failed[HEALTH] if name == HEALTH else failed.total() - failed[HEALTH]
                note = f"{_worst(seconds, 1)}; {failures} failed"
                yield Figure(f"{title}: slowest {name}", max(seconds.values()), "s", bar=Bar("value", 1), note=note)


def _worst(figures: Mapping[str, float], limit: float) -> str:
    """Return the worst attack, and the first one beyond a limit: later ones begin with what it left."""
    worst = max(figures, key=figures.__getitem__)
    first = next((name for name, value in figures.items() if value > limit), worst)
    return worst if first == worst else f"worst {worst}, first {first}"
