"""Running totals of what this host did, at the times of readings."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf
from operator import add
from typing import NamedTuple


class _Totals(NamedTuple):
    now: float
    values: Sequence[float]


class HostTotals:
    """Totals that never decrease, of readings which may be more frequent or rarer than the moments that are asked for.

    Args:
        size: number of totals.
    """

    def __init__(self, size: int) -> None:
        self._readings: deque[_Totals] = deque([_Totals(-inf, [0.0] * size)])

    @property
    def last(self) -> float:
        """When the last reading was, in seconds of the clock of the ticks."""
        return self._readings[-1].now

    def add(self, now: float, gains: Sequence[float] | None, limit: float) -> None:
        """Add a reading.

        Args:
            gains: since the last reading; None if the two do not belong together.
            limit: seconds after which readings are forgotten.
        """
        before = self._readings[-1].values
        self._readings.append(_Totals(now, before if gains is None else list(map(add, before, gains))))
        while now - self._readings[0].now > limit:
            self._readings.popleft()

    def at(self, now: float) -> Sequence[float]:
        """Return the totals at a moment, by linear interpolation; outside of the readings those of the nearest one."""
        later = self._readings[-1]
        for earlier in reversed(self._readings):
            if earlier.now <= now:
                share = (now - earlier.now) / (later.now - earlier.now) if earlier is not later else 0.0
                return [old + share * (new - old) for old, new in zip(earlier.values, later.values, strict=True)]
            later = earlier
        return later.values
