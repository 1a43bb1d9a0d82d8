"""The OpenAPI document: that of FastAPI, and the paths that are served outside it."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from pulsed.present.asgi import HEALTH, HEALTHY, READY


def openapi_document(app: FastAPI, telemetry_path: str, external_path: str | None) -> dict[str, Any]:
    """Return the OpenAPI document of an application, given all its routes.

    Args:
        telemetry_path: path of the Prometheus page.
        external_path: path of all pages as clients see it; None: clients see the paths of this server.
    """
    document = get_openapi(
        title=app.title, version=app.version, summary=app.summary, license_info=app.license_info, routes=app.routes
    )
    _remove_422(document)
    document["paths"] |= _front_paths(telemetry_path)
    if external_path is not None:
        document["servers"] = [{"url": external_path or "/"}]
    return document


def _front_paths(telemetry_path: str) -> dict[str, Any]:
    """Return the OpenAPI paths that are served outside FastAPI."""
    page = "Prometheus page: text 0.0.4 or OpenMetrics 1.0.0 by Accept, gzip by Accept-Encoding"
    alive = "Liveness of the process, whatever the sources do"
    text = {"text/plain": {"schema": {"type": "string"}}}
    paths: dict[str, Any] = {}
    for path, summary in (
        (telemetry_path, page),
        (HEALTHY, alive),
        (HEALTH, alive),
        (READY, "Readiness: 200 with fresh data"),
    ):
        answers: dict[str, Any] = {"200": {"description": "OK", "content": text}}
        if path == READY:
            answers["503"] = {"description": "No fresh data", "content": text}
        if path == telemetry_path:
            answers["200"] = {
                "description": "OK",
                "content": text | {"application/openmetrics-text": {"schema": {"type": "string"}}},
            }
        paths[path] = {"get": {"summary": summary, "responses": answers}}
    return paths


def _remove_422(document: dict[str, Any]) -> None:
    """Remove FastAPI's 422 responses: an invalid parameter is answered 400."""
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)
