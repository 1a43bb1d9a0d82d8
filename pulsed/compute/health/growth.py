"""How much a counter grew within a window, whatever resets and glitches it has."""

from __future__ import annotations

from math import inf

_PARTS = 60
"""A window is kept in so many parts: growth leaves it up to one part late."""


class Window:
    """Growth of one counter of one GPU.

    A counter that falls was reset, and what it counts from there on is growth again; but one that falls and is back at
    where it was has only been misread.

    Args:
        seconds: how long growth counts.
        lifetime: the counter never falls: only what passes its highest value is growth.

    Attributes:
        total: growth within the window.
        last: the newest value; None before the first.
        steps: growth since ever.
        grown: when it grew last; None for never.
    """

    __slots__ = ("_lifetime", "_parts", "_peak", "_seconds", "grown", "last", "settled", "steps", "total")

    def __init__(self, seconds: float, lifetime: bool) -> None:
        self._seconds, self._lifetime = seconds, lifetime
        self._parts: tuple[tuple[float, float], ...] = ()  # short, and mostly empty, which takes nothing
        self._peak = -inf
        self.last: float | None = None
        self.settled = False
        self.total = 0.0
        self.steps = 0.0
        self.grown: float | None = None

    def follow(self, value: float, now: float) -> float:
        """Take the newest value; give the growth that is new."""
        self._expire(now)
        last, self.last = self.last, value
        if last is None:
            self._peak = value
            return 0.0
        self.settled = True
        if value <= last:
            return 0.0
        start = last
        if self._lifetime or value >= self._peak > last:
            start = max(last, self._peak)
        self._peak = max(self._peak, value)
        growth = value - start
        if growth > 0:
            self._add(now, growth)
        return max(growth, 0.0)

    @property
    def due(self) -> float:
        """When growth leaves the window, or, after the first value, at once: the second settles it."""
        if self._parts:
            return self._parts[0][0] + self._seconds
        return inf if self.settled or self.last is None else -inf

    def parts(self) -> list[tuple[float, float]]:
        """The growth within the window: when, and how much."""
        return list(self._parts)

    def restore(self, last: float | None, peak: float, parts: list[tuple[float, float]]) -> None:
        """Go on with what was known before."""
        self.last, self._peak, self.settled = last, peak, False
        self._parts = tuple(parts)
        self.total = sum(amount for _, amount in parts)
        self.grown = parts[-1][0] if parts else None

    @property
    def peak(self) -> float:
        """The highest value so far."""
        return self._peak

    def _add(self, now: float, growth: float) -> None:
        parts = self._parts
        if parts and now - parts[-1][0] < self._seconds / _PARTS:
            when, amount = parts[-1]
            self._parts = (*parts[:-1], (when, amount + growth))
        else:
            self._parts = (*parts, (now, growth))
        self.total += growth
        self.steps += growth
        self.grown = now

    def _expire(self, now: float) -> None:
        while self._parts and now - self._parts[0][0] >= self._seconds - 1e-6:
            self.total -= self._parts[0][1]
            self._parts = self._parts[1:]
        if not self._parts:
            self.total = 0.0
