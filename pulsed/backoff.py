"""Delay before the next attempt: exponential backoff with jitter. This module must not use a clock."""

from __future__ import annotations

from collections.abc import Callable


class Backoff:
    """Pauses that double from `first` to `longest` seconds, shortened at random so that nodes do not retry together."""

    def __init__(self, first: float, longest: float, random: Callable[[], float]) -> None:
        self._first, self._longest, self._random = first, longest, random
        self._next = first

    def next(self) -> float:
        """Return the seconds to wait after one more failure: between half and the whole of what is due."""
        due, self._next = self._next, min(self._longest, 2 * self._next)
        return due * (1 - self._random() / 2)

    def reset(self) -> None:
        """Start over with the first pause, after a success."""
        self._next = self._first
