"""The route of the health of GPUs."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from pulsed.compute.health.checks import BY_ID
from pulsed.model.target_store import TargetStore
from pulsed.present.api import documents, schema
from pulsed.present.api.json_response import REFUSED, json_response
from pulsed.present.api.query_fields import chosen, some_of
from pulsed.present.health_report import health_line
from pulsed.suggestions import did_you_mean


def health_router(board: TargetStore) -> APIRouter:
    """Return the route `/health/gpus`."""
    router = APIRouter()

    @router.get(
        "/health/gpus",
        response_model=list[schema.GpuHealthShape],
        responses=REFUSED | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
        summary="Health problems of every GPU, for scripts",
    )
    async def health(
        format: Annotated[Literal["json", "line"], Query(description="line: one line for Nagios")] = "json",
        checks: str = some_of(tuple(BY_ID), "checks that count, all if empty", default=""),
    ) -> Response:
        wanted = chosen("checks", checks, BY_ID, _unknown_check) if checks else []
        rows = documents.health_document(board, time.monotonic(), wanted)
        return Response(health_line(rows), media_type="text/plain") if format == "line" else json_response(rows)

    return router


def _unknown_check(name: str) -> str:
    return did_you_mean(name, BY_ID, "HEALTH.md lists the checks")
