"""Reading of sources in tests, with a clock that moves only while a source sleeps or a test moves it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count
from typing import Any

import pytest

from pulsed.errors import SourceEnded
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import Layout, RawTick
from pulsed.reader.replay import ReplaySettings
from pulsed.reader.replay.source import ReplaySource, replay_sources
from pulsed.reader.source import Source


class FakeClock:
    """Both clocks of a machine and its sleep.

    Attributes:
        now: seconds of the clock that never steps.
        slept: the durations of all sleeps so far.
        stuck: whether a sleep lasts until it is cancelled.
        sleeping: set while a stuck sleep has begun.
    """

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self.slept: list[float] = []
        self.stuck = False
        self.sleeping = asyncio.Event()

    def clock(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now + 1_700_000_000.0

    async def sleep(self, seconds: float) -> None:
        if self.stuck:
            self.sleeping.set()
            await asyncio.Event().wait()
        self.slept.append(seconds)
        self.now += seconds


class Scripted(Source):
    """A source with a fixed sequence of ticks and errors; a number is an empty tick of that time."""

    kind, target, interval = "demo", "here", 0.001

    def __init__(self, script: Sequence[RawTick | float | Exception]) -> None:
        self._script = list(script)
        self.closed = 0

    async def read(self) -> RawTick:
        step = self._script.pop(0) if self._script else SourceEnded("it is over")
        if isinstance(step, Exception):
            raise step
        return (
            step
            if isinstance(step, RawTick)
            else RawTick("here", Unix(step), Monotonic(step), 1.0, Layout("exporter", ()), ())
        )

    async def close(self) -> None:
        self.closed += 1


async def ticks_of(source: Source, most: int = 10_000) -> list[RawTick]:
    """Return the ticks of a source until it ends, and close it."""
    ticks: list[RawTick] = []
    with contextlib.suppress(SourceEnded):
        while len(ticks) < most:
            ticks.append(await source.read())
    await source.close()
    return ticks


async def arrivals(source: Source, clock: FakeClock, busy: Iterable[float]) -> list[float]:
    """Return when ticks arrive at a reader that works for these durations between them, and close the source."""
    moments = []
    for seconds in busy:
        await source.read()
        moments.append(clock.now)
        clock.now += seconds
    await source.close()
    return moments


async def cancel_read(source: Source, clock: FakeClock) -> None:
    """Cancel a read that waits for its moment."""
    clock.stuck = True
    task = asyncio.ensure_future(source.read())
    await clock.sleeping.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    clock.stuck = False


async def turns_during(source: Source, ticks: int) -> tuple[list[RawTick], int]:
    """Return the next ticks, and how often another task ran meanwhile."""
    turns = count()

    async def other() -> None:
        while True:
            next(turns)
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    found = [await source.read() for _ in range(ticks)]
    task.cancel()
    return found, next(turns)


def replayed(
    path: str | os.PathLike[str],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    **settings: Any,
) -> ReplaySource:
    """Return the source of a recording of one target; `settings` are those of `ReplaySettings`."""
    (source,) = replay_sources(ReplaySettings(path, **settings), clock=clock, sleep=sleep)
    return source
