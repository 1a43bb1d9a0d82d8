"""The playback of a recording: its passes, one or many in a loop, and when each tick is due."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Generic, TypeVar

from pulsed.errors import SourceEnded, SourceError

_T = TypeVar("_T")

Pass = Generator[_T | None, None, str]
"""The frames of one pass, None to let other tasks run. Returns the error that ended it, or nothing."""


class Passes(Generic[_T]):
    """The frames of all passes in order.

    Args:
        name: of the recording, for messages.
        loop: whether another pass follows; a pass without a frame is the last one in any case.

    Attributes:
        played: frames played so far, counted by the caller.
    """

    def __init__(self, name: str, open_pass: Callable[[], Pass[_T]], *, loop: bool) -> None:
        self._name, self._open, self._loop = name, open_pass, loop
        self._frames: Pass[_T] | None = None
        self._is_empty = True
        self._end = ""
        self.played = 0

    def next(self) -> _T | None:
        """Return the next frame; None to let other tasks run.

        Raises:
            SourceEnded: the last pass is over.
            SourceError: the recording cannot be read; the next call opens it anew.
        """
        if self._end:
            raise SourceEnded(self._end)
        if self._frames is None:
            self._frames, self._is_empty = self._open(), True
        try:
            frame = next(self._frames)
        except StopIteration as stop:
            self._frames = None
            if not self._loop or self._is_empty:
                self._end = f"{self._name} is over after {self.played} ticks" + (stop.value and f": {stop.value}")
                raise SourceEnded(self._end) from None
            return None
        except SourceError:
            self._frames = None
            raise
        if frame is not None:
            self._is_empty = False
        return frame

    def close(self, reason: str = "") -> None:
        """End the playback and close the file; `reason` is the message of what is raised from now on."""
        if self._frames is not None:
            self._frames.close()
        self._frames, self._end = None, self._end or reason


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
