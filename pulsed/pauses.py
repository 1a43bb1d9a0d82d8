"""How long to wait: before the next attempt, and until an idle process wakes for all its parts.

To wake costs more than most of what is done then: the processor has left a state of rest, and its caches are cold.
Must not import any layer.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable


class Backoff:
    """Pauses that double from `first` to `longest` seconds, shortened at random so that nodes do not retry together."""

    def __init__(self, first: float, longest: float, random: Callable[[], float]) -> None:
        self._first, self._longest, self._random = first, longest, random
        self._next = first

    def next(self) -> float:
        """Return the seconds to wait after one more failure: between half and the whole of what is due."""
        due, self._next = self._next, min(self._longest, 2 * self._next)
        return due * (1 - self._random() / 2)

    def reset(self) -> None:
        """Start over with the first pause, after a success."""
        self._next = self._first


def next_multiple(seconds: float, now: float) -> float:
    """Return the multiple of `seconds` that is one interval after the one nearest to `now`.

    It is half an interval to one and a half after `now`, so that no short pause follows one that ends early.
    """
    return (math.floor(now / seconds + 0.5) + 1) * seconds


async def aligned_sleep(seconds: float) -> None:
    """Sleep until the event loop's clock is at the next multiple of `seconds`."""
    now = asyncio.get_running_loop().time()
    await asyncio.sleep(next_multiple(seconds, now) - now)
