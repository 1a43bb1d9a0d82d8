"""How long to wait: for a result, before the next attempt, and until an idle process wakes for all its parts.

To wake costs more than most of what is done then: the processor has left a state of rest, and its caches are cold.
Must not import any layer.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


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


async def within(seconds: float | None, work: Awaitable[T]) -> T:
    """Return the result of some work; work that takes longer is cancelled, and has ended when this raises.

    A cancellation of the caller always takes effect: `asyncio.wait_for`, before Python 3.12, loses one that comes
    together with the result.

    Args:
        seconds: None for no limit.

    Raises:
        asyncio.TimeoutError: the work did not end in time.
    """
    if seconds is None:
        return await work
    future = asyncio.ensure_future(work)
    try:
        is_late = not (await asyncio.wait({future}, timeout=seconds))[0]
    finally:
        if not future.done():
            future.cancel()
            await asyncio.wait({future})
    if is_late and future.cancelled():
        raise asyncio.TimeoutError
    return future.result()
