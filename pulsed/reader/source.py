"""What every source of ticks has, and what every kind of source declares about itself."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import ClassVar, Self

from pulsed.config.settings import Settings
from pulsed.errors import InternalError, SourceEnded, SourceError
from pulsed.model.raw_tick import MAX_GPUS, RawTick

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""Shortest time between two attempts after a failure; a source with a shorter interval is retried after that."""

REMIND_SECONDS = 60.0
"""Time between two log lines about a source that still delivers no data."""


class Source(AsyncIterator[RawTick | SourceError]):
    """A source of ticks of one target: `async with source: async for outcome in source`.

    An outcome is a tick, or the error of an attempt that delivered none, which is followed by a pause and the next
    attempt. `SourceEnded` is the last outcome. One folder per kind; no source depends on another.

    Attributes:
        kind: `source.kind` of the configuration: `exporter`, `replay`, `demo`.
        target: its name in human-readable form; the label `target` of `pulsed_source_info`.
        interval: nominal seconds between two ticks.
        failures: the errors that this source may raise: their counters start at 0.
    """

    kind: str
    target: str
    interval: float
    failures: Collection[type[SourceError]] = ()

    _attempt_at = 0.0
    _has_ended = False

    @property
    def restarts(self) -> int:
        """Restarts of the source's child process; 0 without one."""
        return 0

    @property
    def pending(self) -> Collection[int]:
        """DCGM fields that it has requested and whose first values have not come yet. Its ticks are without them."""
        return ()

    @property
    def is_limited(self) -> bool:
        """Whether it may deliver less than another kind of source could here; known after its first tick."""
        return False

    @abstractmethod
    async def read(self) -> RawTick:
        """Wait for the next tick: one attempt.

        Raises:
            SourceError: this attempt failed; calling again is allowed and is how a source recovers.
            SourceEnded: there will be no more ticks.
        """

    def is_same(self, other: Source) -> bool:
        """Return whether the other one reads the same in the same way, so that this one may continue in its place."""
        return self is other

    async def close(self) -> None:
        """Close files, sockets and children. Safe to call twice."""

    async def __anext__(self) -> RawTick | SourceError:
        """Return the next outcome. Other tasks run between any two."""
        if self._has_ended:
            raise StopAsyncIteration
        await asyncio.sleep(max(0.0, self._attempt_at - time.monotonic()))
        self._attempt_at = time.monotonic() + min(RETRY_SECONDS, self.interval)
        try:
            tick = await self.read()
        except SourceError as error:
            self._has_ended = isinstance(error, SourceEnded)
            error.__cause__ = error.__context__ = None  # they hold frames, and these connections and pages
            return error.with_traceback(None)
        except Exception as error:  # noqa: BLE001 (logged with its traceback)
            return internal_error(error, self.target)
        self._attempt_at = 0.0
        return tick

    async def __aenter__(self) -> Self:
        """Begin."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the source; a cancellation takes effect when it is closed, so that no child process is left running."""
        closing = asyncio.ensure_future(self.close())
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await asyncio.wait({closing})
            raise


def internal_error(error: Exception, target: str) -> InternalError:
    """Log a mistake of pulsed itself with its traceback; return it as the outcome of an attempt."""
    log.error("internal error in a tick; please report it", exc_info=error, extra={"target": target})
    return InternalError(f"internal error: {error!r}", "Please report it")


class SourceLog:
    """Logs a failure of a source, or that it has no GPU, once a minute; rejected rows once per reason.

    Args:
        is_logged: whether failures and the end of the source are logged; false where the caller reports them.
    """

    def __init__(self, *, is_logged: bool = True) -> None:
        self._is_logged = is_logged
        self._failure = ""
        self._logged_at = 0.0
        self._rejected: set[str] = set()

    def failed(self, target: str, error: SourceError) -> None:
        """Log an attempt that delivered no tick, or the end of the source."""
        message = str(error)
        if isinstance(error, SourceEnded):
            if self._is_logged:
                log.info("source ended", extra={"target": target, "reason": message})
        elif isinstance(error, InternalError):  # logged with its traceback
            self._failure = message
        else:
            self._warn("source failed", target, message, {"reason": error.reason, "error": message})

    def worked(self, raw: RawTick, *, is_empty: bool = False) -> None:
        """Log what changed with a tick; one that `is_empty` has no GPU, which is logged like a failure."""
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


@dataclass(frozen=True, slots=True)
class SourceSection(Settings):
    """Base of the settings of a kind of source, which are its section of the configuration.

    The module `source` in the package of the section has a function `open_sources` that takes the section and a
    `SourceRequest` and returns the sources, one per target. It reads nothing yet, and raises `ConfigError`.

    Attributes:
        does: its function, for the documentation of `source.kind`.
        min_interval: shortest `source.interval`, seconds; less is an error. 0: the source itself raises it.
        is_candidate: whether `auto` tries it, in the order of the kinds.
        is_synthetic: whether its GPUs do not exist on this or another host now, and have no owners there.
        interval: seconds between two ticks, by default those without a `source.interval`; None: the source decides.
        max_gpus: most GPUs and MIG instances of a tick.
    """

    does: ClassVar[str]
    min_interval: ClassVar[float] = 0.1
    is_candidate: ClassVar[bool] = False
    is_synthetic: ClassVar[bool] = False
    interval: float | None = field(default=1.0, kw_only=True)
    max_gpus: int = field(default=MAX_GPUS, kw_only=True)

    @property
    def reads_this_host(self) -> bool:
        """Whether its GPUs belong to this machine, according to the configuration."""
        return False

    def lacks(self) -> str:
        """Return what the kind needs and is not set, as the end of an error message; empty for nothing."""
        return ""

    def completed(self, interval: float | None, max_gpus: int) -> Self:
        """Return the section with the settings of all kinds.

        Args:
            interval: `source.interval`; None to keep the default.
        """
        return replace(self, interval=self.interval if interval is None else interval, max_gpus=max_gpus)


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """The inputs for making a source.

    Attributes:
        node: name of this host.
        hurried: for a command, which starts with all targets at once, instead of spreading many over the interval,
            and plays a recording as fast as it can be read.
        superchips: patterns of the product names of GPUs with a chip-to-chip link.
    """

    node: str
    hurried: bool = False
    superchips: Collection[str] = ()
