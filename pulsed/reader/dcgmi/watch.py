"""Which fields a `dcgmi dmon` is asked for, when some of them may be refused.

dcgmi watches all of a list or nothing. A refusal names the field where this version of DCGM does not know it; else it
says only that something on the list is wrong, and the list is taken apart until the culprits are alone. Does no I/O.
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
"""Refusals that are about all profiling fields, whichever were asked for."""


def is_profiling(field: int) -> bool:
    """Whether a field is DCP's (`DCGM_FI_PROF_*`), which needs the profiling hardware and a privileged engine."""
    return any(field in ids for ids in _PROFILING)


class Watch:
    """A list of fields, and what is known of which of them can be had.

    Ask for `attempt()`; tell with `accept()` or `refuse()` what came of it; go on until `settled`.

    Args:
        fields: ids, the more important ones first; duplicates are left out.
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
        """The fields that cannot be had, by reason, as the errors' reasons are called."""
        reasons = dict.fromkeys(self._lost.values())
        return {reason: tuple(field for field in self.wanted if self._lost.get(field) == reason) for reason in reasons}

    @property
    def why(self) -> Mapping[str, str]:
        """By reason, the last refusal that said so, with its remedy."""
        return {reason: self._why[reason] for reason in self.lost}

    @property
    def lost_profiling(self) -> tuple[int, ...]:
        """The profiling fields among them that may come back by themselves."""
        for_good = (None, FieldRefused.reason, TooManyCounters.reason)
        return tuple(f for f in self.wanted if is_profiling(f) and self._lost.get(f) not in for_good)

    def attempt(self) -> tuple[int, ...]:
        """The fields to ask for next, in the order of `wanted`; none if there is none that can be had."""
        ids = self._running.union(self._untried[0] if self._untried else ())
        return tuple(field for field in self.wanted if field in ids)

    def accept(self) -> None:
        """The attempt runs."""
        self._running = frozenset(self.attempt())
        del self._untried[:1]

    def refuse(self, error: SourceError) -> bool:
        """Learn from a refused attempt; returns whether another one makes sense."""
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
        """Try these again, which were lost."""
        back = tuple(field for field in fields if self._lost.pop(field, None) is not None)
        self._try(back)

    def reset(self) -> None:
        """Forget what was learned: the engine may be another one now."""
        self._running = frozenset()
        self._lost.clear()
        self._untried.clear()
        self._try(self.wanted)

    def _try(self, *groups: tuple[int, ...]) -> None:
        self._untried[:0] = [group for group in groups if group]

    def _lose(self, fields: Sequence[int], error: SourceError) -> None:
        self._lost.update((field, error.reason) for field in fields)
        self._why[error.reason] = str(error)
