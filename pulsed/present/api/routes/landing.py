"""The routes for people: the landing page and the documentation of the API."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.openapi.docs import get_swagger_ui_html

from pulsed import __version__

SUMMARY = "Real utilization, workload class and health of the GPUs of this node."


def landing_router(telemetry_path: str, external_path: str | None) -> APIRouter:
    """Return the routes `/` and `/docs`."""
    router = APIRouter()

    @router.get("/", include_in_schema=False)
    async def landing() -> Response:
        return Response(_landing_page(telemetry_path, external_path), media_type="text/html")

    @router.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        static = "static-offline-docs"
        return get_swagger_ui_html(
            openapi_url="openapi.json",
            title="pulsed: API",
            swagger_js_url=f"{static}/swagger-ui-bundle.js",
            swagger_css_url=f"{static}/swagger-ui.css",
            swagger_favicon_url=f"{static}/favicon.png",
        )

    return router


def _landing_page(telemetry_path: str, external_path: str | None) -> str:
    """Return the page at `/`: links to everything."""
    base = "" if external_path is None else f'<base href="{external_path}/">'
    links = {telemetry_path: "Prometheus page", "/gpus": "GPUs as JSON", "/docs": "API", "/config": "configuration"}
    items = "".join(f'<li><a href="{path[1:]}">{path}</a> {meaning}</li>' for path, meaning in links.items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"{base}<title>pulsed</title></head>"
        f"<body><h1>pulsed {__version__}</h1><p>{SUMMARY}</p><ul>{items}</ul></body></html>"
    )
