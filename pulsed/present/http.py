"""The HTTP side: one ASGI application.

`/metrics` is answered here, from bytes, without the framework's per-request work; everything else is a FastAPI
application behind it. Nothing here waits for a source, and no state of a source makes an answer fail.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Response
from fastapi_offline import FastAPIOffline

from pulsed import __version__
from pulsed.present import documents, schema
from pulsed.present.board import Board
from pulsed.present.negotiation import accepts_gzip, choose_format
from pulsed.present.page import Pages
from pulsed.present.telemetry import Telemetry

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Front:
    """The ASGI application: answers `/metrics`, counts and limits requests, and passes on the rest.

    Args:
        pages: gives the page.
        api: answers every other path.
        telemetry: counts the requests.
        telemetry_path: where the page is.
        max_requests: answered at the same time; one more gets 503. 0 means no limit.
    """

    def __init__(
        self, pages: Pages, api: App, telemetry: Telemetry, telemetry_path: str = "/metrics", max_requests: int = 40
    ) -> None:
        self._pages = pages
        self._api = api
        self._telemetry = telemetry
        self._telemetry_path = telemetry_path
        self._max_requests = max_requests
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._api(scope, receive, send)
            return
        if self._max_requests and self._running >= self._max_requests:
            await _plain(send, 503, "too many requests at the same time\n", [(b"retry-after", b"1")])
            self._telemetry.count_request("other", 503)
            return
        self._running += 1
        try:
            if scope["path"] == self._telemetry_path:
                await self._metrics(scope, send)
            else:
                await self._others(scope, receive, send)
        finally:
            self._running -= 1

    async def _metrics(self, scope: Scope, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            self._telemetry.count_request(self._telemetry_path, 405)
            await _plain(send, 405, "only GET and HEAD\n", [(b"allow", b"GET, HEAD")])
            return
        accept = encoding = ""
        for name, value in scope["headers"]:
            if name == b"accept":
                accept = value.decode("latin-1")
            elif name == b"accept-encoding":
                encoding = value.decode("latin-1")
        chosen = choose_format(accept)
        gzip = accepts_gzip(encoding)
        self._telemetry.count_request(self._telemetry_path, 200)
        body = self._pages.page(time.monotonic(), openmetrics=chosen.openmetrics, gzip=gzip)
        headers = [
            (b"content-type", chosen.content_type.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"vary", b"Accept, Accept-Encoding"),
        ]
        if gzip:
            headers.append((b"content-encoding", b"gzip"))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _others(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = 500
        if scope["method"] == "HEAD":  # the server leaves the body away
            scope = {**scope, "method": "GET"}

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._api(scope, receive, watch)
        finally:
            route = scope.get("route")
            self._telemetry.count_request(getattr(route, "path", "other"), status)


async def _plain(send: Send, status: int, text: str, headers: list[tuple[bytes, bytes]]) -> None:
    body = text.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


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
        description=f"The page for Prometheus is at `{telemetry_path}` (text 0.0.4 or OpenMetrics 1.0.0, gzip).",
        redoc_url=None,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )

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

    async def healthy() -> Response:
        return Response("pulsed is healthy\n", media_type="text/plain")

    for path in ("/-/healthy", "/health"):
        app.get(path, summary="Whether the process answers; says nothing about sources", response_class=Response)(
            healthy
        )

    @app.get("/-/ready", summary="Whether there is fresh data", response_class=Response, responses={503: {}})
    async def ready() -> Response:
        now = time.monotonic()
        if any(target.fresh(now) for target in board.targets):
            return Response("pulsed is ready\n", media_type="text/plain")
        why = "".join(f"{target.name}: {target.error or 'no data yet'}\n" for target in board.targets)
        return Response(f"no fresh data\n{why}", 503, {"Retry-After": "5"}, media_type="text/plain")

    return app


def _choices(found: Sequence[documents.Match]) -> str:
    """What to ask for instead of a name that several GPUs share."""
    nodes = sorted({match.node for match in found})
    if len(nodes) > 1:
        return f"add ?node= with one of {', '.join(nodes)}"
    entities = [match.device.entity for match in found]
    return f"ask for one of {', '.join(f'{entity.gpu or entity.uuid}:{entity.mig_id}' for entity in entities)}"


def _json(document: Mapping[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(document, separators=(",", ":"), allow_nan=False), status, media_type="application/json")
