"""The source `auto`: the first of several sources that works, chosen again when it no longer does.

Independent of the kinds of sources: the caller supplies the candidates in order.
"""

from __future__ import annotations

import asyncio
import logging
import random as random_module
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pulsed.background_tasks import Backoff
from pulsed.errors import ConfigError, NoSourceWorks, SourceEnded, SourceError
from pulsed.model.raw_tick import RawTick
from pulsed.reader.source import Source

log = logging.getLogger(__name__)

GIVE_UP_AFTER = 3
"""Failures in a row after which the other sources are tried again."""

FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 60.0
"""Pause before the second round through all of them, which doubles with every further one, and the longest."""

SECOND_LOOK_SECONDS = 300.0
"""Time after which a limited source is left, if another has come to work by then."""


SourceCandidate = Callable[[], Source]
"""Makes a source that may work here. A limited one may be left for another."""


@dataclass(frozen=True, slots=True)
class _Trial:
    """A source that delivered."""

    candidate: SourceCandidate
    source: Source
    tick: RawTick


class AutoSource(Source):
    """The first candidate that delivers a tick, otherwise a limited one; described as the chosen one is."""

    failures = (NoSourceWorks,)

    def __init__(
        self,
        candidates: Sequence[SourceCandidate],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = random_module.random,
    ) -> None:
        self._candidates, self._clock, self._sleep = candidates, clock, sleep
        self._pauses = Backoff(FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS, random)
        self._pause = 0.0
        self._chosen: Source | None = None
        self._candidate: SourceCandidate | None = None
        self._look_at = 0.0
        self._search: asyncio.Task[_Trial | None] | None = None
        self._failed = 0
        self._restarts = 0
        self._describe(None)

    @property
    def restarts(self) -> int:
        """The restarts of all sources that were chosen so far."""
        return self._restarts + (self._chosen.restarts if self._chosen else 0)

    async def read(self) -> RawTick:
        """Wait for the next tick of the chosen source; choose a source first if needed.

        Raises:
            NoSourceWorks: none of them delivered a tick; the message lists the reasons.
            SourceError: the chosen one failed.
        """
        if self._search is not None and self._search.done():
            better, self._search = self._search.result(), None
            if better is not None:
                await self._drop()
                return self._use(better)
        if self._chosen is None:
            return await self._choose()
        try:
            tick = await self._chosen.read()
        except SourceEnded:
            raise
        except SourceError as error:
            self._failed += 1
            if self._failed >= GIVE_UP_AFTER:
                log.warning("choosing a source again", extra={"failed": self._chosen.kind, "error": str(error)})
                await self._drop()
            raise
        self._failed = 0
        self._look_around()
        return tick

    async def close(self) -> None:
        """Close the chosen source. Safe to call twice."""
        await self._drop()

    def _look_around(self) -> None:
        """From time to time, if the chosen source is limited, start a search for a full one; ticks continue."""
        if self._search is not None or self._clock() < self._look_at:
            return
        self._look_at = self._clock() + SECOND_LOOK_SECONDS
        if self._chosen is not None and self._chosen.is_limited:
            others = [candidate for candidate in self._candidates if candidate != self._candidate]
            self._search = asyncio.create_task(_first_that_works(others, [], limited=False), name="auto: second look")

    async def _choose(self) -> RawTick:
        if self._pause:
            await self._sleep(self._pause)
        reasons: list[str] = []
        trial = await _first_that_works(self._candidates, reasons, limited=True)
        if trial is not None:
            return self._use(trial)
        self._pause = self._pauses.next()
        raise NoSourceWorks(
            "no source works here: " + "; ".join(f"({number}) {why}" for number, why in enumerate(reasons, 1)),
            "`pulsed doctor` has details; `--source demo` shows pulsed without a GPU",
        )

    def _use(self, trial: _Trial) -> RawTick:
        self._chosen, self._candidate = trial.source, trial.candidate
        self._describe(trial.source)
        log.info("source chosen", extra={"source": self.kind, "target": self.target})
        self._pause, self._failed = 0.0, 0
        self._pauses.reset()
        self._look_at = self._clock() + SECOND_LOOK_SECONDS
        return trial.tick

    def _describe(self, source: Source | None) -> None:
        self.kind, self.target, self.interval = (
            (source.kind, source.target, source.interval) if source else ("auto", "this node", 1.0)
        )

    async def _drop(self) -> None:
        search, self._search = self._search, None
        if search is not None:
            search.cancel()
            (trial,) = await asyncio.gather(search, return_exceptions=True)
            if isinstance(trial, _Trial):
                await trial.source.close()
        chosen, self._chosen = self._chosen, None
        self._describe(None)
        if chosen is not None:
            self._restarts += chosen.restarts
            await chosen.close()


async def _first_that_works(
    candidates: Sequence[SourceCandidate], reasons: list[str], *, limited: bool
) -> _Trial | None:
    """Return the first candidate that works, or a limited one if allowed; close all other sources.

    Errors of those that do not work are appended to `reasons`.
    """
    limited_trials: list[_Trial] = []
    try:
        for candidate in candidates:
            try:
                trial = await _try(candidate)
            except (SourceError, ConfigError) as error:
                reasons.append(str(error))
                continue
            if not trial.source.is_limited:
                return trial
            limited_trials.append(trial)
        return limited_trials.pop(0) if limited and limited_trials else None
    finally:
        for trial in limited_trials:
            await trial.source.close()


async def _try(candidate: SourceCandidate) -> _Trial:
    source = candidate()
    try:
        return _Trial(candidate, source, await source.read())
    except BaseException:
        await source.close()
        raise
