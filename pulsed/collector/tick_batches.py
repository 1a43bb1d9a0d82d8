"""Reads a source on time, and passes its ticks on in batches: the caches of the processor stay warm.

A tick keeps its time; what waits for the others is its processing. A batch is due when it is asked for, or
`BATCH_SECONDS` after its first tick.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection

from pulsed.errors import SourceError
from pulsed.model.raw_tick import RawTick
from pulsed.reader.source import HoldingSource, Source

BATCH_SECONDS = 1.0
"""Most time between the arrival of a tick and its processing."""

_MOST_WAITING = 64
"""Ticks after which a source is not read until they are processed: one that never waits, as some recordings."""


class TickBatches:
    """A source whose ticks wait for each other. The first one, and the first one after an error, do not wait.

    Args:
        is_watched: returns whether every tick is due at once.

    Attributes:
        arrived: when the tick of the last `read` arrived, in seconds of the monotonic clock.
    """

    def __init__(self, source: Source, is_watched: Callable[[], bool] = lambda: False) -> None:
        self._source, self._is_watched = source, is_watched
        self._holding = source if isinstance(source, HoldingSource) else None
        if self._holding is not None:
            self._holding.hold = lambda: 0.0 if is_watched() else BATCH_SECONDS
        self._waiting: deque[tuple[RawTick, float]] = deque()
        self._due = 0
        """How many of the waiting ticks are due."""
        self._is_first = True
        self._is_processing = False
        self._reading: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        self._processed = asyncio.Event()
        self.arrived = 0.0

    @property
    def kind(self) -> str:
        """That of the source, as all of these."""
        return self._source.kind

    @property
    def target(self) -> str:  # noqa: D102
        return self._source.target

    @property
    def interval(self) -> float:  # noqa: D102
        return self._source.interval

    @property
    def failures(self) -> Collection[type[SourceError]]:  # noqa: D102
        return self._source.failures

    @property
    def restarts(self) -> int:  # noqa: D102
        return self._source.restarts

    @property
    def has_next(self) -> bool:
        """Whether the next tick of the batch is there."""
        return self._due > 0

    async def read(self) -> RawTick:
        """Wait for the next tick of a batch that is due. The one before counts as processed.

        Raises:
            SourceError, SourceEnded: as the source did, after the ticks that came before.
        """
        self._is_processing = False
        while not self._due:
            self._processed.set()
            if self._reading is not None and self._reading.done():
                ended, self._reading, self._is_first = self._reading, None, True
                ended.result()
            if self._reading is None:
                self._reading = asyncio.create_task(self._read(), name=f"read {self.target}")
                self._reading.add_done_callback(lambda _: self._release())
            self._changed.clear()
            await self._changed.wait()
        self._due -= 1
        raw, self.arrived = self._waiting.popleft()
        self._is_processing = True
        return raw

    async def catch_up(self) -> None:
        """Wait until all ticks that have arrived are processed."""
        if self._holding is not None:
            self._waiting += [(raw, raw.clock) for raw in self._holding.release()]
        if self._waiting or self._is_processing:
            self._processed.clear()
            self._release()
            await self._processed.wait()

    async def close(self) -> None:
        """Stop reading and close the source. Safe to call twice."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.wait({reading})
        if self._timer is not None:
            self._timer.cancel()
        self._processed.set()
        await self._source.close()

    async def _read(self) -> None:
        """Read ticks until an error, which `read` raises."""
        while True:
            raw = await self._source.read()
            self._take(raw, time.monotonic() if self._holding is None else raw.clock)
            if len(self._waiting) >= _MOST_WAITING:
                await self.catch_up()

    def _take(self, raw: RawTick, now: float) -> None:
        waiting = self._waiting
        waiting.append((raw, now))
        # The next tick would be too late for the first one; waking up for a timer costs as much as reading a tick.
        is_full = now - waiting[0][1] + raw.interval > BATCH_SECONDS
        if self._is_first or is_full or self._is_watched():
            self._is_first = False
            self._release()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(BATCH_SECONDS, self._release)

    def _release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due = len(self._waiting)
        self._changed.set()
