"""Laws of results over random sequences of time: `SEQUENCES` of them from a fresh seed, on all cores.

`SEQUENCES` and `SEED` of the environment choose how many and which.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.support.sequences.laws import STEPS, broken_laws
from tests.support.sequences.omissions import changed_by_omissions
from tests.support.sequences.restarts import changed_by_restarts
from tools.bench.figure import Bar, Figure

SEQUENCES = 100_000
BATCH = 250

PRINTED = 20
"""Broken laws that are printed."""


def run() -> Iterator[Figure]:
    count = int(os.environ.get("SEQUENCES", SEQUENCES))
    first = int(os.environ.get("SEED", random.SystemRandom().randrange(10**9)))
    begin, broken = time.monotonic(), 0
    with ProcessPoolExecutor() as pool:
        for complaints in pool.map(partial(_check, end=first + count), range(first, first + count, BATCH)):
            for complaint in complaints[: max(0, PRINTED - broken)]:
                print(complaint)
            broken += len(complaints)
    name = f"{count} sequences of {STEPS} steps from seed {first}: broken laws"
    yield Figure(name, broken, "", bar=Bar("value", 0), note=f"{time.monotonic() - begin:.0f} s")


def _check(first: int, end: int) -> list[str]:
    """Return the broken laws of a batch of seeds."""
    seeds = range(first, min(first + BATCH, end))
    laws = broken_laws, changed_by_omissions, changed_by_restarts
    return [complaint for seed in seeds for law in laws for complaint in law(seed)]
