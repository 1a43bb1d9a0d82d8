"""The history of several GPUs on one axis of time, reduced to a number of points: for charts.

A sample covers the time since the sample before it, unless that is a gap. A point has the samples that were taken in
it; a point without any has the sample that covers it. A point that no sample covers is a gap: None.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from math import floor, inf, nan
from typing import NamedTuple

from pulsed.compute.sample import GAP_INTERVALS, ROUNDING
from pulsed.json_text import json_text
from pulsed.present.api.event_documents import identity_document
from pulsed.present.api.history import History, HistorySamples, HistoryWindow
from pulsed.present.api.sample_fields import WORDS
from pulsed.present.api.sample_rows import NO_STATE, json_numbers


class PointAxis(NamedTuple):
    """Points of equal length. Their borders are multiples of the length, so that the points of two requests coincide.

    Attributes:
        first: number of the first point since 1970.
        size: number of points.
        step: length of a point in seconds.
    """

    first: int
    size: int
    step: float

    @classmethod
    def until(cls, newest: float, seconds: float, count: int) -> PointAxis:
        """Return the axis whose last point contains a Unix time."""
        step = seconds / count
        return cls(floor(newest / step) - count + 1, count, step)

    def point(self, time: float) -> int:
        """Return the index of the point that contains a Unix time; it may be out of range."""
        return floor(time / self.step) - self.first

    def times(self) -> list[float]:
        """Return the Unix times at which the points begin."""
        return [round((self.first + index) * self.step, 3) for index in range(self.size)]


class _Run(NamedTuple):
    """Rows of one point: from `begin` to before `end`."""

    point: int
    begin: int
    end: int


class _NumberPoints:
    """Minimum, mean and maximum per point, in arrays: 28 bytes per point."""

    def __init__(self, count: int, decimals: int) -> None:
        self._decimals = decimals
        self._lowest, self._highest = array("d", [inf]) * count, array("d", [-inf]) * count
        self._sums, self._counts = array("d", [0.0]) * count, array("L", [0]) * count

    def add(self, point: int, values: Sequence[float]) -> None:
        known = [value for value in values if -inf < value < inf]  # neither is NaN
        if not known:
            return
        self._lowest[point] = min(self._lowest[point], *known)
        self._highest[point] = max(self._highest[point], *known)
        self._sums[point] += sum(known)
        self._counts[point] += len(known)

    def texts(self) -> Iterator[str]:
        """Yield pieces of JSON; points without a value are null."""
        means = [total / count if count else nan for total, count in zip(self._sums, self._counts, strict=True)]
        for begin, values in (('{"min":[', self._lowest), ('],"mean":[', means), ('],"max":[', self._highest)):
            yield begin + json_numbers(values, self._decimals)
        yield "]}"


class _StatePoints:
    """The most frequent state per point; the worst of ranked states. Each state that occurs has an array of counts."""

    def __init__(self, count: int, name: str) -> None:
        self._declared, self._size = WORDS[name], count
        self._counts: dict[int, array[int]] = {}

    def add(self, point: int, values: Sequence[int]) -> None:
        for code, count in Counter(values).items():
            if code != NO_STATE:
                if code not in self._counts:
                    self._counts[code] = array("L", [0]) * self._size
                self._counts[code][point] += count

    def texts(self) -> Iterator[str]:
        """Yield the JSON; points without a state are null."""
        states, ranked, counts = self._declared.states, self._declared.ranked, self._counts
        codes: list[int | None] = [None] * self._size
        most = array("L", [0]) * self._size
        for code in sorted(counts):
            for point, count in enumerate(counts[code]):
                if count and (ranked or count > most[point]):
                    codes[point], most[point] = code, count
        yield json_text([None if code is None else states[code] for code in codes])


class _PointsOfGpu:
    """The points of one GPU, from its samples in the order of their arrival."""

    def __init__(self, history: History, window: HistoryWindow, fields: Sequence[str], axis: PointAxis) -> None:
        self._columns, self._axis, self._window = history.columns, axis, window
        self._before: tuple[float, int] | None = None
        self._fields: dict[str, _NumberPoints | _StatePoints] = {
            name: _StatePoints(axis.size, name)
            if name in WORDS
            else _NumberPoints(axis.size, 3 if history.columns.decimals(name) is None else 4)
            for name in fields
        }

    def add(self, samples: HistorySamples) -> None:
        """Add consecutive samples."""
        runs = list(self._runs(samples.clocks))
        values = self._columns.transposed(samples.rows)
        for name, field in self._fields.items():
            column = self._columns.column(name, values)
            for run in runs:
                field.add(run.point, column[run.begin : run.end])

    def texts(self, here: str) -> Iterator[str]:
        """Yield identity and points as pieces of JSON; `here` is this process's node."""
        head = {**identity_document(self._window.device, here), "interval_seconds": self._window.interval}
        yield f'{json_text(head)[:-1]},"fields":{{'
        for number, (name, field) in enumerate(self._fields.items()):
            yield f"{',' if number else ''}{json_text(name)}:"
            yield from field.texts()
        yield "}}"

    def _runs(self, clocks: Sequence[float]) -> Iterator[_Run]:
        """Yield the rows of each point, and for a point without any the row that covers it."""
        axis, window = self._axis, self._window
        limit = (GAP_INTERVALS + ROUNDING) * window.interval
        moments = [window.time - (window.newest - clock) for clock in clocks]
        points = [axis.point(moment) for moment in moments]
        begin = 0
        for row, (moment, point) in enumerate(zip(moments, points, strict=True)):
            before, self._before = self._before, (moment, point)
            if before is None or before[1] != point:
                if begin < row:
                    yield from self._within(_Run(points[begin], begin, row))
                begin = row
                if before is not None and 0.0 <= moment - before[0] <= limit:
                    for passed in range(max(before[1] + 1, 0), min(point, axis.size)):
                        yield _Run(passed, row, row + 1)
        if begin < len(points):
            yield from self._within(_Run(points[begin], begin, len(points)))

    def _within(self, run: _Run) -> Iterator[_Run]:
        if 0 <= run.point < self._axis.size:
            yield run


async def write_points(
    history: History, windows: Sequence[HistoryWindow], fields: Sequence[str], count: int, seconds: float, here: str
) -> bytes:
    """Render the history of some GPUs as `count` points of one axis; yields to the event loop after each piece.

    Args:
        seconds: length of the axis, which ends with the newest sample of all.
        here: this process's node, for GPUs whose source does not name one.
    """
    newest = max((window.time for window in windows), default=0.0)
    axis = PointAxis.until(newest, seconds, count)
    gpus = [_PointsOfGpu(history, window, fields, axis) for window in windows]
    for samples in history.samples(windows):
        gpus[samples.window].add(samples)
        await asyncio.sleep(0)
    head = {"seconds": seconds, "step_seconds": axis.step, "time": axis.times()}
    texts = [f'{json_text(head)[:-1]},"gpus":[']
    for number, gpu in enumerate(gpus):
        texts.append("," if number else "")
        for text in gpu.texts(here):
            texts.append(text)
            await asyncio.sleep(0)
    return "".join((*texts, "]}")).encode()
