"""The routes of the recent samples of GPUs: of one, or of several on one axis of time, for charts.

A sample covers the time since the sample before it, unless that is a gap. A point has the samples that were taken in
it; a point without any has the sample that covers it. A point that no sample covers is a gap: None.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from math import floor, inf
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Response
from pydantic import Field

from pulsed.compute.declaration import DerivedState
from pulsed.compute.sample import GAP_INTERVALS, ROUNDING
from pulsed.errors import did_you_mean
from pulsed.json_text import json_bytes
from pulsed.model.gpu import Device, node_of
from pulsed.model.target_store import TargetStore
from pulsed.present.api.gpu_matches import find_all, matches
from pulsed.present.api.history import History, HistoryHead, HistoryShape, HistoryWindow, history_head
from pulsed.present.api.json_response import ApiError
from pulsed.present.api.routing import (
    NOT_FOUND,
    NOT_ONE_GPU,
    REFUSED,
    GpuPath,
    NodeQuery,
    chosen,
    require_one,
    some_of,
)
from pulsed.present.api.sample_fields import FIELDS, NO_STATE, WORDS
from pulsed.present.api.schema import DocumentModel

CHART_FIELDS = (
    "workload_class",
    "health_state",
    "real_utilization_ratio",
    "real_utilization_lower_ratio",
    "real_utilization_upper_ratio",
)
"""Fields of points by default."""

MAX_POINTS, MAX_GPUS = 2000, 256

MAX_VALUES = 100_000
"""Values of an answer with points, each with its minimum, mean and maximum: some 2.5 MB."""

MAX_SAMPLE_VALUES = 250_000
"""Values of an answer with samples: 10 minutes of the default fields at 10 Hz are 170,000."""


def history_router(store: TargetStore, history: History) -> APIRouter:
    """Return the routes `/gpus/{gpu}/history` and `/history`."""
    router = APIRouter()
    unkept = partial(_unkept, kept=history.fields)

    def places_of(wanted: Sequence[str], node: str | None) -> dict[str, list[tuple[str, Device]]]:
        """Return target and device of the GPUs of each name, else of those that are gone."""
        present = find_all(store, wanted, node, time.monotonic())
        return {
            name: [(match.target.tick.target, match.device) for match in found if match.target.tick is not None]
            or [(past.target, past.device) for past in history.find(name, node, store.node)]
            for name, found in present.items()
        }

    def all_places(node: str | None) -> list[tuple[str, Device]]:
        return [
            (match.target.tick.target, match.device)
            for match in matches(store, time.monotonic())
            if match.target.tick is not None and node in (None, match.node)
        ]

    @router.get(
        "/gpus/{gpu}/history",
        response_model=HistoryShape,
        responses=REFUSED | NOT_ONE_GPU,
        summary="Recent samples of a GPU, also of one that is gone",
    )
    async def gpu_history(
        gpu: GpuPath,
        node: NodeQuery = None,
        seconds: Annotated[
            float, Query(gt=0, allow_inf_nan=False, description="length of the window; at most what is kept")
        ] = history.seconds,
        fields: str = some_of(history.fields, "fields"),
    ) -> Response:
        wanted = chosen("fields", fields, history.fields, unkept)
        places = places_of([gpu], node)[gpu]
        require_one(gpu, [(node_of(device, store.node), device) for _, device in places])
        window = history.window(*places[0], seconds)
        if (count := len(window.ticks) * len(wanted)) > MAX_SAMPLE_VALUES:
            raise ApiError(400, f"{count} values are more than {MAX_SAMPLE_VALUES}; choose fewer fields or seconds")
        head = {**history_head(window, store.node), "seconds": window.seconds}
        return Response(await history.write(window, wanted, head), media_type="application/json")

    @router.get(
        "/history",
        response_model=HistoryPointsShape,
        responses=REFUSED | NOT_FOUND,
        summary="Recent samples of several GPUs as points of equal length",
    )
    async def history_points(
        gpu: Annotated[str, Query(description="names of GPUs, separated by commas; empty: all of /gpus")] = "",
        node: NodeQuery = None,
        seconds: Annotated[
            float, Query(ge=1, allow_inf_nan=False, description="length of the window; at most what is kept")
        ] = history.seconds,
        points: Annotated[int, Query(ge=2, le=MAX_POINTS, description="number of points")] = 120,
        fields: str = some_of(history.fields, "fields", default=",".join(_charted(history.fields))),
    ) -> Response:
        wanted = chosen("fields", fields, history.fields, unkept)
        if gpu:
            names = list(dict.fromkeys(gpu.split(",")))
            _check_gpus(len(names))
            found = places_of(names, node)
            for name in names:
                require_one(name, found[name][:1])
            places = list(dict.fromkeys(chain.from_iterable(found.values())))
        else:
            places = list(dict.fromkeys(all_places(node)))
        _check_gpus(len(places))
        if (count := len(places) * points * len(wanted)) > MAX_VALUES:
            shape = f"{len(places)} GPUs x {points} points x {len(wanted)} fields are {count} values"
            raise ApiError(400, f"{shape}, more than {MAX_VALUES}; reduce them")
        windows = [history.window(*place, seconds) for place in places]
        body = await write_points(history, windows, wanted, points, min(seconds, history.seconds), store.node)
        return Response(body, media_type="application/json")

    return router


def _charted(kept: Sequence[str]) -> list[str]:
    """Return the default fields of charts; all that are kept if none of those is."""
    return [name for name in CHART_FIELDS if name in kept] or list(kept)


def _check_gpus(count: int) -> None:
    if count > MAX_GPUS:
        raise ApiError(400, f"gpu: {count} GPUs; name at most {MAX_GPUS}")


def _unkept(name: str, kept: Sequence[str]) -> str:
    """Return what is wrong with a field that is not kept."""
    if name in FIELDS:
        return f"{name!r} is not kept; add it to history.fields"
    hint = did_you_mean(name, kept, did_you_mean(name, FIELDS, f"allowed: {', '.join(kept)}"))
    return f"{name!r} is not a field; {hint}"


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
        points = {}
        for name, values in _fields(history, window, fields, axis):
            points[name] = values
            await asyncio.sleep(0)
        gpus.append({**history_head(window, here), "fields": points})
    return json_bytes({"seconds": axis.seconds, "step_seconds": axis.step, "time": axis.times, "gpus": gpus})


def _fields(
    history: History, window: HistoryWindow, fields: Sequence[str], axis: PointAxis
) -> Iterator[tuple[str, Points]]:
    """Yield the name and the points of each field of a GPU."""
    samples = list(history.samples(window))
    rows = _rows_by_point(window, [clock for each in samples for clock in each.clocks], axis)
    columns = history.columns.transposed(b"".join([each.rows for each in samples]))
    for name in fields:
        column = history.columns.column(name, columns) if columns else ()
        if name in WORDS:
            yield name, _states(column, rows, axis.size, WORDS[name])
        else:
            yield name, _numbers(column, rows, axis.size, 3 if history.columns.decimals(name) is None else 4)


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


def _numbers(column: Sequence[float], rows: Mapping[int, Sequence[int]], size: int, decimals: int) -> Points:
    """Return minimum, mean and maximum per point; None for points without a value."""
    points: dict[str, list[float | None]] = {name: [None] * size for name in ("min", "mean", "max")}
    for point, those in rows.items():
        known = [value for row in those if -inf < (value := column[row]) < inf]  # neither is NaN
        if known:
            points["min"][point] = round(min(known), decimals)
            points["mean"][point] = round(sum(known) / len(known), decimals)
            points["max"][point] = round(max(known), decimals)
    return points


def _states(column: Sequence[int], rows: Mapping[int, Sequence[int]], size: int, declared: DerivedState) -> Points:
    """Return the most frequent state per point, of ranked states the worst; None for points without one."""
    states: list[str | None] = [None] * size
    for point, those in rows.items():
        counts = Counter(code for row in those if (code := column[row]) != NO_STATE)
        if counts:
            code = max(counts) if declared.ranked else min(counts, key=lambda code: (-counts[code], code))
            states[point] = declared.states[code]
    return states
