"""The source `replay`: plays a recording again, with timestamps that are the same in every run.

A recording is a record of `pulsed record`, a `dcgmi dmon` capture of any DCGM version, an exposition page, or a folder
of pages in natural order; each file may be gzipped. Records and captures are streamed, whatever
their size.

A record has its own times, targets and pace, see `RecordPlayer`. The others have none (`dcgmi
dmon` prints none): tick n is stamped `start + n * interval`, whatever the pace, and a page that cannot be read leaves a
gap of one interval. Freshness therefore depends on when a tick arrives, not on its `time`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import zlib
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pulsed.errors import BadCapture, BadPage, SourceError, TooManyGpus
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import RawTick
from pulsed.reader.dmon.parser import DmonParser, DmonTick
from pulsed.reader.exposition.parser import Page, PageParser, refuse_other_exporters
from pulsed.reader.exposition.row import limits_for
from pulsed.reader.replay import ReplaySettings
from pulsed.reader.replay.playback import Frame, Pacer, Pass, Playback, RecordPlayer, recorded_targets
from pulsed.reader.replay.recording import (
    BREATH,
    BROKEN_FILE,
    DMON_REMEDY,
    MAX_LINE_LENGTH,
    REMEDY,
    Recording,
    open_bytes,
    open_text,
    pages_of,
    recording_type,
    unreadable,
)
from pulsed.reader.source import Source, SourceRequest

DEFAULT_INTERVALS: Mapping[Recording, float] = {"dmon": 1.0, "page": 15.0, "folder": 15.0}
"""Seconds between two ticks: dmon's own default delay, and a usual scrape interval."""

_MAX_PAGE_BYTES = 16 * 2**20

_Sample = DmonTick | Page | SourceError
"""The data of a tick, or an error that costs this tick only."""

_Samples = Generator[_Sample | None, None, str]


class ReplaySource(Source):
    """One target of a recording. Made by `replay_sources`.

    The sources of a record take turns in the recorded order, so one that is neither read nor closed holds up the rest.

    Args:
        intervals: nominal seconds between two ticks by target; of a record, the longest of its sessions. Intervals of
            another recording may change when it is opened again.
    """

    kind = "replay"

    def __init__(
        self,
        playback: Playback,
        target: str,
        intervals: Mapping[str, float],
        failures: tuple[type[SourceError], ...] = (BadCapture, TooManyGpus),
    ) -> None:
        self._playback, self.target, self._intervals, self.failures = playback, target, intervals, failures
        self.interval = intervals[target]

    async def read(self) -> RawTick:
        """Wait for the next tick of the recording.

        Raises:
            BadCapture: the path is not a recording, or it has no ticks. The next call opens it again.
            BadPage: one page of a folder cannot be read; the next call continues behind it.
            TooManyGpus: a page or tick has more GPUs than the limit.
            SourceEnded: the recording is over.
        """
        tick = await self._playback.next(self.target)
        self.interval = self._intervals[self.target]
        return tick

    async def close(self) -> None:
        """Leave the recording to its other targets; the last one closes the file. Safe to call twice."""
        self._playback.leave(self.target)


def open_sources(settings: ReplaySettings, request: SourceRequest) -> Sequence[ReplaySource]:
    """Return one source per target of the recording, as `SourceSection` describes."""
    return replay_sources(replace(settings, speed=0.0) if request.hurried else settings)


