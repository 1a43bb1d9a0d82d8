"""Reports to a receiver: regularly, and again after a failure, until the configuration or the process ends it."""

from __future__ import annotations

import asyncio
import logging
import random as random_module
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import ClassVar, Generic, Protocol, TypeVar

from pulsed.errors import PulsedError
from pulsed.pauses import Backoff, aligned_sleep

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 10.0, 300.0
_END_SECONDS = 3.0

log = logging.getLogger(__name__)


class ReportTarget(Protocol):
    """Where reports go."""

    @property
    def interval(self) -> float:
        """Seconds between two looks for a change, and so the shortest between two reports."""


_T = TypeVar("_T", bound=ReportTarget)


class Reporter(ABC, Generic[_T]):
    """Reports until its task is cancelled. A failure is logged unless it is that of before, and tried again.

    Attributes:
        what: is reported, for the log.
        is_failing: whether the last attempt failed; None before the first.
    """

    what: ClassVar[str]

    def __init__(self, random: Callable[[], float] = random_module.random) -> None:
        self._random = random
        self._wanted: _T | None = None
        self._used: _T | None = None
        self._is_changed = asyncio.Event()
        self._error = ""
        self.is_failing: bool | None = None

    def configure(self, target: _T | None) -> None:
        """Report there from now on; None: no more, and what was reported is withdrawn."""
        if target != self._wanted:
            self._wanted = target
            self._is_changed.set()

    async def run(self) -> None:
        """Report until cancelled; then say so, if the receiver answers within seconds."""
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, self._random)
        try:
            while True:
                self._is_changed.clear()
                before, self._used = self._used, self._wanted
                if before is not None and before is not self._used:
                    await self._try(self._leave(before, self._used))
                    self.is_failing = None
                if self._used is None:
                    await self._is_changed.wait()
                elif await self._try(self._report(self._used)):
                    backoff.reset()
                    await aligned_sleep(self._used.interval)
                else:
                    await asyncio.sleep(backoff.next())
        finally:
            if self._used is not None:
                try:
                    async with asyncio.timeout(_END_SECONDS):
                        await self._try(self._end(self._used))
                except TimeoutError:
                    log.warning("the end was not reported", extra={"what": self.what})

    async def _try(self, work: Awaitable[bool]) -> bool:
        """Return whether it succeeded."""
        try:
            has_reported = await work
        except PulsedError as error:
            if str(error) != self._error:
                log.warning("cannot be reported", extra={"what": self.what, "error": str(error)})
            self._error, self.is_failing = str(error), True
            return False
        if has_reported:
            if self._error:
                log.info("is reported again", extra={"what": self.what})
            self._error, self.is_failing = "", False
        return True

    @abstractmethod
    async def _report(self, target: _T) -> bool:
        """Report what has changed; return whether the receiver was asked. Raises `PulsedError`."""

    @abstractmethod
    async def _leave(self, target: _T, following: _T | None) -> bool:
        """Withdraw what was reported, unless the following target has it, too. Returns and raises as `_report`."""

    @abstractmethod
    async def _end(self, target: _T) -> bool:
        """Report that the process ends. Returns and raises as `_report`."""
