"""The frames of a record: its ticks with their times, targets and order.

Compute takes gaps by differences of the clock, and so does the pace. The clock goes on as it was recorded within a
session; two sessions may be of two boots, whose clocks are not comparable: there the wall clock gives the
length of the gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pulsed.errors import BadCapture
from pulsed.model.raw_tick import RawTick
from pulsed.reader.record.lines import SESSION_MARK, RecordReader, Session
from pulsed.reader.replay.playback import Frame, Pass
from pulsed.reader.replay.recording import BREATH, BROKEN_FILE, open_bytes, unreadable

_LONGEST_LINE = 64 * 2**20  # bytes after which a line is taken for two: no source's page is larger


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


class RecordPlayer:
    """Makes the passes of a record, and keeps the clock growing over its sessions and over passes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._clock_shift = self._time_shift = 0.0  # what is added to the recorded ones; the latter with each pass
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
                while line := file.readline(_LONGEST_LINE):
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
            tick = replace(tick, time=tick.time + self._time_shift, clock=tick.clock + self._clock_shift)
        self._last, self._latest = tick, max(self._latest, tick.time)
        return tick
