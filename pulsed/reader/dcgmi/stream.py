"""A running `dcgmi dmon` as a stream of ticks, each stamped when its rows arrived.

Cuts the output to lines as it arrives, lets the parser cut those to ticks, and decides when a tick is whole and when
each of several that come at once was printed.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from pulsed.background_tasks import next_multiple
from pulsed.errors import SourceError, StreamHung, TooManyGpus
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import RawTick
from pulsed.reader.dcgmi.child import Child
from pulsed.reader.dcgmi.failures import failure_of
from pulsed.reader.dmon.parser import DmonParser, DmonTick
from pulsed.translate.fields import COLUMNS

_QUIET_SECONDS = 0.05
"""A tick that lacks an entity of the one before counts as whole after so long without another row, at most half an
interval: dcgmi writes a tick at once, in a few pieces if it is large."""

_MAX_LINE_LENGTH = 2**14
_MAX_UNPARSED_BYTES = 2 * 2**20
"""More bytes without a tick are not dmon's output: 16 GPUs in 7 instances with 60 fields are a seventh of it."""

_BATCH_SECONDS = 0.5
"""Ticks of shorter intervals are parsed, and so read, together about so often, each with the time at which it arrived.
A process that wakes finds its caches cold: five ticks at once cost little more than half of five alone."""

_BATCH_BYTES = 2**18
"""More output does not wait."""

_MAX_WAITING_TICKS = 64
"""Ticks that are kept for a pulsed that stands still; older ones are left out."""

_ORDERLY_SECONDS, _SHORT_ORDERLY_SECONDS = 0.5, 0.1
"""How long dmon has to leave by itself: if its delay is shorter, and if not."""

Clock = Callable[[], float]

_Stamp = tuple[Unix, Monotonic]


