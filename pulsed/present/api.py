"""The JSON API and its documentation, which works without internet: a FastAPI application behind `front`.

Importing this module costs some 0.2 s and 13 MB: only `front` does, and only when a request needs it.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException

from pulsed import __version__
from pulsed.present import documents, schema
from pulsed.present.board import Board
from pulsed.present.front import HEALTH, HEALTHY, READY


def api(board: Board, config: Mapping[str, Any], telemetry_path: str = "/metrics", preset: str = "ai") -> FastAPI:
    """Make the JSON API.

    Args:
        board: what is known now.
        config: the configuration in force, secrets masked, for `/config`.
        telemetry_path: where the page for Prometheus is, for the documentation.
        preset: name of the weights of real utilization, which the documents repeat.
    """
    app = FastAPIOffline(
        title="pulsed",
        version=__version__,
        summary="What the GPUs of this node really do.",
        redoc_url=None,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    app.add_exception_handler(HTTPException, _failure)

    @app.get("/", include_in_schema=False)
    async def landing() -> Response:
        return Response(_landing_page(telemetry_path), media_type="text/html")

    @app.get("/gpus", response_model=schema.Gpus, summary="Every GPU, as it is now")
    async def gpus() -> Response:
        return _json(documents.gpus_document(board, time.monotonic(), time.time(), preset))

    @app.get(
        "/gpus/{gpu}",
        response_model=schema.Gpu,
        responses={404: {"model": schema.Failure}, 409: {"model": schema.Failure}},
        summary="One GPU or MIG instance",
    )
    async def one_gpu(
        gpu: Annotated[str, Path(description="an index, a UUID, a MIG UUID, or `index:MIG id`")],
        node: Annotated[str | None, Query(description="needed when several nodes have a GPU of that index")] = None,
    ) -> Response:
        now = time.monotonic()
        found = documents.find(board, gpu, node, now)
        if not found:
            return _json({"error": f"no GPU {gpu!r} is known; /gpus lists those that are"}, 404)
        if len(found) > 1:
            return _json({"error": f"{gpu!r} names more than one: {_choices(found)}"}, 409)
        return _json(documents.gpu_document(found[0], now, preset))

    @app.get("/version", response_model=schema.Version, summary="Which pulsed this is")
    async def version() -> Response:
        return _json({"version": __version__, "python": platform.python_version()})

    @app.get("/config", summary="The configuration in force, secrets masked")
    async def configuration() -> Response:
        return _json(config)

    document = get_openapi(
        title=app.title, version=app.version, summary=app.summary, license_info=app.license_info, routes=app.routes
    )
    document["paths"] |= _front_paths(telemetry_path)
    app.openapi = lambda: document  # type: ignore[method-assign] # FastAPI's way; what is in openapi_schema it may redo
    return app


def _landing_page(telemetry_path: str) -> str:
    """A page for whoever opens the address in a browser: where everything is."""
    links = {telemetry_path: "for Prometheus", "/gpus": "every GPU as JSON", "/docs": "the API", "/config": "settings"}
    items = "".join(f'<li><a href="{path}">{path}</a> {meaning}</li>' for path, meaning in links.items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>pulsed</title></head>'
        f"<body><h1>pulsed {__version__}</h1><p>What the GPUs of this node really do.</p><ul>{items}</ul></body></html>"
    )


def _front_paths(telemetry_path: str) -> dict[str, Any]:
    """Describe what `front` answers by itself."""
    page = "The page for Prometheus: text 0.0.4 or OpenMetrics 1.0.0 by Accept, gzip by Accept-Encoding"
    alive = "Whether the process answers; says nothing about sources"
    text = {"text/plain": {"schema": {"type": "string"}}}
    paths: dict[str, Any] = {}
    for path, summary in ((telemetry_path, page), (HEALTHY, alive), (HEALTH, alive), (READY, "Whether data is fresh")):
        answers: dict[str, Any] = {"200": {"description": "OK", "content": text}}
        if path == READY:
            answers["503"] = {"description": "Not yet, or no longer", "content": text}
        if path == telemetry_path:
            answers["200"] = {
                "description": "OK",
                "content": text | {"application/openmetrics-text": {"schema": {"type": "string"}}},
            }
        paths[path] = {"get": {"summary": summary, "responses": answers}}
    return paths


def _choices(found: Sequence[documents.Match]) -> str:
    """What to ask for instead of a name that several GPUs share."""
    nodes = sorted({match.node for match in found})
    if len(nodes) > 1:
        return f"add ?node= with one of {', '.join(nodes)}"
    entities = [match.device.entity for match in found]
    return f"ask for one of {', '.join(f'{entity.gpu or entity.uuid}:{entity.mig_id}' for entity in entities)}"


async def _failure(request: Request, error: Exception) -> Response:
    """Every error of the API has the same shape."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    said = error.detail if isinstance(error, HTTPException) else "internal error"
    headers = error.headers if isinstance(error, HTTPException) else None  # a 405 has to say what is allowed
    return _json({"error": f"{request.url.path}: {said}"}, status, headers)


def _json(document: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return Response(text, status, headers, media_type="application/json")
