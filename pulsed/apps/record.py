"""`pulsed record`: writes the raw ticks of the sources to a file, for `replay`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pulsed import __version__
from pulsed.cli.arguments import configuration
from pulsed.collector.source_factory import found_sources
from pulsed.collector.this_host import node_name
from pulsed.config.configuration import Config
from pulsed.errors import BadCapture, SourceError, UsageError
from pulsed.json_text import rfc3339
from pulsed.model.raw_tick import RawTick
from pulsed.reader.record_file import STDOUT, RecordFailed, RecordFile, open_record
from pulsed.reader.record_lines import RecordWriter, Session
from pulsed.reader.replay.recording import recording_type
from pulsed.reader.source import Source, SourceLog

log = logging.getLogger(__name__)

FLUSH_SECONDS = 1.0
"""A gzipped record loses at most these seconds when pulsed is killed; flushing more often compresses worse."""


def run(options: argparse.Namespace) -> int:
    """Record until the sources end, a limit is reached, or a signal arrives; return the exit code."""
    return record(configuration(options), options.file, seconds=options.duration, ticks=options.ticks)


def record(config: Config, name: str, *, seconds: float | None = None, ticks: int | None = None) -> int:
    """Record until the sources end, a limit is reached, or a signal arrives; return the exit code.

    A source that fails is retried as long as another one works or any tick was recorded.

    Args:
        name: file to write; an existing record is appended to; `-` for stdout.
        seconds: stop after this time.
        ticks: stop after this number of ticks, of all targets together.

    Raises:
        UsageError: the file exists and is not a record, or it is the one that is being replayed.
        RecordFailed: the file cannot be written, or no source delivered a tick.
        ConfigError: a source cannot be made from the configuration.
        BrokenPipeError: the reader of stdout has closed it.
    """
    _check(config, name)
    return asyncio.run(_record(config, name, seconds, ticks))


def _check(config: Config, name: str) -> None:
    """Raise UsageError for an existing file that is not a record."""
    path = Path(name)
    with contextlib.suppress(OSError, ValueError):  # errors are reported when the file is opened
        if name == STDOUT or not stat.S_ISREG(path.stat().st_mode) or not path.stat().st_size:
            return
        played = config.source.replay.path
        if config.source.kind == "replay" and played and os.path.samefile(played, path):
            raise UsageError(f"{name} is the recording to be replayed", "Record into another file")
        with contextlib.suppress(BadCapture):
            if recording_type(path) == "record":
                return
        raise UsageError(f"{name} exists and is not a record", "Give another name, or remove it")


async def _record(config: Config, name: str, seconds: float | None, ticks: int | None) -> int:
    sources = await found_sources(config, hurried=False)
    session = Session(
        version=__version__,
        source=config.source.kind,
        node=node_name(config),
        started=rfc3339(time.time()),
        targets={source.target: source.interval for source in sources},
    )
    file = open_record(name)
    try:
        recorder = Recorder(sources, session, file, ticks)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, recorder.stop)
        for source in sources:
            log.info("recording", extra={"source": source.kind, "target": source.target, "file": name})
        await recorder.run(seconds)
    finally:
        file.close()
    log.info("recorded", extra={"ticks": recorder.recorded, "file": name})
    return 0


class Recorder:
    """Writes the ticks of some sources as one session of a record.

    Args:
        sources: what to read; closed at the end.
        file: where to write; stays open.
        most: ticks after which recording stops, of all sources together; None for no limit.
    """

    def __init__(self, sources: Sequence[Source], session: Session, file: RecordFile, most: int | None = None) -> None:
        self._sources, self._file, self._most = sources, file, most
        self._writer = RecordWriter(session)
        self._done = asyncio.Event()
        self._is_stopped = False
        self._errors: dict[Source, str] = {}
        self.recorded = 0

    def stop(self) -> None:
        """End the record, whether it has ticks or not."""
        self._is_stopped = True
        self._done.set()

    async def run(self, seconds: float | None = None) -> None:
        """Record until all sources have ended, a limit is reached, or `seconds` have passed.

        Raises:
            RecordFailed: the file cannot be written; or no tick was recorded, and `stop` was not called.
            BrokenPipeError: the reader of the file has closed it.
        """
        work = [asyncio.create_task(self._record(source), name=source.target) for source in self._sources]
        ends: list[asyncio.Future[Any]] = [
            asyncio.gather(*work),
            asyncio.create_task(self._flush_regularly()),
            asyncio.create_task(self._done.wait()),
        ]
        try:
            await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                if end.done():
                    end.result()  # raises what the file raised
        finally:
            for end in ends:
                end.cancel()
            await asyncio.gather(*work, *ends, return_exceptions=True)
        if not self.recorded and not self._is_stopped:
            errors = "; ".join(self._errors[source] for source in self._sources if source in self._errors)
            raise RecordFailed(f"nothing was recorded: {errors or 'no tick came in time'}")

    async def _flush_regularly(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            self._file.flush()

    async def _record(self, source: Source) -> None:
        lines = SourceLog()
        async with source:
            async for outcome in source:
                if isinstance(outcome, SourceError):
                    lines.failed(source.target, outcome)
                    self._failed(source, str(outcome))
                else:
                    lines.worked(outcome)
                    self._write(outcome)
                if self._done.is_set():
                    return

    def _write(self, tick: RawTick) -> None:
        if self._done.is_set():
            return
        # A session begins with its first tick, so that failed attempts leave nothing behind.
        start = b"" if self.recorded else self._writer.start()
        self._file.write(start + self._writer.tick(tick))
        self.recorded += 1
        if self.recorded == self._most:
            self._done.set()

    def _failed(self, source: Source, message: str) -> None:
        self._errors[source] = message
        if not self.recorded and len(self._errors) == len(self._sources):
            self._done.set()  # no source works: end with an error