class DmonStream:
    """One `dcgmi dmon` process, from its start to its end.

    `fields` are those that it watches, in their order; None if they are not known.

    `late` counts ticks that were left out: they had waited for pulsed, and were too many, or their age was unknown.
    """

    def __init__(
        self,
        command: Sequence[str],
        interval: float,
        max_gpus: int,
        clock: Clock,
        wall: Clock,
        fields: Sequence[int] | None = None,
    ) -> None:
        self._command, self._interval, self._fields = tuple(command), interval, fields
        self._clock, self._wall = clock, wall
        self._quiet = min(_QUIET_SECONDS, interval / 2)
        self._parser = DmonParser(max_gpus=max_gpus, requested=[COLUMNS.get(field, "") for field in fields or ()])
        self._loop = asyncio.get_running_loop()
        self._child: Child | None = None
        self._arrived: list[tuple[_Stamp, bytes]] = []
        self._arrived_bytes = 0
        self._batch: asyncio.TimerHandle | None = None
        self._is_read = False  # the first tick is given at once
        self._rest = b""
        self._stamp = Unix(wall()), Monotonic(clock())
        self._unparsed = 0
        self._parsed: list[RawTick] = []
        self._waiting: deque[RawTick] = deque()
        self._dated_at = clock()
        self._unreported: Counter[str] = Counter()
        self._is_over = False
        self._refusal: SourceError | None = None
        self._news: asyncio.Future[bool] | None = None  # while `next` waits for output
        self.late = 0

    async def start(self) -> None:
        """Start the process. Raises `CommandMissing`."""
        self._child = await Child.start(self._command, self._receive, self._finish)

    @property
    def pid(self) -> int:
        """Process id of the child."""
        assert self._child is not None
        return self._child.pid

    async def next(self, patience: float) -> RawTick:
        """Return the oldest tick that was not given yet; wait for one. It is stamped with the arrival of its last row.

        Raises `SourceError` if the process ended, or hung: no tick for `patience` seconds.
        """
        end = self._loop.time() + patience
        while not self._waiting:
            if self._refusal is not None:
                raise self._refusal
            if not self._is_over and await self._has_output(self._pause(end)) and self._loop.time() < end:
                continue
            if self._end_tick():
                end = self._loop.time() + patience
            else:
                raise self._failure() if self._is_over else self._hung(patience)
        self._is_read = True
        return self._waiting.popleft()

    async def end(self) -> None:
        """End the process in order; if it does not want to, by force."""
        self._end_batch()
        if self._child is not None:
            # It sleeps out its delay first. Nothing is lost if not: the engine drops the watches of a closed client.
            await self._child.end(_ORDERLY_SECONDS if self._interval < _ORDERLY_SECONDS else _SHORT_ORDERLY_SECONDS)

    async def end_now(self) -> None:
        """Kill the process."""
        self._end_batch()
        if self._child is not None:
            await self._child.end_now()

    def _receive(self, data: bytes) -> None:
        self._arrived.append(((Unix(self._wall()), Monotonic(self._clock())), data))
        self._arrived_bytes += len(data)
        if self._interval >= _BATCH_SECONDS or not self._is_read or self._arrived_bytes > _BATCH_BYTES:
            self._parse_arrived()
        elif self._batch is None:
            self._batch = self._loop.call_at(next_multiple(_BATCH_SECONDS, self._loop.time()), self._parse_arrived)

    def _parse_arrived(self) -> bool:
        """Parse the output that has arrived; return whether there was any."""
        self._end_batch()
        arrived, self._arrived, self._arrived_bytes = self._arrived, [], 0
        for stamp, data in arrived:
            if self._refusal is None:
                self._parse(stamp, data)
        if arrived:
            self._wake()
        return bool(arrived)

    def _end_batch(self) -> None:
        if self._batch is not None:
            self._batch.cancel()
            self._batch = None

    def _parse(self, now: _Stamp, data: bytes) -> None:
        is_late = now[1] - self._stamp[1] >= self._quiet
        if is_late and (self._news is None or self._parser.complete):
            self._end_tick()  # no reader waits for it, or for more of it
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        lines = whole.decode("utf-8", "replace").split("\n") if newline else []
        if len(self._rest) > _MAX_LINE_LENGTH:
            lines.append(self._rest.decode("utf-8", "replace"))  # not a row: the parser rejects it
            self._rest = b""
        feed = self._parser.feed
        for line in lines:
            try:
                tick = feed(line)
            except TooManyGpus as error:
                self._refuse(error)
                return
            self._append_tick(tick)
            self._stamp = now
        self._unparsed += len(data)
        if self._unparsed > _MAX_UNPARSED_BYTES:
            name = f"{self._command[0]} dmon"
            self._refuse(StreamHung(f"{name} does not print a dmon table", "See what source.dcgmi.path runs"))

    def _pause(self, end: float) -> float:
        """Return the seconds without output after which the tick in progress is whole; without one, those until `end`.

        After a complete tick nothing is waited for but what is in the pipe already.
        """
        if self._parser.complete:
            return 0.0
        return self._quiet if self._parsed or self._parser.begun else end - self._loop.time()

    async def _has_output(self, seconds: float) -> bool:
        """Wait for more output or its end; return whether there was any in time."""
        self._news = self._loop.create_future()
        timer = self._loop.call_later(seconds, self._wake, False)
        try:
            if await self._news:
                return True
        finally:
            timer.cancel()
            self._news = None
        return self._parse_arrived()

    def _append_tick(self, tick: DmonTick | None) -> None:
        if tick is None:
            return
        self._parsed.append(
            RawTick(self._command[0], *self._stamp, self._interval, tick.layout, tick.values, tick.rejected)
        )
        if len(self._waiting) + len(self._parsed) > _MAX_WAITING_TICKS:
            self._leave_out([self._waiting.popleft() if self._waiting else self._parsed.pop(0)])
        self._unparsed = 0

    def _end_tick(self) -> bool:
        """Take the tick in progress as whole, and let the parsed ticks be read; return whether there was any."""
        self._append_tick(self._parser.finish())
        ticks, self._parsed = self._parsed, []
        if not ticks:
            return False
        newest = ticks[-1].clock
        gap, self._dated_at = newest - self._dated_at, newest
        if len(ticks) > 1 and 2 * len(ticks) * self._interval < gap:
            # They waited for pulsed, and are fewer than the time has room for: the pipe was full, and dmon stood still
            # with it. Even the newest is old, by an unknown time. The next one is at most an interval away.
            self._leave_out(ticks)
            return True
        self._waiting.extend(_spread(ticks, min(self._interval, gap / len(ticks))) if len(ticks) > 1 else ticks)
        if self._unreported:
            first = self._waiting[0]
            self._waiting[0] = replace(first, rejected=self._unreported + Counter(first.rejected))
            self._unreported.clear()
        return True

    def _leave_out(self, late: Sequence[RawTick]) -> None:
        """Forget ticks, except the counts of their rejected rows."""
        self.late += len(late)
        for tick in late:
            self._unreported.update(tick.rejected)

    def _refuse(self, error: SourceError) -> None:
        self._refusal = error
        self._wake()

    def _finish(self) -> None:
        """Take the end of the output."""
        self._parse_arrived()
        if self._refusal is None:
            rest, self._rest = self._rest.decode("utf-8", "replace"), b""
            self._append_tick(self._parser.feed_rest(rest))
        self._is_over = True
        self._wake()

    def _failure(self) -> SourceError:
        assert self._child is not None
        name = f"{self._command[0]} dmon"
        texts = [message.text for message in self._parser.drain_messages()]
        return failure_of(name, self._child.status, texts + self._child.stderr, self._fields)

    def _hung(self, patience: float) -> StreamHung:
        return StreamHung(
            f"{self._command[0]} dmon has printed nothing that can be read for {patience:g} s",
            "It is killed and started again; if that repeats, look for XID 119 in the kernel's log and restart the "
            "host engine",
        )

    def _wake(self, has_output: bool = True) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(has_output)


def _spread(ticks: Sequence[RawTick], least: float) -> list[RawTick]:
    """Date ticks that were read at once back to when dmon printed them: each at least `least` seconds before the next.

    dmon prints one per interval and does not catch up, so that several at once have waited for pulsed in the pipe.
    """
    spread: list[RawTick] = []
    limit = ticks[-1].clock
    for tick in reversed(ticks):
        early = max(0.0, tick.clock - limit)
        spread.append(
            replace(tick, clock=Monotonic(tick.clock - early), time=Unix(tick.time - early)) if early else tick
        )
        limit = Monotonic(spread[-1].clock - least)
    return spread[::-1]
