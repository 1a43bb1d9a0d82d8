"""The routes `/autoscale/v1/...`: numbers for KEDA's metrics-api scaler, and the rows that they are made of."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic import Field, create_model

from pulsed.errors import NumberUnknown, did_you_mean
from pulsed.model.computed_tick import Result
from pulsed.model.owner import Owner
from pulsed.model.target_store import TargetStore
from pulsed.model.vocabulary import Reading, Value
from pulsed.present.api.event_documents import finite
from pulsed.present.api.gpu_matches import Match, board_of, is_stale, matches, pods_of, without_split_boards
from pulsed.present.api.json_response import ApiError, Failure, json_response
from pulsed.present.api.routing import REFUSED, ApiParts, NodeAnswer, Responses, chosen, node_answer, some_of
from pulsed.present.api.sample_fields import GAUGES, getter
from pulsed.present.api.schema import DocumentModel, Time, at
from pulsed.present.autoscale import (
    GPUS_ROUTE,
    POD_GPU_FIELDS,
    POD_KIND,
    ROUTES,
    Aggregate,
    How,
    PodGpu,
    WorkloadKey,
    workload_number,
)

DEFAULT_FIELDS = ("real_utilization_ratio", "memory_used_bytes", "power_watts")

_METRICS: list[Any] = [*GAUGES, *(name.removesuffix("_ratio") for name in GAUGES if name.endswith("_ratio"))]

_UNKNOWN: Responses = {
    404: {"model": Failure, "description": "No such workload here; a sum is 0 instead"},
    503: {"model": Failure, "description": "No current value; keep the replicas"},
}


PodGpuShape = create_model("PodGpuShape", __base__=DocumentModel, **POD_GPU_FIELDS)

POD_GPUS = create_model("PodGpus", __base__=NodeAnswer, gpus=(list[PodGpuShape], ...))  # type: ignore[valid-type] # of a table
"""The GPUs of pods."""


class ScaleNumber(DocumentModel):
    """A number of a workload."""

    value: float
    gpus: int
    pods: int
    shares: float = Field(description="GPUs, shared ones in part: a sum over nodes divided by that of shares is a mean")
    timestamp: Time = at("time", "time of the oldest sample")
    stale: bool = Field(description="GPUs without a current value were left out; never in a sum")


def autoscale_router(parts: ApiParts) -> APIRouter:
    """Return the routes `/autoscale/v1/gpus` and `/autoscale/v1/{how}/{namespace}/{kind}/{name}/{metric}`."""
    router, store = APIRouter(prefix=ROUTES), parts.store

    @router.get(GPUS_ROUTE, response_model=POD_GPUS, responses=REFUSED, summary="GPUs of pods, with values to scale on")
    async def rows(fields: str = some_of(GAUGES, "fields", default=",".join(DEFAULT_FIELDS))) -> Response:
        wanted = chosen("fields", fields, GAUGES, _not_a_number)
        found = pod_gpus(store, time.monotonic(), wanted)
        return json_response({**node_answer(store.node), "gpus": [gpu._asdict() for gpu in found]})

    @router.get(
        "/{how}/{namespace}/{kind}/{name}/{metric}",
        response_model=ScaleNumber,
        responses=REFUSED | _UNKNOWN,
        summary="One number of a workload on this node",
    )
    async def number(
        how: How,
        namespace: str,
        kind: Annotated[str, Path(description=f"Deployment, StatefulSet, ..., or {POD_KIND} with the name of a pod")],
        name: str,
        metric: Annotated[
            str, Path(description="a number of a GPU; `_ratio` may be left out", json_schema_extra={"enum": _METRICS})
        ],
    ) -> Response:
        field = metric if metric in GAUGES else f"{metric}_ratio"
        if field not in GAUGES:
            raise ApiError(400, f"metric: {_not_a_number(metric)}")
        now, workload = time.monotonic(), WorkloadKey(namespace, kind, name)
        rows = pod_gpus(store, now, [field])
        try:
            found = workload_number(rows, workload, how, field, lambda: missing_targets(store, now))
        except NumberUnknown as error:
            raise ApiError(503, str(error), {"Retry-After": "5"}) from None
        if found is None and how == "sum":
            found = Aggregate(0.0, 0, 0, 0.0, time.time(), False)
        if found is None:
            raise ApiError(404, f"{workload} has no GPU on node {store.node}")
        return json_response(ScaleNumber.of(found))

    return router


def _not_a_number(name: str) -> str:
    hint = did_you_mean(name, GAUGES, "the quantities are in docs/metrics.md")
    return f"{name!r} is not a number to scale on; {hint}"


def pod_gpus(store: TargetStore, now: float, fields: Iterable[str]) -> list[PodGpu]:
    """Return the GPUs that pods have, stale ones too, once per container, with these fields; at a monotonic time."""
    getters = [(name, getter(name)) for name in fields]
    return [
        _pod_gpu(match, owner, getters, now)
        for match in without_split_boards(list(matches(store, now)))
        for owner in pods_of(match.device)
    ]


def missing_targets(store: TargetStore, now: float) -> str:
    """Return why pods may have more GPUs than `pod_gpus` returns; empty if they certainly have not."""
    for target in store.targets:
        if not target.fresh(now):
            return f"{target.name} has no current data" + (f": {target.error}" if target.error else "")
    return ""


def _pod_gpu(
    match: Match, owner: Owner, getters: Iterable[tuple[str, Callable[[Reading, Result], str | Value]]], now: float
) -> PodGpu:
    entity = match.device.entity
    values = {name: finite(get(match.reading, match.result)) for name, get in getters}
    return PodGpu(
        owner.namespace,
        owner.name,
        owner.container,
        owner.workload,
        owner.workload_kind,
        "/".join(filter(None, (*board_of(match), entity.mig_id))),
        1 / len(match.device.owners or (owner,)),
        round(match.time, 3),
        is_stale(match, now),
        {name: value for name, value in values.items() if not isinstance(value, str)},
    )
