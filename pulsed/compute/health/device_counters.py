"""Counters of a GPU over time: the increase and the share of time within a window, across resets and misread values."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from pulsed.compute.clock_events import MIN_SAMPLES
from pulsed.compute.sample import has_passed

_PARTS = 60
"""Parts of a window: an increase leaves it up to one part late."""


@dataclass(slots=True, eq=False)
class CounterIncrease:
    """Increase of one counter of one GPU.

    A counter that falls was reset, and counts from there; one that returns to its former value was misread.

    Attributes:
        seconds: length of the window.
        lifetime: the counter never falls: only values above its peak are an increase.
        last: the newest value; None before the first.
        peak: the highest value.
        parts: time and amount of each increase within the window; mostly empty.
        settled: whether two values were seen.
        grown: time of the last increase; None for never.
    """

    seconds: float
    lifetime: bool
    last: float | None = None
    peak: float = -inf
    parts: tuple[tuple[float, float], ...] = ()
    settled: bool = False
    grown: float | None = None

    def update(self, value: float, now: float, gap: float = 0.0) -> float:
        """Return the increase since the last value.

        Args:
            value: of the counter.
            now: seconds.
            gap: seconds without a sample before this one. An increase in a gap that is longer than the window counts
                with the share of the window, as if it had been steady.
        """
        if value == self.last and self.settled and not self.parts:
            return 0.0
        self.parts = tuple([part for part in self.parts if not has_passed(self.seconds, part[0], now)])
        last, self.last = self.last, value
        peak, self.peak = self.peak, max(self.peak, value)
        if last is None:
            return 0.0
        self.settled = True
        increase = max(value - (peak if self.lifetime or value >= peak else last), 0.0)
        increase *= self.seconds / max(gap, self.seconds)
        if increase:
            self.grown, parts = now, self.parts
            if parts and now - parts[-1][0] < self.seconds / _PARTS:
                begun, amount = parts[-1]
                self.parts = (*parts[:-1], (begun, amount + increase))
            else:
                self.parts = (*parts, (now, increase))
        return increase

    @property
    def total(self) -> float:
        """Increase within the window."""
        return sum([amount for _, amount in self.parts]) if self.parts else 0.0

    @property
    def ends(self) -> float:
        """When the newest increase leaves the window."""
        return self.parts[-1][0] + self.seconds if self.parts else -inf

    def drop_before(self, moment: float) -> None:
        """Drop the increases before a moment."""
        self.parts = tuple([part for part in self.parts if part[0] >= moment])


MICROSECONDS = 1e3
"""Factor of a counter of microseconds that is read as nanoseconds."""


@dataclass(slots=True, eq=False)
class DutyCounter:
    """A counter of the seconds in which the clocks of one GPU were reduced.

    Attributes:
        share: of the window, 0 and more; None before the third sample.
        is_proven: whether it has grown faster than a counter of microseconds can.
        points: time and value of the samples in the window.
    """

    share: float | None = None
    is_proven: bool = False
    points: list[tuple[float, float]] = field(default_factory=list)

    def update(self, value: float | None, now: float, window: float) -> None:
        """Update the share of a window in seconds; a missing value restarts it."""
        points = self.points
        self.share = None
        if value is None or (points and value < points[-1][1]):
            points.clear()  # the driver was reloaded
        if value is None:
            return
        if points and now > points[-1][0] and (value - points[-1][1]) / (now - points[-1][0]) > 2 / MICROSECONDS:
            self.is_proven = True
        points.append((now, value))
        while len(points) > MIN_SAMPLES and now - points[1][0] >= window:
            del points[0]
        if len(points) >= MIN_SAMPLES:
            self.share = (value - points[0][1]) / max(now - points[0][0], window)
