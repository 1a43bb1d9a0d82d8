"""Plays a record again: the same ticks with the same times, each target as a source of its own, in the recorded order.

Compute takes gaps by differences of the clock, and so does the pace. The clock goes on as it was recorded within a
session; two sessions may be of two boots, whose clocks are not comparable: there the wall clock gives the
length of the gap.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from pulsed.errors import BadCapture, SourceEnded, TooManyGpus
from pulsed.model.raw_tick import RawTick
from pulsed.reader.record.lines import SESSION_MARK, RecordReader, Session
from pulsed.reader.replay.playback import Pacer, Pass, Passes
from pulsed.reader.replay.recording import BROKEN_FILE, open_bytes, unreadable

_LONGEST_LINE = 64 * 2**20  # bytes after which a line is taken for two: no source's page is larger
_BREATH = 1000  # lines without a tick after which other tasks may run


def recorded_targets(path: Path) -> Mapping[str, float]:
    """Return the targets of all sessions of a record with their longest intervals in seconds, in order of appearance.

    Raises `BadCapture` if the record cannot be read, or not by this pulsed, or names no target.
    """
    targets: dict[str, float] = {}
    reader, mark = RecordReader(), SESSION_MARK.encode()
    try:
        with open_bytes(path) as file:
            while line := file.readline(_LONGEST_LINE):
                if line.startswith(mark) and isinstance(session := _feed(reader, line, path), Session):
                    for target, interval in session.targets.items():
                        targets[target] = max(interval, targets.get(target, 0.0))
    except BROKEN_FILE as error:  # what came before is good
        if not targets:
            raise unreadable(path, error) from error
    if not targets:
        raise BadCapture(
            f"{path} is a record without targets", "Record again; `pulsed record` logs why no tick arrives"
        )
    return targets


def _feed(reader: RecordReader, line: bytes, path: Path) -> Session | RawTick | None:
    try:
        return reader.feed(line)
    except BadCapture as error:
        raise BadCapture(f"{path} is {error.args[0]}", error.remedy) from error


class RecordedSource:
    """One target of a record. Made by `play`.

    The sources of a record take turns in the recorded order, so one that is neither read nor closed holds up the rest.

    Attributes:
        interval: nominal seconds between two of its ticks, the longest of all sessions.
    """

    kind = "replay"
    failures = (BadCapture, TooManyGpus)
    restarts = 0

    def __init__(self, player: _Player, target: str, interval: float) -> None:
        self._player, self.target, self.interval = player, target, interval

    async def read(self) -> RawTick:
        """Wait for the next recorded tick of this target.

        Raises `SourceEnded` if the record is over.
        """
        return await self._player.next(self.target)

    async def close(self) -> None:
        """Leave the record to its other targets; the last one closes the file. Safe to call twice."""
        self._player.leave(self.target)


def play(
    path: Path,
    *,
    speed: float = 1.0,
    loop: bool = False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> list[RecordedSource]:
    """Make the sources of a record, one per target.

    Args:
        speed: 1 as recorded, 10 ten times as fast, 0 as fast as the readers take it.
        loop: start over at the end; time goes on increasing.
        clock: a clock that never steps, seconds; for the pace only.

    Raises `BadCapture` if the record cannot be read, or not by this pulsed, or names no target.
    """
    targets = recorded_targets(path)
    player = _Player(path, targets, speed, loop, clock, sleep)
    return [RecordedSource(player, target, interval) for target, interval in targets.items()]


@dataclass(slots=True)
class _Timeline:
    """Keeps the clock growing over sessions and passes.

    Attributes:
        clock_shift: what is added to the recorded clock.
        time_shift: what is added to the recorded time; grows with each pass only.
        joins: whether the next tick is the first one of a session.
    """

    clock_shift: float = 0.0
    time_shift: float = 0.0
    joins: bool = False
    _first: RawTick | None = None
    _last: RawTick | None = None
    _latest: float = 0.0

    def place(self, tick: RawTick) -> RawTick:
        """Return the tick with the time and clock that it is played with."""
        if self._first is None or self._last is None:
            self._first, self._latest = tick, tick.time
        elif self.joins:
            gap = tick.time + self.time_shift - self._last.time
            self.clock_shift = self._last.clock + (gap if gap > 0 else tick.interval) - tick.clock
        self.joins = False
        if self.clock_shift or self.time_shift:
            tick = replace(tick, time=tick.time + self.time_shift, clock=tick.clock + self.clock_shift)
        self._last, self._latest = tick, max(self._latest, tick.time)
        return tick

    def start_over(self) -> None:
        """Let the next pass begin one interval behind this one, also when the wall clock was stepped meanwhile."""
        if self._first is not None and self._last is not None:
            begin = self._latest + self._last.interval
            self.time_shift = begin - self._first.time
            self.joins = True


class _Player:
    """Reads the file once for all sources, and holds the one tick whose turn it is until its source takes it."""

    def __init__(
        self,
        path: Path,
        targets: Mapping[str, float],
        speed: float,
        loop: bool,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]],
    ) -> None:
        self._path = path
        self._pacer = Pacer(speed, clock, sleep)
        self._turns = {target: asyncio.Event() for target in targets}
        self._timeline = _Timeline()
        self._passes = Passes(str(path), self._pass, loop=loop)
        self._head: RawTick | None = None
        self._end = ""

    async def next(self, target: str) -> RawTick:
        """Wait until the target's turn has come, and until the time for its tick."""
        while (turn := self._turns.get(target)) is not None:
            head = self._head or self._advance()
            if head is not None and head.target == target:
                await self._pacer.wait(head.clock, head.interval)
                self._passes.played += 1
                self._head = None
                self._advance()
                return head
            if self._end:
                raise SourceEnded(self._end)
            if head is None:
                await asyncio.sleep(0)
            else:
                turn.clear()
                await turn.wait()
        raise SourceEnded(f"{target} was closed")

    def leave(self, target: str) -> None:
        """Take a target out of the turns."""
        if (turn := self._turns.pop(target, None)) is None:
            return
        turn.set()
        if not self._turns:
            self._passes.close()
        elif self._head is not None and self._head.target == target:
            self._head = None
            self._advance()

    def _advance(self) -> RawTick | None:
        """Make the next tick the head and wake its source; None at the end, and when others should run first."""
        try:
            self._head = self._passes.next()
        except SourceEnded as end:
            self._end = str(end)
        if self._head is not None:
            self._turns[self._head.target].set()
        else:
            for turn in self._turns.values():  # the first one to run reads on
                turn.set()
        return self._head

    def _pass(self) -> Pass[RawTick]:
        self._timeline.start_over()
        try:
            with open_bytes(self._path) as file:
                yield from self._read(file)
        except EOFError:
            pass  # gzip data that ends early is a recorder that was killed: what came before is good
        except (BadCapture, *BROKEN_FILE) as error:
            return str(error if isinstance(error, BadCapture) else unreadable(self._path, error))
        return ""

    def _read(self, file: BinaryIO) -> Generator[RawTick | None, None, None]:
        reader, number = RecordReader(), 0
        while line := file.readline(_LONGEST_LINE):
            number += 1
            found = _feed(reader, line, self._path)
            if isinstance(found, Session):
                self._timeline.joins = True
            elif found is not None:
                tick = self._timeline.place(found)
                if tick.target in self._turns:
                    yield tick
                    continue
            if number % _BREATH == 0:
                yield None
