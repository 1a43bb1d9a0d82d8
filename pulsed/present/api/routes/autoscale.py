"""The route `/autoscale/v1/gpus`: the GPUs of pods, of which `pulsed adapter` makes the numbers of workloads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from fastapi import APIRouter, Response
from pydantic import create_model

from pulsed.errors import did_you_mean
from pulsed.model.computed_tick import Result
from pulsed.model.owner import Owner
from pulsed.model.target_store import TargetStore
from pulsed.model.vocabulary import Reading, Value
from pulsed.present.api.event_documents import finite
from pulsed.present.api.gpu_matches import Match, board_of, is_stale, matches, pods_of, without_split_boards
from pulsed.present.api.routing import REFUSED, ApiParts, NodeAnswer, chosen, json_response, node_answer, some_of
from pulsed.present.api.sample_fields import GAUGES, getter
from pulsed.present.api.schema import DocumentModel
from pulsed.present.autoscale import (
    GPUS_ROUTE,
    POD_GPU_FIELDS,
    ROUTES,
    PodGpu,
)

DEFAULT_FIELDS = ("real_utilization_ratio", "memory_used_bytes", "power_watts")

PodGpuShape = create_model("PodGpuShape", __base__=DocumentModel, **POD_GPU_FIELDS)

POD_GPUS = create_model("PodGpus", __base__=NodeAnswer, gpus=(list[PodGpuShape], ...))  # type: ignore[valid-type] # of a table
"""The GPUs of pods."""


def autoscale_router(parts: ApiParts) -> APIRouter:
    """Return the route `/autoscale/v1/gpus`."""
    router, store = APIRouter(prefix=ROUTES), parts.store

    @router.get(GPUS_ROUTE, response_model=POD_GPUS, responses=REFUSED, summary="GPUs of pods, with values to scale on")
    async def rows(fields: str = some_of(GAUGES, "fields", default=",".join(DEFAULT_FIELDS))) -> Response:
        names = chosen("fields", fields, GAUGES, _not_a_number)
        gpus = pod_gpus(store, time.monotonic(), names)
        return json_response({**node_answer(store.node), "gpus": [gpu._asdict() for gpu in gpus]})

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
        for owner in pods_of(match.owners)
    ]


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
        1 / len(match.owners or (owner,)),
        round(match.time, 3),
        is_stale(match, now),
        {name: value for name, value in values.items() if not isinstance(value, str)},
    )
