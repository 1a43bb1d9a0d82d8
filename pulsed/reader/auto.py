"""The source `auto`: the first of several sources that works, chosen again when it no longer does.

Knows no kind of source: what to try, in which order, comes from outside.
"""

from __future__ import annotations

import asyncio
import logging
import random as random_module
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pulsed.errors import NoSourceWorks, SourceEnded, SourceError
from pulsed.reader.pauses import Pauses
from pulsed.reader.tick import RawTick, Source

log = logging.getLogger(__name__)

GIVE_UP_AFTER = 3
"""Failures in a row after which the other sources are tried again."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A source that may work here.

    Attributes:
        make: makes it; called for every try.
        limited: asked once it has delivered: whether another source, if there is one that works, would say more.
    """

    make: Callable[[], Source]
    limited: Callable[[Source], bool] = lambda source: False


class AutoSource:
    """The first candidate that delivers a tick, else a limited one.

    Args:
        candidates: in the order of preference.
        first_pause: seconds before the second round through all of them; doubles with every further one.
        longest_pause: seconds.
        sleep: waits for so many seconds.
        random: a number from 0 up to 1, for jitter.
    """

    failures = (NoSourceWorks,)

    def __init__(
        self,
        candidates: Sequence[Candidate],
        *,
        first_pause: float = 1.0,
        longest_pause: float = 60.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = random_module.random,
    ) -> None:
        self._candidates, self._sleep = candidates, sleep
        self._pauses = Pauses(first_pause, longest_pause, random)
        self._pause = 0.0
        self._chosen: Source | None = None
        self._failed = 0
        self._restarts = 0

    @property
    def kind(self) -> str:
        """That of the chosen source, `auto` while there is none."""
        return self._chosen.kind if self._chosen else "auto"

    @property
    def target(self) -> str:
        """That of the chosen source."""
        return self._chosen.target if self._chosen else "this node"

    @property
    def interval(self) -> float:
        """That of the chosen source."""
        return self._chosen.interval if self._chosen else 1.0

    @property
    def restarts(self) -> int:
        """Those of all sources that were chosen so far."""
        return self._restarts + (self._chosen.restarts if self._chosen else 0)

    async def read(self) -> RawTick:
        """Wait for the next tick of the chosen source; choose one first if there is none.

        Raises:
            NoSourceWorks: none of them delivered a tick; says why, one by one.
            SourceError: the chosen one failed.
        """
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
        return tick

    async def close(self) -> None:
        """Close the chosen source. Safe to call twice."""
        await self._drop()

    async def _choose(self) -> RawTick:
        if self._pause:
            await self._sleep(self._pause)
        reasons: list[str] = []
        fallback: Candidate | None = None
        for candidate in self._candidates:
            try:
                tick = await self._try(candidate)
            except SourceError as error:
                reasons.append(str(error))
                continue
            if self._chosen is not None and not candidate.limited(self._chosen):
                return self._take(tick)
            fallback = fallback or candidate
            await self._drop()
        if fallback is not None:
            return self._take(await self._try(fallback))
        self._pause = self._pauses.next()
        raise NoSourceWorks(
            "no source works here: " + "; ".join(f"({number}) {why}" for number, why in enumerate(reasons, 1)),
            "`pulsed doctor` looks closer; `--source demo` shows pulsed without a GPU",
        )

    async def _try(self, candidate: Candidate) -> RawTick:
        source = candidate.make()
        try:
            tick = await source.read()
        except BaseException:
            await source.close()
            raise
        self._chosen = source
        return tick

    def _take(self, tick: RawTick) -> RawTick:
        log.info("source chosen", extra={"source": self.kind, "target": self.target})
        self._pause, self._failed = 0.0, 0
        self._pauses.reset()
        return tick

    async def _drop(self) -> None:
        chosen, self._chosen = self._chosen, None
        if chosen is not None:
            self._restarts += chosen.restarts
            await chosen.close()
