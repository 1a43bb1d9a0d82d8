"""The routes of the host and its processes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Response

from pulsed.attribution.gpu_processes import GpuProcessTable
from pulsed.present.api import schema
from pulsed.present.api.host_document import HostUsage
from pulsed.present.api.json_response import json_response
from pulsed.present.api.process_document import processes_document


def host_router(config: Mapping[str, Any], table: GpuProcessTable) -> APIRouter:
    """Return the routes `/host` and `/processes`; the latter is empty without `attribution.processes`."""
    usage = HostUsage()
    router = APIRouter()

    @router.get("/host", response_model=schema.Host, summary="CPU and memory of the host")
    async def host() -> Response:
        return json_response(usage.document())

    @router.get(
        "/processes",
        response_model=schema.Processes,
        summary="Processes of jobs and pods on this host, and those that use its GPUs",
    )
    async def processes() -> Response:
        if not config["attribution"]["processes"]:
            return json_response({"published": False, "visible": None, "processes": []})
        return json_response(await asyncio.to_thread(processes_document, table.current))

    return router
