"""`pulsed record`: keeps what the sources say, before anything is made of it, so that `replay` can say it again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pulsed import __version__
from pulsed.collector.collector import RETRY_SECONDS
from pulsed.collector.source_factory import node_name, open_sources
from pulsed.config import Config
from pulsed.errors import BadCapture, SourceEnded, SourceError, UsageError
from pulsed.present.rfc3339 import rfc3339
from pulsed.reader.record.file import STDOUT, RecordFailed, RecordFile, open_record
from pulsed.reader.record.lines import RecordWriter, Session
from pulsed.reader.replay.recording import look
from pulsed.reader.tick import RawTick, Source

log = logging.getLogger(__name__)

FLUSH_SECONDS = 1.0
"""What a kill costs a gzipped record at most; more often would pack worse."""


def record(config: Config, name: str, *, seconds: float | None = None, ticks: int | None = None) -> int:
    """Record until the sources end, a limit is reached, or a signal comes; returns the exit code.

    A source that fails is tried again for as long as another one works, or any has.

    Args:
        config: says what to read.
        name: file to write, or to go on with if it is a record already; `-` for stdout.
        seconds: stop after so long.
        ticks: stop after so many, of all targets together.

    Raises:
        UsageError: the file is something else than a record, or the one that is being replayed.
        RecordFailed: the file cannot be written, or no source ever said anything.
        ConfigError: a source cannot be made from the configuration.
        BrokenPipeError: whoever read stdout has gone.
    """
    _check(config, name)
    return asyncio.run(_record(config, name, seconds, ticks))


def _check(config: Config, name: str) -> None:
    """Refuse to add to a file that is no record."""
    path = Path(name)
    with contextlib.suppress(OSError, ValueError):  # a name that cannot be looked at is told when it is opened
        if name == STDOUT or not stat.S_ISREG(path.stat().st_mode) or not path.stat().st_size:
            return
        played = config.source.replay.path
        if config.source.kind == "replay" and played and os.path.samefile(played, path):
            raise UsageError(f"{name} is the recording to be replayed", "Record into another file")
        with contextlib.suppress(BadCapture):
            if look(path) == "record":
                return
        raise UsageError(f"{name} is there already and is no record", "Give another name, or remove it")


async def _record(config: Config, name: str, seconds: float | None, ticks: int | None) -> int:
    sources = open_sources(config)
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
    """Writes the ticks of some sources, one session of a record.

    Args:
        sources: what to read; closed at the end.
        session: what the record says of it.
        file: where to write; stays open.
        most: ticks after which it is enough, of all sources together; None for no limit.

    Attributes:
        recorded: ticks so far.
    """

    def __init__(self, sources: Sequence[Source], session: Session, file: RecordFile, most: int | None = None) -> None:
        self._sources, self._file, self._most = sources, file, most
        self._writer = RecordWriter(session)
        self._enough = asyncio.Event()
        self._stopped = False
        self._errors: dict[Source, str] = {}
        self.recorded = 0

    def stop(self) -> None:
        """End it in good order, whether anything was recorded or not."""
        self._stopped = True
        self._enough.set()

    async def run(self, seconds: float | None = None) -> None:
        """Record until all sources have ended, it is enough, or so many seconds are over.

        Raises:
            RecordFailed: the file takes no more; or nothing was recorded, and not because of `stop`.
            BrokenPipeError: whoever read it has gone.
        """
        work = [
            asyncio.create_task(_Follower(source, self._keep, self._failed).run(), name=source.target)
            for source in self._sources
        ]
        ends: list[asyncio.Future[Any]] = [
            asyncio.gather(*work),
            asyncio.create_task(self._flush_regularly()),
            asyncio.create_task(self._enough.wait()),
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
        if not self.recorded and not self._stopped:
            raise RecordFailed(f"nothing was recorded: {'; '.join(self._errors.values()) or 'no tick came in time'}")

    async def _flush_regularly(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            self._file.flush()

    def _keep(self, tick: RawTick) -> bool:
        if not self._enough.is_set():
            # A session begins with its first tick, so that tries in vain leave nothing behind.
            start = b"" if self.recorded else self._writer.start()
            self._file.write(start + self._writer.tick(tick))
            self.recorded += 1
            if self.recorded == self._most:
                self._enough.set()
        return not self._enough.is_set()

    def _failed(self, source: Source, message: str) -> None:
        self._errors[source] = message
        if not self.recorded and len(self._errors) == len(self._sources):
            self._enough.set()  # not one of them works: someone has to look after it


class _Follower:
    """Reads one source without end; a failure costs its own ticks only, and is told once.

    Args:
        source: what to read; closed when this ends.
        keep: takes a tick; returns whether to go on.
        failed: takes the source and why it has no tick.
    """

    def __init__(self, source: Source, keep: Callable[[RawTick], bool], failed: Callable[[Source, str], None]) -> None:
        self._source, self._keep, self._failed = source, keep, failed
        self._reported = ""
        self._rejected: set[str] = set()

    async def run(self) -> None:
        """Read until the source ends, enough was kept, or the task is cancelled."""
        try:
            while await self._once():
                pass
        finally:
            await self._source.close()

    async def _once(self) -> bool:
        started, source = time.monotonic(), self._source
        try:
            tick = await source.read()
        except SourceEnded as end:
            log.info("source ended", extra={"target": source.target, "reason": str(end)})
            self._failed(source, str(end))
            return False
        except SourceError as error:
            if str(error) != self._reported:
                extra = {"target": source.target, "reason": error.reason, "error": str(error)}
                log.warning("source failed", extra=extra)
            self._reported = str(error)
        except Exception as error:
            log.exception("pulsed could not read a tick; please report this", extra={"target": source.target})
            self._reported = f"internal error: {error!r}"
        else:
            self._tell(tick)
            go_on = self._keep(tick)
            await asyncio.sleep(0)  # a source that never waits must not keep the others from running
            return go_on
        self._failed(source, self._reported)
        await asyncio.sleep(max(0.0, min(RETRY_SECONDS, source.interval) - (time.monotonic() - started)))
        return True

    def _tell(self, tick: RawTick) -> None:
        if self._reported:
            log.info("source works again", extra={"target": tick.target})
            self._reported = ""
        for reason in tick.rejected.keys() - self._rejected:
            self._rejected.add(reason)
            log.warning(
                "rows were left out; said once for each reason",
                extra={"target": tick.target, "reason": reason, "rows": tick.rejected[reason]},
            )
