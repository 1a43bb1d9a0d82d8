"""The history of several GPUs on one axis of time, reduced to a number of points: for charts.

A sample covers the time since the sample before it, unless that is a gap. A point has the samples that were taken in
it; a point without any has the sample that covers it. A point that no sample covers is a gap: None.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import floor, inf, nan
from types import GenericAlias
from typing import NamedTuple

from pulsed.compute.declaration import DerivedState
from pulsed.compute.sample import GAP_INTERVALS, ROUNDING
from pulsed.json_text import json_text
from pulsed.present.api.history import HISTORY_HEAD, History, HistoryWindow, LocatedWindow
from pulsed.present.api.sample_fields import NO_STATE, WORDS, json_numbers
from pulsed.present.api.schema import Member, Shape, ValueKind, listed


class PointAxis(NamedTuple):
    """Points of equal length. Their borders are multiples of the length, so that the points of two requests coincide.

    Attributes:
        first: number of the first point since 1970.
        size: number of points.
        seconds: length of the axis.
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


_NUMBER = Shape(
    "NumberPointsShape",
    Member("min", list[float | None], of=None),
    Member("mean", list[float | None], "of the samples", None),
    Member("max", list[float | None], of=None),
)
"""Minimum, mean and maximum of a number per point."""

_GPU = Shape(
    "GpuPointsShape",
    *HISTORY_HEAD,
    Member(
        "fields",
        ValueKind(lambda: GenericAlias(dict, (str, _NUMBER.model | list[str | None]))),
        "by field: numbers, or the most frequent state, of health the worst; null is a gap or no reading",
        None,
    ),
)
"""The points of one GPU."""

HISTORY_POINTS = Shape(
    "HistoryPointsShape",
    Member("seconds", float, "length of the window, which ends with the newest sample"),
    Member("step_seconds", float, "length of a point", "step"),
    Member("time", list[float], "Unix seconds at which each point begins, oldest first", "times"),
    Member("gpus", listed(_GPU), of=None),
)
"""Recent samples of several GPUs on one axis of time."""


async def write_points(
    history: History, windows: Sequence[HistoryWindow], fields: Sequence[str], count: int, seconds: float, here: str
) -> bytes:
    """Render the history of some GPUs as `count` points of one axis; yields to the event loop after each field.

    Args:
        seconds: length of the axis, which ends with the newest sample of all.
        here: this process's node, for GPUs whose source does not name one.
    """
    axis = PointAxis.until(max((window.time for window in windows), default=0.0), seconds, count)
    gpus = []
    for window in windows:
        head = json_text(_GPU.of(LocatedWindow.of(window, here)))
        texts = []
        for text in _fields(history, window, fields, axis):
            texts.append(text)
            await asyncio.sleep(0)
        gpus.append(f'{head[:-1]},"fields":{{{",".join(texts)}}}}}')
    return f'{json_text(HISTORY_POINTS.of(axis))[:-1]},"gpus":[{",".join(gpus)}]}}'.encode()


def _fields(history: History, window: HistoryWindow, fields: Sequence[str], axis: PointAxis) -> Iterator[str]:
    """Yield the points of each field of a GPU as JSON."""
    samples = list(history.samples(window))
    rows = _rows_by_point(window, [clock for each in samples for clock in each.clocks], axis)
    columns = history.columns.transposed(b"".join([each.rows for each in samples]))
    for name in fields:
        column = history.columns.column(name, columns) if columns else ()
        if name in WORDS:
            text = _states(column, rows, axis.size, WORDS[name])
        else:
            text = _numbers(column, rows, axis.size, 3 if history.columns.decimals(name) is None else 4)
        yield f"{json_text(name)}:{text}"


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


def _numbers(column: Sequence[float], rows: Mapping[int, Sequence[int]], size: int, decimals: int) -> str:
    """Return minimum, mean and maximum per point as JSON; points without a value are null."""
    lowest, means, highest = [nan] * size, [nan] * size, [nan] * size
    for point, those in rows.items():
        known = [value for row in those if -inf < (value := column[row]) < inf]  # neither is NaN
        if known:
            lowest[point], means[point], highest[point] = min(known), sum(known) / len(known), max(known)
    shown = {"min": lowest, "mean": means, "max": highest}
    return f"{{{','.join(f'{json_text(name)}:[{json_numbers(each, decimals)}]' for name, each in shown.items())}}}"


def _states(column: Sequence[int], rows: Mapping[int, Sequence[int]], size: int, declared: DerivedState) -> str:
    """Return the most frequent state per point as JSON, of ranked states the worst; points without one are null."""
    states: list[str | None] = [None] * size
    for point, those in rows.items():
        counts = Counter(code for row in those if (code := column[row]) != NO_STATE)
        if counts:
            code = max(counts) if declared.ranked else min(counts, key=lambda code: (-counts[code], code))
            states[point] = declared.states[code]
    return json_text(states)
