"""The routes of the samples of GPUs: of one, or of several on one axis of time, for charts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Annotated

from fastapi import APIRouter, Query, Response

from pulsed.errors import did_you_mean
from pulsed.model.clocks import Monotonic
from pulsed.model.gpu import Device, node_of
from pulsed.model.target_store import TargetStore
from pulsed.present.api.day_history import DayHistory, write_points
from pulsed.present.api.gpu_matches import find_all, matches
from pulsed.present.api.history import History, HistoryShape, history_head
from pulsed.present.api.history_points import HistoryPointsShape
from pulsed.present.api.routing import (
    NOT_FOUND,
    NOT_ONE_GPU,
    REFUSED,
    ApiError,
    GpuPath,
    NodeQuery,
    chosen,
    require_one,
    some_of,
)
from pulsed.present.api.sample_fields import FIELDS

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


def history_router(store: TargetStore, history: History, day: DayHistory) -> APIRouter:
    """Return the routes `/gpus/{gpu}/history` and `/history`."""
    router = APIRouter()
    longest = max(history.seconds, day.seconds)
    unkept = partial(_unkept, kept=history.fields)

    def places_of(names: Sequence[str], node: str | None) -> dict[str, list[tuple[str, Device]]]:
        """Return target and device of the current GPUs of each name; without one, of the GPUs that are gone."""
        present = find_all(store, names, node, Monotonic(time.monotonic()))
        return {
            name: [(match.target.tick.target, match.device) for match in places if match.target.tick is not None]
            or history.find(name, node, store.node)
            for name, places in present.items()
        }

    def all_places(node: str | None) -> list[tuple[str, Device]]:
        return [
            (match.target.tick.target, match.device)
            for match in matches(store, Monotonic(time.monotonic()))
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
        columns = chosen("fields", fields, history.fields, unkept)
        places = places_of([gpu], node)[gpu]
        require_one(gpu, [(node_of(device, store.node), device) for _, device in places])
        window = history.window(*places[0], seconds)
        if (count := len(window.ticks) * len(columns)) > MAX_SAMPLE_VALUES:
            raise ApiError(400, f"{count} values are more than {MAX_SAMPLE_VALUES}; choose fewer fields or seconds")
        head = {**history_head(window, store.node), "seconds": window.seconds}
        return Response(await history.write(window, columns, head), media_type="application/json")

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
            float,
            Query(
                ge=1, allow_inf_nan=False, description="length of the window; at most what is kept, a day of minutes"
            ),
        ] = history.seconds,
        points: Annotated[int, Query(ge=2, le=MAX_POINTS, description="number of points")] = 120,
        fields: str = some_of(history.fields, "fields", default=",".join(_charted(history.fields))),
    ) -> Response:
        columns = chosen("fields", fields, history.fields, unkept)
        if gpu:
            names = list(dict.fromkeys(gpu.split(",")))
            _check_gpus(len(names))
            places_by_name = places_of(names, node)
            for name in names:
                require_one(name, places_by_name[name][:1])
            places = list(dict.fromkeys(chain.from_iterable(places_by_name.values())))
        else:
            places = list(dict.fromkeys(all_places(node)))
        _check_gpus(len(places))
        if (count := len(places) * points * len(columns)) > MAX_VALUES:
            shape = f"{len(places)} GPUs x {points} points x {len(columns)} fields are {count} values"
            raise ApiError(400, f"{shape}, more than {MAX_VALUES}; reduce them")
        body = await write_points(history, day, places, columns, points, min(seconds, longest), store.node)
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
