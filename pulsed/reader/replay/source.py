"""The source `replay`: plays a recording again, with timestamps that are the same in every run.

A recording is a record of `pulsed record`, a CSV of `pulsed export`, a `dcgmi dmon` capture of any DCGM version, an
exposition page, or a folder of pages in natural order; each file may be gzipped. Records, CSV and captures are
streamed, so that their size does not matter. This module finds out what a path is, and keeps the time; the
parsers interpret the text.

A record has its own times, targets and pace, see `record_player`. CSV has its own times. The others have none (`dcgmi
dmon` prints none): tick n is stamped `start + n * interval`, whatever the pace, and a page that cannot be read leaves a
gap of one interval. Freshness therefore depends on when a tick arrives, not on its `time`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from pulsed.errors import BadCapture, BadPage, SourceError, TooManyGpus
from pulsed.model.raw_tick import MAX_GPUS, Layout, RawTick, RawValue
from pulsed.reader.dmon.parser import DmonParser
from pulsed.reader.exposition.parser import PageParser
from pulsed.reader.exposition.row import limits_for
from pulsed.reader.replay.exported_csv import CsvTick, csv_ticks, interval_of
from pulsed.reader.replay.playback import Pacer, Pass, Passes
from pulsed.reader.replay.record_player import play, recorded_targets
from pulsed.reader.replay.recording import (
    BROKEN_FILE,
    DMON_REMEDY,
    LONGEST_LINE,
    REMEDY,
    Recording,
    look,
    open_bytes,
    open_text,
    pages_of,
    unreadable,
)
from pulsed.reader.source import Source

DEFAULT_START = 1767225600.0
"""The time of the first tick unless another is given: 2026-01-01T00:00:00Z."""

DEFAULT_INTERVALS: Mapping[Recording, float] = {"dmon": 1.0, "page": 15.0, "folder": 15.0, "csv": 1.0}
"""Seconds between two ticks: dmon's own default delay, a usual scrape interval, and that of a CSV with one tick."""

_LARGEST_PAGE = 16 * 2**20
_BREATH = 1000  # lines without a tick after which other tasks may run


class _Sample(Protocol):
    """What every parser delivers for a tick."""

    @property
    def layout(self) -> Layout: ...
    @property
    def values(self) -> Sequence[RawValue]: ...
    @property
    def rejected(self) -> Mapping[str, int]: ...


_Frame = _Sample | SourceError
"""A tick, or an error that costs this tick only."""


def replay_sources(
    path: str | os.PathLike[str],
    columns: Sequence[str] = (),
    *,
    speed: float = 1.0,
    loop: bool = False,
    interval: float | None = None,
    start: float = DEFAULT_START,
    max_gpus: int = MAX_GPUS,
) -> Sequence[Source]:
    """Make the sources of a recording: one per target of a record, else one `ReplaySource`, whose arguments these are.

    A record has its own `interval` and `start`, and no use for `columns`. CSV has no use for `start` and `columns`.
    """
    with contextlib.suppress(BadCapture):  # `read` raises it
        if look(Path(path), columns) == "record":
            return play(Path(path), speed=speed, loop=loop)
    return [ReplaySource(path, columns, speed=speed, loop=loop, interval=interval, start=start, max_gpus=max_gpus)]


