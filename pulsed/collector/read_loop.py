"""The loop that reads a source: the only place that turns errors of a source into outcomes, logs them and retries."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import TypeVar

from pulsed.errors import SourceEnded, SourceError
from pulsed.model.raw_tick import RawTick
from pulsed.reader.source import Source

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""Shortest time between two attempts after a failure; a source with a shorter interval is retried after that."""

REMIND_SECONDS = 60.0
"""Time between two log lines about a source that still delivers no data."""

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
    source: Source,
    process: Callable[[RawTick], _T],
    *,
    is_empty: Callable[[_T], bool] = lambda result: False,
    is_logged: bool = True,
) -> AbstractAsyncContextManager[AsyncGenerator[_T | ReadFailure | EndOfSource, None]]:
    """Return a context manager of the outcomes of reading a source until it ends. The source is closed on exit.

    An outcome is what `process` returns for a tick, a `ReadFailure`, or, as the last one, an `EndOfSource`. An error
    in `process` is a failure of that tick only. After a failure the source is read again after a pause.

    Args:
        is_empty: whether a result has no GPU, which is logged like a failure.
        is_logged: whether failures and the end of the source are logged; false where the caller reports them.
    """
    outcomes = _outcomes(source, process, is_empty, _SourceLog(is_logged))
    return aclosing(outcomes)


async def _outcomes(
    source: Source,
    process: Callable[[RawTick], _T],
    is_empty: Callable[[_T], bool],
    reports: _SourceLog,
) -> AsyncGenerator[_T | ReadFailure | EndOfSource, None]:
    try:
        while True:
            started = time.monotonic()
            try:
                raw = await source.read()
                result = process(raw)
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
                reports.worked(raw, is_empty(result))
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
    """Log lines of one source: a failure, or that it has no GPU, once a minute; rejected rows once per reason."""

    def __init__(self, is_logged: bool) -> None:
        self._is_logged = is_logged
        self._failure = ""
        self._logged_at = 0.0
        self._rejected: set[str] = set()

    def failed(self, target: str, failure: ReadFailure) -> None:
        if failure.reason == "internal":  # logged with its traceback
            self._failure = failure.message
            return
        self._warn("source failed", target, failure.message, {"reason": failure.reason, "error": failure.message})

    def ended(self, target: str, reason: str) -> None:
        if self._is_logged:
            log.info("source ended", extra={"target": target, "reason": reason})

    def worked(self, raw: RawTick, is_empty: bool) -> None:
        if is_empty:
            self._warn("source has no GPU", raw.target, "no GPU", {})
        elif self._failure:
            log.info("source works again", extra={"target": raw.target})
            self._failure = ""
        for reason in raw.rejected.keys() - self._rejected:
            self._rejected.add(reason)
            log.warning(
                "rows were left out; logged once per reason, counted in pulsed_source_rejected_rows_total",
                extra={"target": raw.target, "reason": reason, "rows": raw.rejected[reason]},
            )

    def _warn(self, message: str, target: str, failure: str, extra: dict[str, str]) -> None:
        now = time.monotonic()
        if self._is_logged and (failure != self._failure or now - self._logged_at >= REMIND_SECONDS):
            log.warning(message, extra={"target": target} | extra)
            self._logged_at = now
        self._failure = failure
