"""The playback of a recording, frame by frame, in one pass or in a loop, each when it is due; the frames of a record.

Compute takes gaps by differences of the clock, and so does the pace. The clock is the recorded one within a
session; two sessions may be of two boots, whose clocks are not comparable: there the wall clock gives the
length of the gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pulsed.errors import BadCapture, SourceEnded, SourceError
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import RawTick
from pulsed.reader.record_lines import SESSION_MARK, RecordReader, Session
from pulsed.reader.replay.recording import BREATH, BROKEN_FILE, open_bytes, unreadable


class Frame(NamedTuple):
    """A tick of a target, or an error that costs this tick only; `clock` is when it is due, in recorded seconds."""

    target: str
    clock: float
    interval: float
    outcome: RawTick | SourceError


Pass = Generator[Frame | None, None, str]
"""The frames of one pass, None to let other tasks run. Returns the error that ended it, or nothing."""


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


class Playback:
    """Plays a recording once for the sources of all its targets, which take turns in the recorded order.

    Holds the one frame whose turn it is until its source takes it, so one that is neither read nor left holds up the
    rest.

    Args:
        name: of the recording, for messages.
        open_pass: begins a pass, given the number of frames played before.
        loop: whether another pass follows; a pass without a frame is the last one in any case.
    """

    def __init__(
        self, name: str, targets: Iterable[str], open_pass: Callable[[int], Pass], pacer: Pacer, *, loop: bool
    ) -> None:
        self._name, self._open, self._pacer, self._loop = name, open_pass, pacer, loop
        self._turns = {target: asyncio.Event() for target in targets}
        self._frames: Pass | None = None
        self._head: Frame | None = None
        self._is_empty = True  # the pass, so far
        self._played = 0
        self._end = ""

    async def next(self, target: str) -> RawTick:
        """Wait until the target's turn has come, and until the time for its tick.

        Raises:
            SourceEnded: the last pass is over, or the target has left.
            SourceError: a tick or the recording cannot be read; the next call continues behind it, or reopens it.
        """
        while (turn := self._turns.get(target)) is not None:
            if self._head is None:
                self._advance()
            head = self._head
            if head is None:
                if self._end:
                    raise SourceEnded(self._end)
                await asyncio.sleep(0)
            elif head.target != target:
                turn.clear()
                await turn.wait()
            else:
                await self._pacer.wait(head.clock, head.interval)
                self._played += 1
                self._head = None
                if len(self._turns) > 1:  # another source may wait for its turn
                    self._advance()
                if isinstance(head.outcome, SourceError):
                    raise head.outcome
                return head.outcome
        raise SourceEnded(f"{target} was closed")

    def leave(self, target: str) -> None:
        """Take a target out of the turns; the last one closes the file. Safe to call twice."""
        if (turn := self._turns.pop(target, None)) is None:
            return
        turn.set()
        if not self._turns:
            if self._frames is not None:
                self._frames.close()
            self._frames = self._head = None
        elif self._head is not None and self._head.target == target:
            self._head = None
            self._advance()

    def _advance(self) -> None:
        """Read on to the next frame and wake its source; without one wake all, and the first to run reads on."""
        if not self._end:
            try:
                self._frames = self._frames or self._open(self._played)
                frame = next(self._frames)
            except StopIteration as stop:
                if not self._loop or self._is_empty:
                    self._end = f"{self._name} is over after {self._played} ticks" + (stop.value and f": {stop.value}")
                self._frames, self._is_empty = None, True
            except SourceError:
                self._frames, self._is_empty = None, True
                raise
            else:
                if frame is not None and frame.target in self._turns:
                    self._head, self._is_empty = frame, False
                    self._turns[frame.target].set()
                    return
        for turn in self._turns.values():
            turn.set()


_MAX_LINE_LENGTH = 64 * 2**20  # bytes after which a line is taken for two: no source's page is larger


def recorded_targets(path: Path) -> Mapping[str, float]:
    """Return the targets of all sessions of a record with their longest intervals in seconds, in order of appearance.

    Raises `BadCapture` if the record cannot be read, or not by this pulsed, or names no target.
    """
    targets: dict[str, float] = {}
    reader, mark = RecordReader(), SESSION_MARK.encode()
    try:
        with open_bytes(path) as file:
            while line := file.readline(_MAX_LINE_LENGTH):
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


class RecordPlayer:
    """Makes the passes of a record, and keeps the clock growing over its sessions and over passes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._clock_shift = self._time_shift = 0.0  # added to the recorded ones; the latter with each pass
        self._joins = False  # whether the next tick is the first one of a session or pass
        self._first: RawTick | None = None
        self._last: RawTick | None = None
        self._latest = 0.0

    def frames(self, played: int) -> Pass:
        """Yield the frames of a pass. It begins an interval behind the one before."""
        if self._first is not None and self._last is not None:
            self._time_shift = self._latest + self._last.interval - self._first.time
            self._joins = True
        reader, number = RecordReader(), 0
        try:
            with open_bytes(self._path) as file:
                while line := file.readline(_MAX_LINE_LENGTH):
                    number += 1
                    entry = _feed(reader, line, self._path)
                    if isinstance(entry, Session):
                        self._joins = True
                    elif entry is not None:
                        tick = self._placed(entry)
                        yield Frame(tick.target, tick.clock, tick.interval, tick)
                    elif number % BREATH == 0:
                        yield None
        except EOFError:
            pass  # gzip data that ends early is a recorder that was killed: what came before is good
        except (BadCapture, *BROKEN_FILE) as error:
            return str(error if isinstance(error, BadCapture) else unreadable(self._path, error))
        return ""

    def _placed(self, tick: RawTick) -> RawTick:
        """Return the tick with the time and clock that it is played with."""
        if self._first is None or self._last is None:
            self._first, self._latest = tick, tick.time
        elif self._joins:
            gap = tick.time + self._time_shift - self._last.time
            self._clock_shift = self._last.clock + (gap if gap > 0 else tick.interval) - tick.clock
        self._joins = False
        if self._clock_shift or self._time_shift:
            tick = replace(
                tick, time=Unix(tick.time + self._time_shift), clock=Monotonic(tick.clock + self._clock_shift)
            )
        self._last, self._latest = tick, max(self._latest, tick.time)
        return tick
