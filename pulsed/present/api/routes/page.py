"""The routes of the page for browsers. Other clients get its content as a table of text."""

from __future__ import annotations

import time
from functools import cache

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from pulsed import __version__
from pulsed.model.target_store import TargetStore
from pulsed.present.exposition.negotiation import accepts_gzip
from pulsed.present.table import table
from pulsed.present.web.assets import CONTENT_SECURITY_POLICY, Asset, Assets

IMMUTABLE = "private, max-age=31536000, immutable"


def page_router(board: TargetStore, telemetry_path: str, external_path: str | None) -> APIRouter:
    """Return the routes `/` and `/static/`."""
    router = APIRouter()

    @cache
    def assets() -> Assets:
        return Assets.load()

    @cache
    def page() -> Asset:
        return assets().page(__version__, telemetry_path, external_path)

    @router.get("/", include_in_schema=False)
    async def landing(request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            text = f"{table(board, time.monotonic())}\nPrometheus: {telemetry_path}   JSON: /gpus   API: /docs\n"
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

    return router


def _file(request: Request, asset: Asset, headers: dict[str, str]) -> Response:
    """Return a file, or 304 for a client that has it."""
    headers |= {"etag": asset.etag}
    if asset.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if accepts_gzip(request.headers.get("accept-encoding", "")):
        return Response(asset.compressed, headers=headers | {"content-encoding": "gzip"}, media_type=asset.media_type)
    return Response(asset.body, headers=headers, media_type=asset.media_type)
