"""The second `dcgmi dmon`, for what changes seldom. Its failures cost only its own values."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from pulsed.backoff import Backoff
from pulsed.errors import SourceError
from pulsed.model.raw_tick import Layout, RawValue
from pulsed.reader.dcgmi.opening import open_stream
from pulsed.reader.dcgmi.stream import Arrival, DmonStream
from pulsed.reader.dcgmi.watch import Watch

log = logging.getLogger(__name__)

_FRESH_INTERVALS = 3


class SlowWatch:
    """Keeps the newest values of the slow fields while it runs.

    Args:
        interval: seconds between two reads.
        patience: seconds without a tick after which the child counts as hung.
    """

    def __init__(
        self,
        watch: Watch,
        interval: float,
        patience: float,
        make: Callable[[tuple[int, ...]], DmonStream],
        pauses: Backoff,
        sleep: Callable[[float], Awaitable[object]],
        on_start: Callable[[], None],
    ) -> None:
        self._watch, self._interval, self._patience = watch, interval, patience
        self._make, self._pauses, self._sleep, self._on_start = make, pauses, sleep, on_start
        self._task: asyncio.Task[None] | None = None
        self._stream: DmonStream | None = None
        self._latest: Arrival | None = None
        self._is_failing = False

    def start(self) -> None:
        """Begin to read, if there is anything to read."""
        if self._watch.wanted:
            self._task = asyncio.create_task(self._run(), name="dcgmi: slow fields")

    async def stop(self) -> None:
        """End the child and forget the values."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        stream, self._stream = self._stream, None
        self._latest = None
        if stream is not None:
            await stream.end()

    def latest(self, now: float) -> tuple[Layout | None, Sequence[RawValue] | None]:
        """Return the newest layout and values; no values if they are too old, no layout if there never were any."""
        if self._task is not None and self._task.done():
            self._task.result()  # re-raise an error of pulsed itself
        if self._latest is None:
            return None, None
        is_fresh = now - self._latest.clock <= _FRESH_INTERVALS * self._interval
        return self._latest.layout, self._latest.values if is_fresh else None

    async def _run(self) -> None:
        while True:
            try:
                self._stream, arrival = await open_stream(self._watch, self._make, self._patience, self._sleep)
                self._on_start()
                while True:
                    self._latest = arrival
                    arrival = await self._stream.next(self._patience)
                    self._pauses.reset()
                    if self._is_failing:
                        self._is_failing = False
                        log.info("the slow fields are available again")
            except SourceError as error:
                if not self._is_failing:
                    self._is_failing = True
                    log.warning("the slow fields cannot be read", extra={"reason": error.reason, "error": str(error)})
            stream, self._stream = self._stream, None
            if stream is not None:
                await stream.end_now()
                self._watch.reset()
            await self._sleep(self._pauses.next())
