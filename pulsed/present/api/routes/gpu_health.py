"""The route of the health of GPUs."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from pulsed.collector.target_store import TargetStore
from pulsed.compute.health.checks import BY_ID
from pulsed.present.api import documents, schema
from pulsed.present.api.json_response import REFUSED, json_response
from pulsed.present.api.query_fields import some_of
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
        wanted = checks.split(",") if checks else []
        for name in wanted:
            if name not in BY_ID:
                return json_response(
                    {"error": f"checks: {did_you_mean(name, BY_ID, 'HEALTH.md lists the checks')}"}, 400
                )
        rows = documents.health_document(board, time.monotonic(), wanted)
        return Response(health_line(rows), media_type="text/plain") if format == "line" else json_response(rows)

    return router
