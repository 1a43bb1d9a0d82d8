"""The route of the tables that explain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Response

from pulsed.compute.real_utilization import PRESETS
from pulsed.present.api import schema
from pulsed.present.api.json_response import json_response
from pulsed.present.web.catalog import catalog_document


def catalog_router(config: Mapping[str, Any]) -> APIRouter:
    """Return the route `/catalog`."""
    router = APIRouter()

    @router.get("/catalog", response_model=schema.CatalogShape, summary="Class rules, quantities and health checks")
    async def catalog() -> Response:
        compute = config["compute"]
        given = compute["real_utilization"]
        weights = given["weights"] or asdict(PRESETS[given["preset"]])
        return json_response(catalog_document(compute["workload"], weights))

    return router
