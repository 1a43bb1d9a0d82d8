"""The route `/container/metrics`."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from pulsed.model.target_store import TargetStore
from pulsed.present.api import schema
from pulsed.present.api.container_metrics import RowFilter, container_rows, encode
from pulsed.present.api.json_response import REFUSED
from pulsed.present.asgi import HEAD_ONLY

PATH = "/container/metrics"

STALE_HEADER = "X-Pulsed-Stale"
"""Why GPUs are left out."""

MAX_HEADER = 1000

_OTHER_METHODS = ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def container_router(board: TargetStore, preset: str) -> APIRouter:
    """Return the route `/container/metrics`; `preset` is the name of the weights."""
    router = APIRouter()

    @router.get(
        PATH,
        response_model=schema.ContainerRows,
        responses=REFUSED | {500: {"description": "No source has ever been read", "content": {"text/plain": {}}}},
        summary="Metrics of every GPU and container, in the JSON of zxporter",
    )
    async def container_metrics(
        request: Request,
        pod: str = "",
        namespace: str = "",
        container: str = "",
        node: str = "",
        null: Annotated[bool, Query(description="missing numbers are null instead of 0")] = False,
        derived: Annotated[bool, Query(description="adds derived results under keys of their own")] = False,
    ) -> Response:
        if request.scope.get(HEAD_ONLY):
            return _plain("method not allowed", 405, {"Allow": "GET"})
        wanted = RowFilter(pod, namespace, container, node)
        settings = {"preset": preset} if derived else None
        found = container_rows(board, time.monotonic(), wanted, null=null, derived=settings)
        headers = {STALE_HEADER: _header("; ".join(found.reasons))} if found.reasons else {}
        if found.has_failed:
            return _plain("internal server error", 500, headers)
        return Response(encode(found.rows), headers=headers, media_type="application/json")

    @router.api_route(PATH, methods=_OTHER_METHODS, include_in_schema=False)
    async def not_allowed() -> Response:
        return _plain("method not allowed", 405, {"Allow": "GET"})

    return router


def _plain(text: str, status: int, headers: dict[str, str]) -> Response:
    return Response(f"{text}\n", status, headers, media_type="text/plain")


def _header(text: str) -> str:
    """Return a text in one line of printable ASCII."""
    return " ".join(text.split()).encode("ascii", "replace").decode()[:MAX_HEADER]