def replay_sources(
    settings: ReplaySettings,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> Sequence[ReplaySource]:
    """Make the sources of a recording: one per target of a record; otherwise one, whose target is the path.

    Args:
        clock: monotonic seconds; for the pace only.
    """
    path, pacer = Path(settings.path or ""), Pacer(settings.speed, clock, sleep)
    with contextlib.suppress(BadCapture):  # `read` raises it
        if recording_type(path, settings.columns) == "record":
            targets = recorded_targets(path)
            playback = Playback(str(path), targets, RecordPlayer(path).frames, pacer, loop=settings.loop)
            return [ReplaySource(playback, target, targets) for target in targets]
    recording = _SingleRecording(settings)
    playback = Playback(recording.target, recording.intervals, recording.frames, pacer, loop=settings.loop)
    return [ReplaySource(playback, recording.target, recording.intervals, (BadCapture, BadPage, TooManyGpus))]


class _SingleRecording:
    """A recording other than a record, of one target. Its format is detected at every pass."""

    def __init__(self, settings: ReplaySettings) -> None:
        self._settings, self._path, self.target = settings, Path(settings.path or ""), str(settings.path or "")
        self.intervals = {self.target: settings.interval or DEFAULT_INTERVALS["dmon"]}
        self._pages = PageParser(limits_for(settings.max_gpus))
        self._rows = DmonParser(settings.columns, settings.max_gpus)
        self._clock = 0.0  # of the newest tick, in seconds since the first
        with contextlib.suppress(BadCapture):  # `frames` raises it: a daemon starts without its source
            self._open()

    def frames(self, played: int) -> Pass:
        """Yield the frames of a pass. Raises `BadCapture` if it is not a recording or has no ticks."""
        recording = self._open()
        samples, interval = self._samples(recording), self.intervals[self.target]
        while True:
            try:
                sample = next(samples)
            except StopIteration as end:
                return str(end.value)
            if sample is None:
                yield None
                continue
            self._clock = played * interval
            played += 1
            yield Frame(self.target, self._clock, interval, self._stamped(sample, interval))

    def _stamped(self, sample: _Sample, interval: float) -> RawTick | SourceError:
        if isinstance(sample, SourceError):
            return sample
        time = self._settings.begin + self._clock
        return RawTick(
            self.target, Unix(time), Monotonic(self._clock), interval, sample.layout, sample.values, sample.rejected
        )

    def _open(self) -> Recording:
        recording = recording_type(self._path, self._settings.columns)
        if recording == "record":
            recorded_targets(self._path)  # raises what is wrong with it
            raise BadCapture(f"{self._path} is a record that did not exist at the start", "Start pulsed again")
        self.intervals[self.target] = self._settings.interval or DEFAULT_INTERVALS[recording]
        return recording

    def _samples(self, recording: Recording) -> _Samples:
        if recording == "dmon":
            return _dmon_ticks(self._path, self._rows)
        if recording == "page":
            return _only_page(self._path, self._pages)
        return _pages(pages_of(self._path), self._pages)


def _dmon_ticks(path: Path, parser: DmonParser) -> _Samples:
    ticks = 0
    try:
        with open_text(path) as file:
            number = 0
            while line := file.readline(MAX_LINE_LENGTH):
                number += 1
                whole = line.endswith("\n") or len(line) == MAX_LINE_LENGTH
                if (tick := parser.feed(line.rstrip("\n")) if whole else parser.feed_rest(line)) is not None:
                    ticks += 1
                    yield tick
                elif number % BREATH == 0:
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


def _only_page(path: Path, parser: PageParser) -> _Samples:
    page = _page(path, parser)
    if isinstance(page, TooManyGpus):
        raise page
    if isinstance(page, SourceError):
        raise BadCapture(str(page.args[0]), page.remedy) from page
    yield page
    return ""


def _pages(paths: Sequence[Path], parser: PageParser) -> _Samples:
    pages = 0
    for path in paths:
        page = _page(path, parser)
        pages += not isinstance(page, SourceError)
        yield page
    if not pages:
        raise BadCapture(f"{paths[0].parent} holds no page that can be read", REMEDY)
    return ""


def _page(path: Path, parser: PageParser) -> Page | SourceError:
    """Return one page, or the error that it costs, not raised: the pages behind it are still to come."""
    try:
        with open_bytes(path) as file:
            text = file.read(_MAX_PAGE_BYTES + 1)
        if len(text) > _MAX_PAGE_BYTES:
            return BadPage(f"{path} has more than {_MAX_PAGE_BYTES} bytes", "Replay takes one page per file")
        page = parser.parse(text)
        refuse_other_exporters(page.layout, page.samples)
    except BadPage as error:
        return BadPage(f"{path}: {error.args[0]}", error.remedy)
    except TooManyGpus as error:
        return TooManyGpus(error.limit, str(path))
    except BROKEN_FILE as error:
        return unreadable(path, error)
    return page if page.samples else BadPage(f"{path}: no sample that can be read", REMEDY)
