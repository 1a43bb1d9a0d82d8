"""Pauses that end at the same moments for all parts, so that an idle process wakes once and not once for each part.

To wake costs more than most of what is done then: the processor has left a state of rest, and its caches are cold.
Must not import any layer.
"""

from __future__ import annotations

import asyncio
import math


def next_multiple(seconds: float, now: float) -> float:
    """Return the multiple of `seconds` that is one interval after the one nearest to `now`.

    It is half an interval to one and a half after `now`, so that no short pause follows one that ends early.
    """
    return (math.floor(now / seconds + 0.5) + 1) * seconds


async def aligned_sleep(seconds: float) -> None:
    """Sleep until the event loop's clock is at the next multiple of `seconds`."""
    now = asyncio.get_running_loop().time()
    await asyncio.sleep(next_multiple(seconds, now) - now)
