"""A running `dcgmi dmon` as a stream of ticks, each stamped when its rows arrived.

Cuts the output to lines, lets the parser cut those to ticks, and decides when a tick is whole and when each of several
that come at once was printed. Does the work in the callback that brings the data: nothing is awaited per line.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from pulsed.errors import SourceError, StreamHung, TooManyGpus
from pulsed.model.raw_tick import RawTick
from pulsed.reader.dcgmi.child import Child
from pulsed.reader.dcgmi.failures import failure_of
from pulsed.reader.dmon.parser import DmonParser, DmonTick

_QUIET_SECONDS = 0.05
"""A tick that lacks an entity of the one before counts as whole after so long without another row, at most half an
interval: dcgmi writes a tick at once, in a few pieces if it is large."""

_TURNS = 2
"""A complete tick counts as whole after so many turns of the loop without more output: what already waits in the pipe
has then been read. Timers would do, but waking up costs as much as reading a tick."""

_LONGEST_LINE = 2**14
_MOST_UNPARSED_BYTES = 2 * 2**20
"""So many bytes without a tick are no dmon: 16 GPUs in 7 instances with 60 fields are a seventh of it."""

_MOST_WAITING = 64
"""Ticks that are kept for a pulsed that stands still; older ones are left out."""

_ORDERLY_SECONDS, _SHORT_ORDERLY_SECONDS = 0.5, 0.1
"""How long dmon has to leave by itself: if its delay is shorter, and if not."""

Clock = Callable[[], float]


class DmonStream:
    """One `dcgmi dmon` process, from its start to its end.

    `late` counts ticks that were left out: they had waited for pulsed, and were too many, or their age was unknown.
    """

    def __init__(self, command: Sequence[str], interval: float, max_gpus: int, clock: Clock, wall: Clock) -> None:
        self._command, self._interval = tuple(command), interval
        self._clock, self._wall = clock, wall
        self._quiet = min(_QUIET_SECONDS, interval / 2)
        self._parser = DmonParser(max_gpus=max_gpus)
        self._loop = asyncio.get_running_loop()
        self._child: Child | None = None
        self._rest = b""
        self._stamp = (wall(), clock())
        self._unparsed = 0
        self._chunks = 0
        self._received = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._parsed: list[RawTick] = []
        self._waiting: deque[RawTick] = deque()
        self._delivered_at = clock()
        self._unreported: Counter[str] = Counter()
        self._ticks = 0
        self._over = False
        self._refusal: SourceError | None = None
        self._waiter: asyncio.Future[None] | None = None
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
        while not self._waiting:
            if self._over:
                raise self._failure()
            ticks = self._ticks
            self._waiter = self._loop.create_future()
            await asyncio.wait({self._waiter}, timeout=patience)
            if not self._waiter.done():
                # Perhaps it was pulsed that stood still: let in what waits in the pipe before judging.
                await asyncio.sleep(2 * self._quiet)
                if ticks == self._ticks and not self._over:
                    raise self._hung(patience)
        return self._waiting.popleft()

    async def end(self) -> None:
        """End the process in order; if it does not want to, by force."""
        self._cancel_timer()
        if self._child is not None:
            # It sleeps out its delay first. Nothing is lost if not: the engine drops the watches of a closed client.
            await self._child.end(_ORDERLY_SECONDS if self._interval < _ORDERLY_SECONDS else _SHORT_ORDERLY_SECONDS)

    async def end_now(self) -> None:
        """Kill the process."""
        self._cancel_timer()
        if self._child is not None:
            await self._child.end_now()

    def _receive(self, data: bytes) -> None:
        now = self._wall(), self._clock()
        if self._refusal is not None:
            return
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        lines = whole.decode("utf-8", "replace").split("\n") if newline else []
        if len(self._rest) > _LONGEST_LINE:
            lines.append(self._rest.decode("utf-8", "replace"))  # not a row: the parser rejects it
            self._rest = b""
        feed = self._parser.feed
        for line in lines:
            try:
                tick = feed(line)
            except TooManyGpus as error:
                self._refuse(error)
                return
            self._take(tick)
            self._stamp = now
        self._unparsed += len(data)
        if self._unparsed > _MOST_UNPARSED_BYTES:
            name = f"{self._command[0]} dmon"
            self._refuse(StreamHung(f"{name} does not print a dmon table", "See what source.dcgmi.path runs"))
            return
        self._chunks += 1
        self._received = self._loop.time()
        if self._parser.complete:
            self._loop.call_soon(self._take_turn, self._chunks, _TURNS)
        elif self._timer is None:
            self._timer = self._loop.call_at(self._received + self._quiet, self._settle)

    def _take_turn(self, chunks: int, turns: int) -> None:
        """Wait for more that is already there, without sleeping."""
        if chunks != self._chunks or self._over:
            return
        if turns:
            self._loop.call_soon(self._take_turn, chunks, turns - 1)
            return
        self._cancel_timer()
        self._deliver()

    def _settle(self) -> None:
        """Take the rest if it has been quiet for long enough."""
        self._timer = None
        if self._loop.time() - self._received < self._quiet / 2:
            self._timer = self._loop.call_at(self._received + self._quiet, self._settle)
            return
        self._deliver()

    def _take(self, tick: DmonTick | None) -> None:
        if tick is None:
            return
        self._parsed.append(
            RawTick(self._command[0], *self._stamp, self._interval, tick.layout, tick.values, tick.rejected)
        )
        if len(self._parsed) > _MOST_WAITING:
            self._leave_out([self._parsed.pop(0)])
        self._unparsed = 0

    def _deliver(self) -> None:
        """Take the tick in progress as whole, and hand over the parsed ticks."""
        self._take(self._parser.finish())
        ticks, self._parsed = self._parsed, []
        if not ticks:
            return
        self._ticks += len(ticks)
        newest = ticks[-1].clock
        gap, self._delivered_at = newest - self._delivered_at, newest
        if len(ticks) > 1 and 2 * len(ticks) * self._interval < gap:
            # They waited for pulsed, and are fewer than the time has room for: the pipe was full, and dmon stood still
            # with it. Even the newest is old, by an unknown time. The next one is at most an interval away.
            self._leave_out(ticks)
            return
        self._waiting.extend(_spread(ticks, min(self._interval, gap / len(ticks))))
        self._leave_out([self._waiting.popleft() for _ in range(len(self._waiting) - _MOST_WAITING)])
        if self._unreported:
            first = self._waiting[0]
            self._waiting[0] = replace(first, rejected=self._unreported + Counter(first.rejected))
            self._unreported = Counter()
        self._wake()

    def _leave_out(self, late: Sequence[RawTick]) -> None:
        """Forget ticks, but for what was rejected with them."""
        self.late += len(late)
        for tick in late:
            self._unreported.update(tick.rejected)

    def _refuse(self, error: SourceError) -> None:
        self._refusal = error
        self._finish()

    def _finish(self) -> None:
        """Take the end of the output."""
        self._cancel_timer()
        if self._refusal is None:
            rest, self._rest = self._rest.decode("utf-8", "replace"), b""
            self._take(self._parser.feed_rest(rest))
            self._deliver()
        self._over = True
        self._wake()

    def _failure(self) -> Exception:
        assert self._child is not None
        name = f"{self._command[0]} dmon"
        if self._refusal is not None:
            return self._refusal
        texts = [message.text for message in self._parser.drain_messages()]
        return failure_of(name, self._child.status, texts + self._child.stderr)

    def _hung(self, patience: float) -> StreamHung:
        return StreamHung(
            f"{self._command[0]} dmon has printed nothing that can be read for {patience:g} s",
            "It is killed and started again; if that repeats, look for XID 119 in the kernel's log and restart the "
            "host engine",
        )

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _spread(ticks: Sequence[RawTick], least: float) -> list[RawTick]:
    """Date ticks that were read at once back to when dmon printed them: each at least so many seconds before the next.

    dmon prints one per interval and does not catch up, so that several at once have waited for pulsed in the pipe.
    """
    spread: list[RawTick] = []
    limit = ticks[-1].clock
    for tick in reversed(ticks):
        early = max(0.0, tick.clock - limit)
        spread.append(replace(tick, clock=tick.clock - early, time=tick.time - early) if early else tick)
        limit = spread[-1].clock - least
    return spread[::-1]
