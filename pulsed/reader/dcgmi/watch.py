"""The fields that a `dcgmi dmon` watches, when some of them may be refused.

dcgmi watches all of a list or nothing. A refusal names the field if this version of DCGM lacks it. Otherwise
the list is bisected until the refused fields are isolated. Does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pulsed.errors import (
    FieldRefused,
    NotPermitted,
    ProfilingHeld,
    ProfilingUnavailable,
    SourceError,
    TooManyCounters,
    WatchRefused,
)

_PROFILING = (range(1001, 1100), range(1532, 1534))

_NO_PROFILING = (ProfilingHeld, ProfilingUnavailable)
"""Refusals that apply to all profiling fields."""


def is_profiling(field: int) -> bool:
    """Return whether a field (`DCGM_FI_PROF_*`) needs the profiling hardware and a privileged engine."""
    return any(field in ids for ids in _PROFILING)


class Watch:
    """A list of fields, the more important ones first, and which of them are available.

    Start `attempt()`, report the outcome with `accept()` or `refuse()`, and repeat until `settled`.
    """

    def __init__(self, fields: Iterable[int]) -> None:
        self.wanted: tuple[int, ...] = tuple(dict.fromkeys(fields))
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
        return {reason: tuple(field for field in self.wanted if self._lost.get(field) == reason) for reason in reasons}

    @property
    def why(self) -> Mapping[str, str]:
        """By reason, the text of the last refusal, with its remedy."""
        return {reason: self._why[reason] for reason in self.lost}

    @property
    def lost_profiling(self) -> tuple[int, ...]:
        """The unavailable profiling fields that may become available again."""
        for_good = (None, FieldRefused.reason, TooManyCounters.reason)
        return tuple(f for f in self.wanted if is_profiling(f) and self._lost.get(f) not in for_good)

    def attempt(self) -> tuple[int, ...]:
        """Return the fields to request next, in the order of `wanted`; empty if none is available."""
        ids = self._running.union(self._untried[0] if self._untried else ())
        return tuple(field for field in self.wanted if field in ids)

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
        self._try(self.wanted)

    def _try(self, *groups: tuple[int, ...]) -> None:
        self._untried[:0] = [group for group in groups if group]

    def _lose(self, fields: Sequence[int], error: SourceError) -> None:
        self._lost.update((field, error.reason) for field in fields)
        self._why[error.reason] = str(error)
