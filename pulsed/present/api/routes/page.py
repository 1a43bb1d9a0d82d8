"""The routes of the pages for browsers: of the GPUs, which other clients get as a table of text, and of the API."""

from __future__ import annotations

import time
from functools import cache

from fastapi import APIRouter, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.exceptions import HTTPException

from pulsed import __version__
from pulsed.present.api.routing import ApiParts
from pulsed.present.exposition.negotiation import accepts_gzip
from pulsed.present.table import table
from pulsed.present.web import CONTENT_SECURITY_POLICY, Asset, Assets

IMMUTABLE = "private, max-age=31536000, immutable"


_DOCS_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
)
"""Swagger UI has an inline script and inline styles."""


def page_router(parts: ApiParts) -> APIRouter:
    """Return the routes `/`, `/static/` and `/docs`."""
    router = APIRouter()

    @cache
    def assets() -> Assets:
        return Assets.load()

    @cache
    def page() -> Asset:
        return assets().page(__version__, parts.telemetry_path, parts.external_path)

    @router.get("/", include_in_schema=False)
    async def landing(request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            paths = f"Prometheus: {parts.telemetry_path}   JSON: /gpus   API: /docs"
            text = f"{table(parts.store, time.monotonic())}\n{paths}\n"
            return Response(text, media_type="text/plain", headers={"vary": "Accept"})
        headers = {
            "cache-control": "no-cache",
            "content-security-policy": CONTENT_SECURITY_POLICY,
            "referrer-policy": "no-referrer",
            "vary": "Accept, Accept-Encoding",
        }
        return _file(request, page(), headers)

    @router.get("/static/{version}/{name:path}", include_in_schema=False)
    async def static(request: Request, version: str, name: str) -> Response:
        found = assets().files.get(name)
        if found is None or version != assets().version:
            raise HTTPException(404, "Not Found")
        return _file(request, found, {"cache-control": IMMUTABLE, "vary": "Accept-Encoding"})

    @router.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        static = "static-offline-docs"
        page = get_swagger_ui_html(
            openapi_url="openapi.json",
            title="pulsed: API",
            swagger_js_url=f"{static}/swagger-ui-bundle.js",
            swagger_css_url=f"{static}/swagger-ui.css",
            swagger_favicon_url=f"{static}/favicon.png",
        )
        page.headers["content-security-policy"] = _DOCS_POLICY
        return page

    return router


def _file(request: Request, asset: Asset, headers: dict[str, str]) -> Response:
    """Return a file, or 304 for a client that has it."""
    headers |= {"etag": asset.etag}
    if asset.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if accepts_gzip(request.headers.get("accept-encoding", "")):
        return Response(asset.compressed, headers=headers | {"content-encoding": "gzip"}, media_type=asset.media_type)
    return Response(asset.body, headers=headers, media_type=asset.media_type)
