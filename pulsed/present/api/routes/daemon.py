"""The routes of the daemon itself: version and configuration."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Response

from pulsed import __version__
from pulsed.present.api import schema
from pulsed.present.api.json_response import json_response


def daemon_router(config: Mapping[str, Any]) -> APIRouter:
    """Return the routes `/version` and `/config`; secrets in `config` are masked."""
    router = APIRouter()

    @router.get("/version", response_model=schema.Version, summary="Version of pulsed and Python")
    async def version() -> Response:
        return json_response({"version": __version__, "python": platform.python_version()})

    @router.get("/config", summary="Configuration in force, with secrets masked")
    async def configuration() -> Response:
        return json_response(config)

    return router
