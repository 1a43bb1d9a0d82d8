"""The routes `/autoscale/v1/...`: numbers for KEDA's metrics-api scaler, and the rows that they are made of."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from pulsed.errors import NumberUnknown
from pulsed.model.target_store import TargetStore
from pulsed.present.api import schema
from pulsed.present.api.json_response import REFUSED, ApiError, json_response
from pulsed.present.api.pod_gpus import missing_targets, pod_gpus
from pulsed.present.api.query_fields import chosen, some_of
from pulsed.present.api.sample_fields import GAUGES
from pulsed.present.autoscale import GPUS_ROUTE, POD_KIND, ROUTES, Aggregate, How, WorkloadKey, workload_number
from pulsed.present.time_text import rfc3339
from pulsed.suggestions import did_you_mean

DEFAULT_FIELDS = ("real_utilization_ratio", "memory_used_bytes", "power_watts")

_METRICS: list[Any] = [*GAUGES, *(name.removesuffix("_ratio") for name in GAUGES if name.endswith("_ratio"))]

_UNKNOWN: dict[int | str, dict[str, Any]] = {
    404: {"model": schema.Failure, "description": "No such workload here; a sum is 0 instead"},
    503: {"model": schema.Failure, "description": "No current value; keep the replicas"},
}


def autoscale_router(board: TargetStore) -> APIRouter:
    """Return the routes `/autoscale/v1/gpus` and `/autoscale/v1/{how}/{namespace}/{kind}/{name}/{metric}`."""
    router = APIRouter(prefix=ROUTES)

    @router.get(
        GPUS_ROUTE, response_model=schema.PodGpus, responses=REFUSED, summary="GPUs of pods, with values to scale on"
    )
    async def rows(fields: str = some_of(GAUGES, "fields", default=",".join(DEFAULT_FIELDS))) -> Response:
        wanted = chosen("fields", fields, GAUGES, _not_a_number)
        found = pod_gpus(board, time.monotonic(), wanted)
        return json_response(
            {"node": board.node, "time": rfc3339(time.time()), "gpus": [row._asdict() for row in found]}
        )

    @router.get(
        "/{how}/{namespace}/{kind}/{name}/{metric}",
        response_model=schema.ScaleNumber,
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
        rows = pod_gpus(board, now, [field])
        try:
            found = workload_number(rows, workload, how, field, lambda: missing_targets(board, now))
        except NumberUnknown as error:
            raise ApiError(503, str(error), {"Retry-After": "5"}) from None
        if found is None and how == "sum":
            found = Aggregate(0.0, 0, 0, time.time(), False)
        if found is None:
            raise ApiError(404, f"{workload} has no GPU on node {board.node}")
        return json_response(_document(found))

    return router


def _document(found: Aggregate) -> dict[str, object]:
    return {
        "value": found.value,
        "gpus": found.gpus,
        "pods": found.pods,
        "timestamp": rfc3339(found.time),
        "stale": found.stale,
    }


def _not_a_number(name: str) -> str:
    hint = did_you_mean(name, GAUGES, "METRICS.md lists the quantities")
    return f"{name!r} is not a number to scale on; {hint}"
