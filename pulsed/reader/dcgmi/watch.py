"""The fields that a `dcgmi dmon` watches, when some of them may be refused, and its start with those that are not.

dcgmi watches all of a list or nothing. A refusal names the field if this version of DCGM lacks it. Otherwise
the list is bisected until the refused fields are isolated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from pulsed.background_tasks import Backoff
from pulsed.errors import (
    FieldRefused,
    NotPermitted,
    ProfilingHeld,
    ProfilingUnavailable,
    SourceError,
    TooManyCounters,
    WatchRefused,
)
from pulsed.model.clocks import Monotonic
from pulsed.model.raw_tick import Layout, RawTick, RawValue
from pulsed.reader.dcgmi.stream import DmonStream
from pulsed.translate.fields import is_profiling

log = logging.getLogger(__name__)

_NO_PROFILING = (ProfilingHeld, ProfilingUnavailable)
"""Refusals that apply to all profiling fields."""

_BETWEEN_ATTEMPTS = 0.1  # seconds: a list taken apart is many starts, but never a storm of them
_FRESH_INTERVALS = 3


class Watch:
    """A list of fields, the more important ones first, and which of them are available.

    Start `attempt()`, report the outcome with `accept()` or `refuse()`, and repeat until `settled`.
    """

    def __init__(self, fields: Iterable[int]) -> None:
        self.requested: tuple[int, ...] = tuple(dict.fromkeys(fields))
        self._running: frozenset[int] = frozenset()
        self._untried: list[tuple[int, ...]] = []
        self._lost: dict[int, str] = {}
        self._why: dict[str, str] = {}
        self.reset()

    @property
    def settled(self) -> bool:
        """Whether nothing is left to try."""
        return not self._untried

    @property
    def lost(self) -> Mapping[str, tuple[int, ...]]:
        """The unavailable fields, by the `reason` of their errors."""
        reasons = dict.fromkeys(self._lost.values())
        return {
            reason: tuple(field for field in self.requested if self._lost.get(field) == reason) for reason in reasons
        }

    @property
    def why(self) -> Mapping[str, str]:
        """By reason, the text of the last refusal, with its remedy."""
        return {reason: self._why[reason] for reason in self.lost}

    @property
    def lost_profiling(self) -> tuple[int, ...]:
        """The unavailable profiling fields that may become available again."""
        for_good = (None, FieldRefused.reason, TooManyCounters.reason)
        return tuple(f for f in self.requested if is_profiling(f) and self._lost.get(f) not in for_good)

    def attempt(self) -> tuple[int, ...]:
        """Return the fields to request next, in the order of `wanted`; empty if none is available."""
        ids = self._running.union(self._untried[0] if self._untried else ())
        return tuple(field for field in self.requested if field in ids)

    def accept(self) -> None:
        """Record that the attempt runs."""
        self._running = frozenset(self.attempt())
        del self._untried[:1]

    def refuse(self, error: SourceError) -> bool:
        """Record a refused attempt; return whether another one makes sense."""
        if not isinstance(error, WatchRefused):
            return False
        if self._untried:
            doubtful = self._untried.pop(0)
        else:
            doubtful, self._running = self.attempt(), frozenset()
        named = error.field if isinstance(error, FieldRefused) else None
        profiling = tuple(field for field in doubtful if is_profiling(field))
        plain = tuple(field for field in doubtful if not is_profiling(field))
        if named is not None and named in doubtful:
            self._lose((named,), error)
            self._try(tuple(field for field in doubtful if field != named))
        elif profiling and (isinstance(error, _NO_PROFILING) or (isinstance(error, NotPermitted) and not plain)):
            self._lose(profiling, error)
            self._try(plain)
        elif profiling and plain:
            self._try(plain, profiling)
        elif len(doubtful) > 1:
            self._try(doubtful[: len(doubtful) // 2], doubtful[len(doubtful) // 2 :])
        else:
            self._lose(doubtful, error)
        return bool(self.attempt())

    def restore(self, fields: Iterable[int]) -> None:
        """Retry unavailable fields."""
        back = tuple(field for field in fields if self._lost.pop(field, None) is not None)
        self._try(back)

    def reset(self) -> None:
        """Clear the state: the engine may have changed."""
        self._running = frozenset()
        self._lost.clear()
        self._untried.clear()
        self._try(self.requested)

    def _try(self, *groups: tuple[int, ...]) -> None:
        self._untried[:0] = [group for group in groups if group]

    def _lose(self, fields: Sequence[int], error: SourceError) -> None:
        self._lost.update((field, error.reason) for field in fields)
        self._why[error.reason] = str(error)


async def open_stream(
    watch: Watch,
    make: Callable[[tuple[int, ...]], DmonStream],
    patience: float,
    sleep: Callable[[float], Awaitable[object]],
) -> tuple[DmonStream, RawTick]:
    """Start streams until one runs with every available field; return it and its first tick.

    The state of `watch` is kept, also when this fails half way.

    Raises:
        SourceError: it failed for another reason than a field, or no field is available.
    """
    while True:
        stream = make(watch.attempt())
        try:
            await stream.start()
            tick = await stream.next(patience)
        except SourceError as error:
            await stream.end_now()
            if not watch.refuse(error):
                if watch.settled and not watch.attempt():
                    watch.reset()  # everything was refused, which may change: the next attempt requests all fields
                raise _nothing_left(error, watch) from error
        except asyncio.CancelledError:
            await stream.end_now()
            raise
        else:
            watch.accept()
            if watch.settled:
                return stream, tick
            await stream.end_now()
        await sleep(_BETWEEN_ATTEMPTS)


def _nothing_left(error: SourceError, watch: Watch) -> SourceError:
    """Return the error, generalized if all of several fields were refused."""
    if isinstance(error, FieldRefused) and len(watch.requested) > 1:
        return FieldRefused(
            f"none of {len(watch.requested)} fields are available; the last refusal: {error.args[0]}",
            "dcgmi dmon -l lists the fields of this version of DCGM",
        )
    return error


class SlowWatch:
    """Keeps the newest values of the slow fields while it runs.

    Args:
        interval: seconds between two reads.
        patience: seconds without a tick after which the child counts as hung.
    """

    def __init__(
        self,
        watch: Watch,
        interval: float,
        patience: float,
        make: Callable[[tuple[int, ...]], DmonStream],
        pauses: Backoff,
        sleep: Callable[[float], Awaitable[object]],
        on_start: Callable[[], None],
    ) -> None:
        self._watch, self._interval, self._patience = watch, interval, patience
        self._make, self._pauses, self._sleep, self._on_start = make, pauses, sleep, on_start
        self._task: asyncio.Task[None] | None = None
        self._stream: DmonStream | None = None
        self._latest: RawTick | None = None
        self._is_failing = self._has_delivered = False

    def start(self) -> None:
        """Begin to read, if there is anything to read."""
        if self._watch.requested:
            self._task = asyncio.create_task(self._run(), name="dcgmi: slow fields")

    def forget(self) -> None:
        """Forget the values."""
        self._latest = None

    async def stop(self) -> None:
        """End the child. Its values count on until they are too old, or there are newer ones."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.end()

    @property
    def has_values(self) -> bool:
        """Whether it has delivered values so far, or has nothing to read."""
        return self._has_delivered or not self._watch.attempt()

    def latest(self, now: Monotonic) -> tuple[Layout | None, Sequence[RawValue]]:
        """Return the newest layout and values; values are None if they are too old, the layout before the first."""
        if self._task is not None and self._task.done():
            self._task.result()  # re-raise an error of pulsed itself
        if self._latest is None:
            return None, ()
        is_fresh = now - self._latest.clock <= _FRESH_INTERVALS * self._interval
        return self._latest.layout, self._latest.values if is_fresh else [None] * len(self._latest.values)

    async def _run(self) -> None:
        while True:
            try:
                self._stream, tick = await open_stream(self._watch, self._make, self._patience, self._sleep)
                self._on_start()
                while True:
                    self._latest, self._has_delivered = tick, True
                    tick = await self._stream.next(self._patience)
                    self._pauses.reset()
                    if self._is_failing:
                        self._is_failing = False
                        log.info("the slow fields are available again")
            except SourceError as error:
                if not self._is_failing:
                    self._is_failing = True
                    log.warning("the slow fields cannot be read", extra={"reason": error.reason, "error": str(error)})
            stream, self._stream = self._stream, None
            if stream is not None:
                await stream.end_now()
                self._watch.reset()
            await self._sleep(self._pauses.next())
