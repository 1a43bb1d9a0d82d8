"""A number that may be known by its bounds only: real utilization, saturation, a share of a board, traffic."""

from __future__ import annotations

from typing import NamedTuple

from pulsed.model.vocabulary import Value


class Interval(NamedTuple):
    """A number with its bounds, `low <= value <= high`.

    Attributes:
        low: it is no lower, whatever the missing inputs are.
        value: the number; None while too few inputs are known to name it.
        high: it is no higher.
        missing: names of the inputs that are not known.
    """

    low: float
    value: Value
    high: float
    missing: tuple[str, ...] = ()

    @property
    def width(self) -> float:
        """How much the number may vary."""
        return self.high - self.low


def exactly(value: float) -> Interval:
    """Return the interval of a known number."""
    return Interval(value, value, value)


def between(low: float, high: float) -> Interval:
    """Return the interval between two bounds; equal bounds are its value."""
    return Interval(low, low if low == high else None, high)
