"""The routes of the recent samples of GPUs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Annotated

from fastapi import APIRouter, Query, Response

from pulsed.model.gpu import Device, node_of
from pulsed.model.target_store import TargetStore
from pulsed.present.api import documents, schema
from pulsed.present.api.event_documents import identity_document
from pulsed.present.api.gpu_lookup import NOT_ONE_GPU, GpuPath, NodeQuery, require_one
from pulsed.present.api.history import History
from pulsed.present.api.history_points import write_points
from pulsed.present.api.json_response import REFUSED, ApiError
from pulsed.present.api.query_fields import chosen, some_of
from pulsed.present.api.sample_fields import FIELDS
from pulsed.suggestions import did_you_mean

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


def history_router(board: TargetStore, history: History) -> APIRouter:
    """Return the routes `/gpus/{gpu}/history` and `/history`."""
    router = APIRouter()
    unkept = partial(_unkept, kept=history.fields)

    def places_of(wanted: Sequence[str], node: str | None) -> dict[str, list[tuple[str, Device]]]:
        """Return target and device of the GPUs of each name, else of those that are gone."""
        present = documents.find_all(board, wanted, node, time.monotonic())
        return {
            name: [(match.target.tick.target, match.device) for match in found if match.target.tick is not None]
            or [(past.target, past.device) for past in history.find(name, node, board.node)]
            for name, found in present.items()
        }

    def all_places(node: str | None) -> list[tuple[str, Device]]:
        return [
            (match.target.tick.target, match.device)
            for match in documents.matches(board, time.monotonic())
            if match.target.tick is not None and node in (None, match.node)
        ]

    @router.get(
        "/gpus/{gpu}/history",
        response_model=schema.HistoryShape,
        responses=REFUSED | NOT_ONE_GPU,
        summary="Recent samples of a GPU, also of one that is gone",
    )
    async def gpu_history(
        gpu: GpuPath,
        node: NodeQuery = None,
        seconds: Annotated[
            float,
            Query(gt=0, allow_inf_nan=False, description="length of the window; at most what is kept"),
        ] = history.seconds,
        fields: str = some_of(history.fields, "fields"),
    ) -> Response:
        wanted = chosen("fields", fields, history.fields, unkept)
        places = places_of([gpu], node)[gpu]
        require_one(gpu, [(node_of(device, board.node), device) for _, device in places])
        window = history.window(*places[0], seconds)
        if (count := window.most_samples * len(wanted)) > MAX_SAMPLE_VALUES:
            raise ApiError(400, f"{count} values are more than {MAX_SAMPLE_VALUES}; choose fewer fields or seconds")
        head = identity_document(window.device, board.node)
        head |= {"interval_seconds": window.interval, "seconds": window.seconds}
        return Response(await history.write(window, wanted, head), media_type="application/json")

    @router.get(
        "/history",
        response_model=schema.HistoryPointsShape,
        responses=REFUSED | {404: {"model": schema.Failure}},
        summary="Recent samples of several GPUs as points of equal length",
    )
    async def history_points(
        gpu: Annotated[str, Query(description="names of GPUs, separated by commas; empty: all of /gpus")] = "",
        node: NodeQuery = None,
        seconds: Annotated[
            float,
            Query(ge=1, allow_inf_nan=False, description="length of the window; at most what is kept"),
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
        body = await write_points(history, windows, wanted, points, min(seconds, history.seconds), board.node)
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
