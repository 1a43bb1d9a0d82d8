"""The routes of the current state of GPUs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from pulsed.background import in_background
from pulsed.compute.settings import ComputeSettings
from pulsed.model.target_store import TargetStore
from pulsed.present.api import documents, schema
from pulsed.present.api.class_document import class_document
from pulsed.present.api.gpu_columns import MAX_ROWS, SUMMARY_FIELDS, summary_document
from pulsed.present.api.gpu_lookup import NOT_ONE_GPU, GpuPath, NodeQuery, require_one
from pulsed.present.api.json_response import REFUSED, json_response, list_response
from pulsed.present.api.query_fields import chosen_fields, some_of
from pulsed.present.api.sample_fields import FIELDS


def gpu_router(board: TargetStore, settings: ComputeSettings) -> APIRouter:
    """Return the routes `/gpus`, `/gpus/{gpu}` and `/gpus/{gpu}/class`."""
    router, preset = APIRouter(), settings.preset_name

    @router.get(
        "/gpus",
        response_model=schema.Gpus | schema.GpuColumnsShape,
        responses=REFUSED,
        summary="Current state of every GPU",
    )
    async def gpus(
        view: Annotated[Literal["full", "summary"], Query(description="summary: columns")] = "full",
        fields: str = some_of(FIELDS, "columns of the summary", default=",".join(SUMMARY_FIELDS)),
    ) -> Response:
        wanted = chosen_fields(fields)
        if view == "summary":
            return await columns(wanted)
        now = time.monotonic()
        head = documents.sources_document(board, now, time.time())
        return list_response(head, "gpus", documents.gpu_documents(board, now, preset))

    async def columns(wanted: Sequence[str]) -> Response:
        now = time.monotonic()
        head = documents.sources_document(board, now, time.time())
        shown = list(documents.matches(board, now))

        def make() -> Response:
            return json_response({**head, **summary_document(shown, wanted, now)})

        return await in_background(make) if len(shown) > MAX_ROWS else make()

    @router.get(
        "/gpus/{gpu}",
        response_model=schema.Gpu,
        responses=NOT_ONE_GPU,
        summary="Current state of one GPU or MIG instance",
    )
    async def one_gpu(gpu: GpuPath, node: NodeQuery = None) -> Response:
        now = time.monotonic()
        return json_response(documents.gpu_document(find(gpu, node, now), now, preset))

    @router.get(
        "/gpus/{gpu}/class",
        response_model=schema.ClassReasonShape,
        responses=NOT_ONE_GPU,
        summary="Why a GPU has its class: the rules that were tried, with bounds of their variables",
    )
    async def class_reason(gpu: GpuPath, node: NodeQuery = None) -> Response:
        return json_response(class_document(find(gpu, node, time.monotonic()), settings))

    def find(gpu: str, node: str | None, now: float) -> documents.Match:
        found = documents.find(board, gpu, node, now)
        require_one(gpu, [(match.node, match.device) for match in found])
        return found[0]

    return router
