"""The routes of the current state and the health of GPUs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from pulsed.background import in_background
from pulsed.compute.health.checks import BY_ID
from pulsed.errors import did_you_mean
from pulsed.present.api.documents import GPU, GPU_HEALTH, GPUS, all_gpus, gpu_document, health_document, sources_of
from pulsed.present.api.gpu_columns import GPU_COLUMNS, MAX_ROWS, SUMMARY_FIELDS, summary_document
from pulsed.present.api.gpu_matches import matches
from pulsed.present.api.json_response import json_response, list_response
from pulsed.present.api.routing import (
    NOT_ONE_GPU,
    REFUSED,
    ApiParts,
    GpuPath,
    NodeQuery,
    chosen,
    chosen_fields,
    find_one,
    some_of,
)
from pulsed.present.api.sample_fields import FIELDS
from pulsed.present.api.schema import listed
from pulsed.present.health_report import health_line


def gpu_router(parts: ApiParts) -> APIRouter:
    """Return the routes `/gpus` and `/gpus/{gpu}`."""
    router, store, preset = APIRouter(), parts.store, parts.settings.real_utilization.preset

    @router.get(
        "/gpus", response_model=GPUS.model | GPU_COLUMNS.model, responses=REFUSED, summary="Current state of every GPU"
    )
    async def gpus(
        view: Annotated[Literal["full", "summary"], Query(description="summary: columns")] = "full",
        fields: str = some_of(FIELDS, "columns of the summary", default=",".join(SUMMARY_FIELDS)),
    ) -> Response:
        wanted = chosen_fields(fields)
        if view == "summary":
            return await columns(wanted)
        return list_response(GPUS, all_gpus(store, time.monotonic(), time.time(), preset))

    async def columns(wanted: Sequence[str]) -> Response:
        now = time.monotonic()
        sources = sources_of(store, now, time.time())
        shown = list(matches(store, now))

        def make() -> Response:
            return json_response(summary_document(sources, shown, wanted, now))

        return await in_background(make) if len(shown) > MAX_ROWS else make()

    @router.get(
        "/gpus/{gpu}",
        response_model=GPU.model,
        responses=NOT_ONE_GPU,
        summary="Current state of one GPU or MIG instance",
    )
    async def one_gpu(gpu: GpuPath, node: NodeQuery = None) -> Response:
        now = time.monotonic()
        return json_response(gpu_document(find_one(store, gpu, node, now), now, preset))

    return router


def health_router(parts: ApiParts) -> APIRouter:
    """Return the route `/health/gpus`."""
    router, store = APIRouter(), parts.store

    @router.get(
        "/health/gpus",
        response_model=listed(GPU_HEALTH).type(),
        responses=REFUSED | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
        summary="Health problems of every GPU, for scripts",
    )
    async def health(
        format: Annotated[Literal["json", "line"], Query(description="line: one line for Nagios")] = "json",
        checks: str = some_of(tuple(BY_ID), "checks that count, all if empty", default=""),
    ) -> Response:
        wanted = chosen("checks", checks, BY_ID, _unknown_check) if checks else []
        rows = health_document(store, time.monotonic(), wanted)
        return Response(health_line(rows), media_type="text/plain") if format == "line" else json_response(rows)

    return router


def _unknown_check(name: str) -> str:
    return did_you_mean(name, BY_ID, "HEALTH.md lists the checks")
