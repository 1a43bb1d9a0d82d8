"""How work in this process is timed: CPU time, so that what else runs on the machine counts little."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median


def cpu_seconds(
    work: Callable[[], object], *, prepare: Callable[[], object] = lambda: None, rounds: int = 15, times: int = 1
) -> float:
    """Return the CPU seconds of one call: the median of some rounds.

    Args:
        work: what to time.
        prepare: called before each round, not timed.
        rounds: how many.
        times: calls per round; many for work that is too short for the clock.
    """
    spent = []
    for _ in range(rounds):
        prepare()
        start = time.process_time()
        for _ in range(times):
            work()
        spent.append((time.process_time() - start) / times)
    return median(spent)