class ReplaySource:
    """A recording that is no record, played once or for ever.

    Args:
        path: a capture, a page, a folder of pages, or a CSV.
        columns: short names of a capture that has no header.
        speed: 1 as recorded, 10 ten times as fast, 0 as fast as the reader takes it.
        loop: start over at the end; time goes on increasing.
        interval: seconds between two ticks; by default that of `DEFAULT_INTERVALS`. CSV has its own times: there it is
            what they are held against, by default the usual distance.
        start: Unix seconds of the first tick, except of a CSV.
        max_gpus: most entities of a capture's tick.
        clock: a clock that never steps, seconds; for the pace only.
    """

    kind = "replay"
    failures = (BadCapture, BadPage, TooManyGpus)
    restarts = 0

    def __init__(
        self,
        path: str | os.PathLike[str],
        columns: Sequence[str] = (),
        *,
        speed: float = 1.0,
        loop: bool = False,
        interval: float | None = None,
        start: float = DEFAULT_START,
        max_gpus: int = MAX_GPUS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._path, self._columns = Path(path), tuple(columns)
        self._start = start
        self._pacer = Pacer(speed, clock, sleep)
        self._given_interval, self._timed = interval, False
        self.target = str(path)
        self.interval = interval or DEFAULT_INTERVALS["dmon"]
        with contextlib.suppress(BadCapture):  # `read` raises it: a daemon starts without its source
            self._look()
        self._pages, self._rows = PageParser(limits_for(max_gpus)), DmonParser(self._columns, max_gpus)
        self._passes: Passes[_Frame] = Passes(self.target, self._open, loop=loop)
        self._pending: _Frame | None = None
        self._moment = 0.0  # of the newest tick, in seconds since the first
        self._pass_moment = 0.0  # at which this pass began

    async def read(self) -> RawTick:
        """Wait for the next tick of the recording.

        Raises:
            BadCapture: the path is no recording, or holds not one tick. The next call looks at it anew.
            BadPage: one page of a folder cannot be read; the next call goes on behind it.
            TooManyGpus: a page or tick has more GPUs than the limit.
            SourceEnded: the recording is over.
        """
        while self._pending is None:  # else a read was cancelled while it waited
            self._pending = self._passes.next()
            if self._pending is None:
                await asyncio.sleep(0)
        moment = self._moment_of(self._pending)
        await self._pacer.wait(moment, self.interval)
        frame, self._pending = self._pending, None
        self._passes.played += 1
        self._moment = moment
        if isinstance(frame, SourceError):
            raise frame
        return RawTick(
            self.target,
            frame.time + self._pass_moment if isinstance(frame, CsvTick) else self._start + moment,
            moment,
            self.interval,
            frame.layout,
            frame.values,
            frame.rejected,
        )

    async def close(self) -> None:
        """Close the file. Safe to call twice."""
        self._pending = None
        self._passes.close(f"{self.target} was closed")

    def _moment_of(self, frame: _Frame) -> float:
        if not self._timed:
            return self._passes.played * self.interval
        return self._pass_moment + frame.clock if isinstance(frame, CsvTick) else self._moment

    def _look(self) -> Recording:
        recording = look(self._path, self._columns)
        if recording == "record":
            recorded_targets(self._path)  # raises what is wrong with it
            raise BadCapture(f"{self._path} is a record that was not there at the start", "Start pulsed again")
        self._timed = recording == "csv"
        usual = _csv_interval(self._path) if self._timed and not self._given_interval else None
        self.interval = self._given_interval or usual or DEFAULT_INTERVALS[recording]
        return recording

    def _open(self) -> Pass[_Frame]:
        recording = self._look()
        self._pass_moment = self._moment + self.interval if self._passes.played else 0.0
        if recording == "dmon":
            return _dmon_frames(self._path, self._rows)
        if recording == "page":
            return _page_frames(self._path, self._pages)
        if recording == "csv":
            return _csv_frames(self._path, self.interval)
        return _folder_frames(pages_of(self._path), self._pages)


def _dmon_frames(path: Path, parser: DmonParser) -> Pass[_Frame]:
    ticks = 0
    try:
        with open_text(path) as file:
            number = 0
            while line := file.readline(LONGEST_LINE):
                number += 1
                whole = line.endswith("\n") or len(line) == LONGEST_LINE
                if (tick := parser.feed(line.rstrip("\n")) if whole else parser.feed_rest(line)) is not None:
                    ticks += 1
                    yield tick
                elif number % _BREATH == 0:
                    yield None
    except EOFError:
        pass  # gzip data that ends early is a recorder that was killed: what came before is good
    except (OSError, zlib.error) as error:
        raise unreadable(path, error) from error
    if (tick := parser.finish()) is not None:
        ticks += 1
        yield tick
    words = [message.text for message in parser.drain_messages()]
    if not ticks:
        if words:
            raise BadCapture(f"{path} is a dcgmi dmon capture without data: {words[0]}", DMON_REMEDY)
        raise BadCapture(f"{path} has a header of dcgmi dmon and no data", "Let the capture run for longer")
    return words[-1] if words else ""


def _csv_frames(path: Path, interval: float) -> Pass[_Frame]:
    ticks = 0
    try:
        with open_text(path) as file:
            for tick in csv_ticks(file, path, interval):
                ticks += tick is not None
                yield tick
    except EOFError:
        pass  # as of a capture
    except (OSError, zlib.error, BadCapture) as error:
        failure = error if isinstance(error, BadCapture) else unreadable(path, error)
        if not ticks:
            raise failure from error
        yield failure
        return str(failure)
    if not ticks:
        raise BadCapture(f"{path} has a header of pulsed export and no whole row", "Let the export run for longer")
    return ""


def _csv_interval(path: Path) -> float | None:
    try:
        with open_text(path) as file:
            return interval_of(file, path)
    except BROKEN_FILE as error:
        raise unreadable(path, error) from error


def _page_frames(path: Path, parser: PageParser) -> Pass[_Frame]:
    page = _page(path, parser)
    if isinstance(page, TooManyGpus):
        raise page
    if isinstance(page, SourceError):
        raise BadCapture(str(page.args[0]), page.remedy) from page
    yield page
    return ""


def _folder_frames(paths: Sequence[Path], parser: PageParser) -> Pass[_Frame]:
    pages = 0
    for path in paths:
        page = _page(path, parser)
        pages += not isinstance(page, SourceError)
        yield page
    if not pages:
        raise BadCapture(f"{paths[0].parent} holds no page that can be read", REMEDY)
    return ""


def _page(path: Path, parser: PageParser) -> _Frame:
    """Return one page, or the error that it costs, not raised: the pages behind it are still to come."""
    try:
        with open_bytes(path) as file:
            text = file.read(_LARGEST_PAGE + 1)
        if len(text) > _LARGEST_PAGE:
            return BadPage(f"{path} has more than {_LARGEST_PAGE} bytes", "Replay takes one page per file")
        page = parser.parse(text)
    except BadPage as error:
        return BadPage(f"{path}: {error.args[0]}", error.remedy)
    except TooManyGpus as error:
        return TooManyGpus(error.limit, str(path))
    except BROKEN_FILE as error:
        return unreadable(path, error)
    return page if page.samples else BadPage(f"{path}: no sample that can be read", REMEDY)
