"""Health of a million samples with hidden, blank, frozen, repeated and late inputs."""

from __future__ import annotations

from collections.abc import Iterator

from tests.compute.health.degraded import GPUS, TICKS, broken_promises
from tools.bench.figure import Bar, Figure

SAMPLES = 1_000_000
FIRST_SEED = 1_000_000
"""Other lives than those of the test."""


def run() -> Iterator[Figure]:
    lives = range(FIRST_SEED, FIRST_SEED + SAMPLES // (TICKS * len(GPUS)))
    found = [promise for seed in lives for promise in broken_promises(seed)]
    note = found[0] if found else "raised without reason, or ok without fresh inputs"
    yield Figure(
        f"{SAMPLES:,} samples with degraded inputs", float(len(found)), "states", bar=Bar("value", 0), note=note
    )
