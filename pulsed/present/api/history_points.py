"""The samples of GPUs as points of equal length on one axis of time, for charts.

A sample covers the time since the sample before it, unless that is a gap. A point has the samples that were taken in
it; a point without any has the sample that covers it. A point that no sample covers is a gap: None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import floor, inf
from typing import NamedTuple

from pydantic import Field

from pulsed.compute.declaration import DerivedState
from pulsed.compute.sample import GAP_INTERVALS, ROUNDING
from pulsed.present.api.history import History, HistoryHead, HistoryWindow
from pulsed.present.api.sample_fields import NO_STATE, WORDS
from pulsed.present.api.schema import DocumentModel


class PointAxis(NamedTuple):
    """Points of equal length over some seconds, with the number of the first one since 1970. Their borders are
    multiples of the length, so that the points of two requests coincide.
    """

    first: int
    size: int
    seconds: float

    @property
    def step(self) -> float:
        """Length of a point in seconds."""
        return self.seconds / self.size

    @property
    def times(self) -> list[float]:
        """The Unix times at which the points begin."""
        return [round((self.first + index) * self.step, 3) for index in range(self.size)]

    @classmethod
    def until(cls, newest: float, seconds: float, count: int) -> PointAxis:
        """Return the axis whose last point contains a Unix time."""
        return cls(floor(newest / (seconds / count)) - count + 1, count, seconds)

    def point(self, time: float) -> int:
        """Return the index of the point that contains a Unix time; it may be out of range."""
        return floor(time / self.step) - self.first


class NumberPointsShape(DocumentModel):
    """Minimum, mean and maximum of a number per point."""

    min: list[float | None]
    mean: list[float | None] = Field(description="of the samples")
    max: list[float | None]


class GpuPointsShape(HistoryHead):
    """The points of one GPU."""

    fields: dict[str, NumberPointsShape | list[str | None]] = Field(
        description="by field: numbers, or the most frequent state, of health the worst; null is a gap or no reading"
    )


class HistoryPointsShape(DocumentModel):
    """Recent samples of several GPUs on one axis of time."""

    seconds: float = Field(description="length of the window, which ends with the newest sample")
    step_seconds: float = Field(description="length of a point")
    time: list[float] = Field(description="Unix seconds at which each point begins, oldest first")
    gpus: list[GpuPointsShape]


Points = Mapping[str, Sequence[float | None]] | Sequence[str | None]
"""The points of a field: minimum, mean and maximum of numbers, or states."""


def window_points(
    history: History, window: HistoryWindow, fields: Sequence[str], axis: PointAxis
) -> Iterator[tuple[str, Points]]:
    """Yield the name and the points of each field of a GPU."""
    samples = list(history.samples(window))
    rows = _rows_by_point(window, [clock for each in samples for clock in each.clocks], axis)
    columns = history.columns.transposed(b"".join([each.rows for each in samples]))
    for name in fields:
        column = history.columns.column(name, columns) if columns else ()
        if name in WORDS:
            yield name, merged_states(column, rows, axis.size, WORDS[name])
        else:
            decimals = 3 if history.columns.decimals(name) is None else 4
            yield name, merged_numbers(column, column, column, rows, axis.size, decimals)


def _rows_by_point(window: HistoryWindow, clocks: Sequence[float], axis: PointAxis) -> Mapping[int, Sequence[int]]:
    """Return the rows of each point, and for a point without any the row that covers it."""
    limit = (GAP_INTERVALS + ROUNDING) * window.interval
    rows: dict[int, list[int]] = {}
    before: tuple[float, int] | None = None
    for row, clock in enumerate(clocks):
        moment = window.time - (window.newest - clock)
        point = axis.point(moment)
        if before is not None and before[1] != point and 0.0 <= moment - before[0] <= limit:
            for covered in range(max(before[1] + 1, 0), min(point, axis.size)):
                rows.setdefault(covered, []).append(row)
        if 0 <= point < axis.size:
            rows.setdefault(point, []).append(row)
        before = (moment, point)
    return rows


def merged_numbers(
    lowest: Sequence[float],
    mean: Sequence[float],
    highest: Sequence[float],
    rows: Mapping[int, Sequence[int]],
    size: int,
    decimals: int = 4,
) -> Points:
    """Return minimum, mean and maximum per point, of rows that each have all three; None for points without a value."""
    points: dict[str, list[float | None]] = {name: [None] * size for name in ("min", "mean", "max")}
    for point, those in rows.items():
        finite = [row for row in those if -inf < mean[row] < inf]  # neither is NaN
        if finite:
            points["min"][point] = round(min([lowest[row] for row in finite]), decimals)
            points["mean"][point] = round(sum([mean[row] for row in finite]) / len(finite), decimals)
            points["max"][point] = round(max([highest[row] for row in finite]), decimals)
    return points


def merged_states(
    column: Sequence[int], rows: Mapping[int, Sequence[int]], size: int, declared: DerivedState
) -> Points:
    """Return the most frequent state per point, of ranked states the worst; None for points without one."""
    states: list[str | None] = [None] * size
    for point, those in rows.items():
        states[point] = merged_state(Counter(code for row in those if (code := column[row]) != NO_STATE), declared)
    return states


def merged_state(counts: Mapping[int, int], declared: DerivedState) -> str | None:
    """Return the most frequent state, of ranked states the worst, by how often each code occurred; None for none."""
    if not counts:
        return None
    code = max(counts) if declared.ranked else min(counts, key=lambda code: (-counts[code], code))
    return declared.states[code]
