"""The FastAPI application: the JSON API with its documentation, which works without internet, and other routes."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from fastapi_offline import FastAPIOffline
from starlette.routing import BaseRoute, Route

from pulsed import __version__
from pulsed.present.api.routes.container_metrics import PATH as CONTAINER_METRICS
from pulsed.present.api.routes.container_metrics import container_router
from pulsed.present.api.routes.daemon import daemon_router, host_router, page_router
from pulsed.present.api.routes.gpus import catalog_router, class_router, gpu_router, health_router
from pulsed.present.api.routing import ERROR_HANDLERS, ApiParts, JsonCompression, ResponseHeaders
from pulsed.present.asgi import EVENTS, HEALTH, HEALTHY, READY

SUMMARY = "Real utilization, workload class and health of the GPUs of this node."

ROUTERS: tuple[Callable[[ApiParts], APIRouter], ...] = (
    page_router,
    gpu_router,
    class_router,
    container_router,
    health_router,
    host_router,
    catalog_router,
    daemon_router,
)
"""Routes that every daemon has."""

ORDER = (
    "/",
    "/gpus",
    "/gpus/{gpu}/class",
    "/gpus/{gpu}/history",
    "/jobs",
    CONTAINER_METRICS,
    EVENTS,
    "/health/gpus",
    "/host",
    "/catalog",
    "/version",
)
"""The order of the documentation, by the first path of each router; others come last."""


def api(parts: ApiParts, of_features: Iterable[APIRouter] = (), front: Iterable[BaseRoute] = ()) -> FastAPI:
    """Return the application; `front` has the routes besides the JSON API: metrics page, probes, management."""
    app = FastAPIOffline(
        None,  # its page has absolute links
        None,
        title="pulsed",
        version=__version__,
        summary=SUMMARY,
        root_path_in_servers=parts.external_path is None,
        redirect_slashes=False,  # its addresses have the Host of the client
        exception_handlers=ERROR_HANDLERS,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    app.add_middleware(JsonCompression)
    app.add_middleware(ResponseHeaders)
    app.router.routes.extend(front)
    for router in sorted((*(make(parts) for make in ROUTERS), *of_features), key=_place):
        app.include_router(router)
    document = functools.cache(lambda: _openapi_document(app, parts.telemetry_path, parts.external_path))
    app.openapi = document  # type: ignore[method-assign] # FastAPI's way; it may rebuild openapi_schema
    app.router.routes[0] = _openapi_route(app.router.routes[0], document)
    return app


def _openapi_route(route: BaseRoute, document: Callable[[], object]) -> Route:
    """Return FastAPI's route of the document, which is rendered in a thread by the first request: it takes 0.3 s."""
    assert isinstance(route, Route)
    answer = route.endpoint

    async def openapi(request: Request) -> Response:
        await asyncio.to_thread(document)
        response: Response = await answer(request)
        return response

    return Route(route.path, openapi, include_in_schema=False)


def _place(router: APIRouter) -> int:
    """Return the position of a router in the documentation."""
    paths = [route.path for route in router.routes if isinstance(route, APIRoute)]
    return min((ORDER.index(path) for path in paths if path in ORDER), default=len(ORDER))


def _openapi_document(app: FastAPI, telemetry_path: str, external_path: str | None) -> dict[str, Any]:
    """Return FastAPI's OpenAPI document, with the paths that are not part of the JSON API."""
    document = get_openapi(
        title=app.title, version=app.version, summary=app.summary, license_info=app.license_info, routes=app.routes
    )
    _remove_422(document)
    for schema in document["components"]["schemas"].values():
        schema.pop("description", None)  # a docstring, which `python -OO` does not have
    document["paths"] |= _front_paths(telemetry_path)
    if external_path is not None:
        document["servers"] = [{"url": external_path or "/"}]
    return document


def _front_paths(telemetry_path: str) -> dict[str, Any]:
    """Return the OpenAPI paths of the metrics page and the probes."""
    page = "Prometheus page: text 0.0.4 or OpenMetrics 1.0.0 by Accept, gzip by Accept-Encoding"
    alive = "Liveness of the process, whatever the sources do"
    text = {"text/plain": {"schema": {"type": "string"}}}
    formats = text | {"application/openmetrics-text": {"schema": {"type": "string"}}}
    ok, late = {"description": "OK", "content": text}, {"description": "No fresh data", "content": text}
    answers = {
        telemetry_path: (page, {"200": {"description": "OK", "content": formats}}),
        HEALTHY: (alive, {"200": ok}),
        HEALTH: (alive, {"200": ok}),
        READY: ("Readiness: 200 with fresh data", {"200": ok, "503": late}),
    }
    return {
        path: {"get": {"summary": summary, "responses": responses, "parameters": []}}
        for path, (summary, responses) in answers.items()
    }


def _remove_422(document: dict[str, Any]) -> None:
    """Remove FastAPI's 422 responses: an invalid parameter is answered 400."""
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)
