"""The loop that reads a source: the only place that turns errors of a source into outcomes, logs them and retries."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import TypeVar

from pulsed.errors import SourceEnded, SourceError
from pulsed.reader.tick import RawTick, Source

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""Shortest time between two attempts after a failure; a source with a shorter interval is retried after that."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ReadFailure:
    """An attempt that delivered no tick.

    Attributes:
        reason: the label value of `pulsed_source_errors_total`.
        message: the error with its remedy.
    """

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class EndOfSource:
    """A source has no more ticks."""

    message: str


def read_loop(
    source: Source, process: Callable[[RawTick], Awaitable[_T]], *, is_logged: bool = True
) -> AbstractAsyncContextManager[AsyncGenerator[_T | ReadFailure | EndOfSource, None]]:
    """Return a context manager of the outcomes of reading a source until it ends. The source is closed on exit.

    An outcome is what `process` returns for a tick, a `ReadFailure`, or, as the last one, an `EndOfSource`. An error
    in `process` is a failure of that tick only. After a failure the source is read again after a pause.

    Args:
        is_logged: whether failures and the end of the source are logged; false where the caller reports them.
    """
    return aclosing(_outcomes(source, process, _SourceLog(is_logged)))


async def _outcomes(
    source: Source, process: Callable[[RawTick], Awaitable[_T]], reports: _SourceLog
) -> AsyncGenerator[_T | ReadFailure | EndOfSource, None]:
    try:
        while True:
            started = time.monotonic()
            try:
                raw = await source.read()
                result = await process(raw)
            except SourceEnded as end:
                reports.ended(source.target, str(end))
                yield EndOfSource(str(end))
                return
            except SourceError as error:
                failure = ReadFailure(error.reason, str(error))
                reports.failed(source.target, failure)
            except Exception as error:
                log.exception("internal error in a tick; please report it", extra={"target": source.target})
                failure = ReadFailure("internal", f"internal error: {error!r}. Please report it")
                reports.failed(source.target, failure)
            else:
                reports.worked(raw)
                yield result
                await asyncio.sleep(0)  # a source that never waits must not keep the others from running
                continue
            yield failure
            await asyncio.sleep(max(0.0, min(RETRY_SECONDS, source.interval) - (time.monotonic() - started)))
    finally:
        await _close(source)


async def _close(source: Source) -> None:
    """Close a source; a cancellation takes effect when it is closed, so that no child process is left running."""
    closing = asyncio.ensure_future(source.close())
    try:
        await asyncio.shield(closing)
    except asyncio.CancelledError:
        await asyncio.wait({closing})
        raise


class _SourceLog:
    """Log lines of one source: a failure once until the source works again, rejected rows once per reason."""

    def __init__(self, is_logged: bool) -> None:
        self._is_logged = is_logged
        self._failure = ""
        self._rejected: set[str] = set()

    def failed(self, target: str, failure: ReadFailure) -> None:
        is_new = failure.message != self._failure and failure.reason != "internal"  # those are logged with a traceback
        if is_new and self._is_logged:
            log.warning("source failed", extra={"target": target, "reason": failure.reason, "error": failure.message})
        self._failure = failure.message

    def ended(self, target: str, reason: str) -> None:
        if self._is_logged:
            log.info("source ended", extra={"target": target, "reason": reason})

    def worked(self, raw: RawTick) -> None:
        if self._failure:
            log.info("source works again", extra={"target": raw.target})
            self._failure = ""
        for reason in raw.rejected.keys() - self._rejected:
            self._rejected.add(reason)
            log.warning(
                "rows were left out; logged once per reason, counted in pulsed_source_rejected_rows_total",
                extra={"target": raw.target, "reason": reason, "rows": raw.rejected[reason]},
            )
