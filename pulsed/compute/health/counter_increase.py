"""Increase of a counter within a window, across resets and misread values."""

from __future__ import annotations

from math import inf

from pulsed.compute.health.hysteresis import ROUNDING

_PARTS = 60
"""Parts of a window: an increase leaves it up to one part late."""


class CounterIncrease:
    """Increase of one counter of one GPU.

    A counter that falls was reset, and counts from there; one that returns to its former value was misread.

    Args:
        seconds: length of the window.
        lifetime: the counter never falls: only values above its peak are an increase.

    Attributes:
        total: increase within the window.
        last: the newest value; None before the first.
        peak: the highest value.
        parts: time and amount of each increase within the window.
        settled: whether two values were seen.
        grown: time of the last increase; None for never.
    """

    __slots__ = ("_lifetime", "_seconds", "grown", "last", "parts", "peak", "settled", "total")

    def __init__(self, seconds: float, lifetime: bool) -> None:
        self._seconds, self._lifetime = seconds, lifetime
        self.parts: tuple[tuple[float, float], ...] = ()  # mostly empty, which needs no memory
        self.peak = -inf
        self.last: float | None = None
        self.settled = False
        self.total = 0.0
        self.grown: float | None = None

    def follow(self, value: float, now: float) -> float:
        """Return the increase since the last value."""
        self._expire(now)
        last, self.last = self.last, value
        if last is None:
            self.peak = value
            return 0.0
        self.settled = True
        if value <= last:
            return 0.0
        start = max(last, self.peak) if self._lifetime or value >= self.peak > last else last
        self.peak = max(self.peak, value)
        increase = max(value - start, 0.0)
        if increase:
            self._add(now, increase)
        return increase

    @property
    def due(self) -> float:
        """When an increase leaves the window; after the first value at once, since the second settles it."""
        if self.parts:
            return self.parts[0][0] + self._seconds
        return inf if self.settled or self.last is None else -inf

    def restore(self, last: float | None, peak: float, parts: list[tuple[float, float]]) -> None:
        """Continue with saved values."""
        self.last, self.peak, self.settled = last, peak, False
        self.parts = tuple(parts)
        self.total = sum(amount for _, amount in parts)
        self.grown = parts[-1][0] if parts else None

    def _add(self, now: float, increase: float) -> None:
        parts = self.parts
        if parts and now - parts[-1][0] < self._seconds / _PARTS:
            when, amount = parts[-1]
            self.parts = (*parts[:-1], (when, amount + increase))
        else:
            self.parts = (*parts, (now, increase))
        self.total += increase
        self.grown = now

    def _expire(self, now: float) -> None:
        while self.parts and now - self.parts[0][0] >= self._seconds - ROUNDING:
            self.total -= self.parts[0][1]
            self.parts = self.parts[1:]
        if not self.parts:
            self.total = 0.0
