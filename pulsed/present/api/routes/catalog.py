"""The route of the tables that explain values."""

from __future__ import annotations

from fastapi import APIRouter, Response

from pulsed.compute.settings import ComputeSettings
from pulsed.present.api import schema
from pulsed.present.api.catalog_document import catalog_document
from pulsed.present.api.json_response import json_response


def catalog_router(settings: ComputeSettings) -> APIRouter:
    """Return the route `/catalog`."""
    router = APIRouter()

    @router.get("/catalog", response_model=schema.CatalogShape, summary="Class rules, quantities and health checks")
    async def catalog() -> Response:
        return json_response(catalog_document(settings))

    return router
