"""The pace of a playback: when each recorded tick is due."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class Pacer:
    """Waits until recorded ticks are due. A reader that is late by more than an interval gets no burst of ticks.

    Args:
        speed: 1 as recorded, 10 ten times as fast, 0 without waiting.
        clock: monotonic seconds.
    """

    def __init__(self, speed: float, clock: Callable[[], float], sleep: Callable[[float], Awaitable[object]]) -> None:
        self._speed, self._clock, self._sleep = speed, clock, sleep
        self._last: tuple[float, float] | None = None  # when the last tick was due, and its recorded moment

    async def wait(self, moment: float, interval: float) -> None:
        """Wait until a tick is due; may be cancelled and called again for the same tick.

        Args:
            moment: of the tick, in recorded seconds.
            interval: nominal recorded seconds between two ticks.
        """
        if self._speed <= 0:
            await asyncio.sleep(0)  # other tasks run between two ticks
            return
        now = self._clock()
        due = now if self._last is None else self._last[0] + (moment - self._last[1]) / self._speed
        if now - due > interval / self._speed:
            due = now
        while (delay := due - self._clock()) > 0:
            await self._sleep(delay)
        self._last = due, moment
