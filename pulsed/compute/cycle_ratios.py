"""Activity of a GPU between two samples, from its cycle counters (DCGM 4.6 and newer): active over elapsed cycles.

A gauge of activity is an average over an interval of DCGM's, of which a source may skip some. The quotient of two
counters is exact for all the time between two samples, however many scrapes were lost between them. So it replaces the
gauge where it is known, and covers a gap in the samples.
"""

from __future__ import annotations

from typing import NamedTuple

from pulsed.model.vocabulary import NOTHING, POSITION, QUANTITIES, Reading, Value

_ELAPSED = POSITION["sm_elapsed_cycles_total"]

RATIOS: tuple[tuple[str, int], ...] = tuple(
    (ratio, POSITION[name])
    for name in QUANTITIES
    if name.endswith("_active_cycles_total") and (ratio := name.replace("_cycles_total", "_ratio")) in QUANTITIES
)
"""Quantities that follow from a counter of active cycles, with its position in a reading."""


class MeasuredRatios(NamedTuple):
    """Activity between two samples.

    Attributes:
        values: by quantity; without those that are not counted.
        is_new: whether the counters have moved since the sample before.
    """

    values: dict[str, float]
    is_new: bool

    def replace_in(self, reading: Reading) -> Reading:
        """Return a reading with these values instead of its own."""
        return reading._replace(**self.values) if self.values else reading

    def of_gap(self, reading: Reading) -> Reading:
        """Return what is known of all the time since the sample before: these values, and the energy counter."""
        return NOTHING._replace(
            **self.values,
            energy_joules_total=reading.energy_joules_total,
            memory_used_bytes=reading.memory_used_bytes,
        )


MAX_EXCESS = 1.05
"""The counters of a sample are not read at the same instant: up to here a share is 1."""

NOT_MEASURED = MeasuredRatios({}, False)


class CycleRatios:
    """The cycle counters of one GPU, as of its newest counted sample.

    Attributes:
        measured: the activity between that sample and the one before.
    """

    __slots__ = ("_last", "measured")

    def __init__(self) -> None:
        self._last = NOTHING
        self.measured = NOT_MEASURED

    def update(self, reading: Reading, is_repeated: bool) -> MeasuredRatios:
        """Return the activity since the sample before.

        Counters that stand still are a page that repeats, with the activity of before, or SMs without a clock. Counters
        that have fallen were reset.

        Args:
            reading: as read.
            is_repeated: whether it has the values of the sample before.
        """
        last = self._last
        elapsed, before = reading[_ELAPSED], last[_ELAPSED]
        if elapsed is None or before is None or elapsed < before:
            self._last, self.measured = reading, NOT_MEASURED
        elif elapsed > before:
            values = {
                ratio: share
                for ratio, position in RATIOS
                if (share := _share(last[position], reading[position], elapsed - before)) is not None
            }
            self._last, self.measured = reading, MeasuredRatios(values, bool(values))
        else:
            self.measured = MeasuredRatios(self.measured.values, False) if is_repeated else NOT_MEASURED
        return self.measured


def _share(before: Value, now: Value, elapsed: float) -> Value:
    """Return the share of the elapsed cycles by which a counter grew; None if that is not a share."""
    if before is None or now is None or not 0.0 <= now - before <= elapsed * MAX_EXCESS:
        return None
    return min((now - before) / elapsed, 1.0)
