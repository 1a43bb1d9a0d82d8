"""The JSON API and its documentation, which works without internet: a FastAPI application.

Importing this module costs some 0.2 s and 13 MB: it is imported by the first request that needs it.
"""

from __future__ import annotations

import asyncio
import json
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException

from pulsed import __version__
from pulsed.background import in_background
from pulsed.collector.target_store import TargetStore
from pulsed.compute.health.checks import BY_ID
from pulsed.errors import UsageError
from pulsed.present.api import documents, schema
from pulsed.present.api.account_documents import (
    AccountFilter,
    Accounts,
    account_document,
    accounts_named,
    ended_accounts,
    running_accounts,
)
from pulsed.present.api.event_documents import CHANGE_KINDS, KINDS, TICK, TICK_FIELDS, identity_document
from pulsed.present.api.events import HEADERS, RETRY_SECONDS, EventBroadcaster, TooManySubscribers
from pulsed.present.api.gpu_columns import MAX_ROWS, SUMMARY_FIELDS, ColumnReader, summary_document
from pulsed.present.api.history import History
from pulsed.present.api.host_document import HostUsage
from pulsed.present.api.json_compression import JsonCompression
from pulsed.present.api.process_document import processes_document
from pulsed.present.api.recent_changes import MAX_CHANGES
from pulsed.present.api.sample_fields import FIELDS, check_fields
from pulsed.present.asgi import HEAD_ONLY, HEALTH, HEALTHY, READY, Receive, Scope, Send
from pulsed.present.gpu_keys import node_of
from pulsed.present.health_report import health_line
from pulsed.present.rfc3339 import rfc3339
from pulsed.suggestions import did_you_mean
from pulsed.translate.tick import Device

MAX_JOBS = 1000

SUMMARY = "Real utilization, workload class and health of the GPUs of this node."

_Gpu = Annotated[str, Path(description="an index, a UUID, a MIG UUID, or `index:MIG id`")]
_Node = Annotated[str | None, Query(description="node, if several have a GPU of that index")]

_FAILURES: dict[int | str, dict[str, Any]] = {status: {"model": schema.Failure} for status in (404, 409)}
_REFUSED: dict[int | str, dict[str, Any]] = {400: {"model": schema.Failure}}


def api(
    board: TargetStore,
    config: Mapping[str, Any],
    telemetry_path: str = "/metrics",
    preset: str = "ai",
    *,
    history: History,
    events: EventBroadcaster,
    accounts: Accounts,
    external_path: str | None = None,
) -> FastAPI:
    """Return the JSON API.

    Args:
        config: the configuration with secrets masked.
        preset: the name of the weights.
        external_path: path of all pages as clients see it, without a slash at the end; None: links are relative.
    """
    app = FastAPIOffline(
        None,  # its page has absolute links
        None,
        title="pulsed",
        version=__version__,
        summary=SUMMARY,
        root_path_in_servers=external_path is None,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    app.add_middleware(JsonCompression)
    app.add_exception_handler(HTTPException, _failure)
    app.add_exception_handler(RequestValidationError, _refusal)
    kept_fields, kinds = _some_of(history.fields, "fields"), _some_of(KINDS, "events")
    all_checks = _some_of(tuple(BY_ID), "checks that count, all if empty", default="")

    usage = HostUsage()

    @app.get("/", include_in_schema=False)
    async def landing() -> Response:
        return Response(_landing_page(telemetry_path, external_path), media_type="text/html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        static = "static-offline-docs"
        return get_swagger_ui_html(
            openapi_url="openapi.json",
            title="pulsed: API",
            swagger_js_url=f"{static}/swagger-ui-bundle.js",
            swagger_css_url=f"{static}/swagger-ui.css",
            swagger_favicon_url=f"{static}/favicon.png",
        )

    @app.get(
        "/gpus",
        response_model=schema.Gpus | schema.GpuColumnsShape,
        responses=_REFUSED,
        summary="Current state of every GPU",
    )
    async def gpus(
        view: Annotated[Literal["full", "summary"], Query(description="summary: columns")] = "full",
        fields: str = _some_of(FIELDS, "columns of the summary", default=",".join(SUMMARY_FIELDS)),
    ) -> Response:
        wanted = list(dict.fromkeys(fields.split(",")))
        if problem := _unknown_field(wanted):
            return _json({"error": problem}, 400)
        if view == "summary":
            return await columns(wanted)
        return _json(documents.gpus_document(board, time.monotonic(), time.time(), preset))

    async def columns(wanted: Sequence[str]) -> Response:
        now = time.monotonic()
        head = documents.sources_document(board, now, time.time())
        shown = list(documents.matches(board, now))

        def make() -> Response:
            return _json({**head, **summary_document(shown, wanted, now)})

        return await in_background(make) if len(shown) > MAX_ROWS else make()

    @app.get(
        "/gpus/{gpu}",
        response_model=schema.Gpu,
        responses=_FAILURES,
        summary="Current state of one GPU or MIG instance",
    )
    async def one_gpu(gpu: _Gpu, node: _Node = None) -> Response:
        now = time.monotonic()
        found = documents.find(board, gpu, node, now)
        if len(found) != 1:
            return _not_one(gpu, [(match.node, match.device) for match in found])
        return _json(documents.gpu_document(found[0], now, preset))

    @app.get(
        "/gpus/{gpu}/history",
        response_model=schema.HistoryShape,
        responses=_REFUSED | _FAILURES,
        summary="Recent samples of a GPU, also of one that is gone",
    )
    async def gpu_history(
        gpu: _Gpu,
        node: _Node = None,
        seconds: Annotated[
            float,
            Query(gt=0, allow_inf_nan=False, description="length of the window; at most what is kept"),
        ] = history.seconds,
        fields: str = kept_fields,
    ) -> Response:
        wanted = list(dict.fromkeys(fields.split(",")))
        if problem := _unkept(wanted, history.fields):
            return _json({"error": problem}, 400)
        places = [
            (match.target.tick.target, match.device)
            for match in documents.find(board, gpu, node, time.monotonic())
            if match.target.tick is not None
        ] or [(past.target, past.device) for past in history.find(gpu, node, board.node)]
        if len(places) != 1:
            return _not_one(gpu, [(node_of(device, board.node), device) for _, device in places])
        window = history.window(*places[0], seconds)
        head = identity_document(window.device, board.node)
        head |= {"interval_seconds": window.interval, "seconds": window.seconds}
        return Response(await history.write(window, wanted, head), media_type="application/json")

    @app.get(
        "/jobs",
        response_model=schema.AccountsShape,
        responses=_REFUSED,
        summary="Running and ended owners of GPUs with their accounts",
    )
    async def jobs(
        state: Annotated[str, Query(description="running or ended", pattern="^(running|ended)?$")] = "",
        kind: Annotated[str, Query(description="slurm_job, pod or process")] = "",
        user: str = "",
        account: str = "",
        namespace: str = "",
        since: Annotated[float, Query(description="not ended before this Unix time", allow_inf_nan=False)] = 0.0,
        limit: Annotated[int, Query(ge=1, le=MAX_JOBS)] = 100,
    ) -> Response:
        wanted = AccountFilter(state, kind, user, account, namespace, since)
        shown = [
            account_document(each, board.node, accounts.prices) for each in running_accounts(accounts, wanted)[:limit]
        ]
        ended = islice(ended_accounts(accounts, wanted), limit - len(shown))
        shown += await in_background(lambda: [account_document(each, board.node, accounts.prices) for each in ended])
        return _json({"node": board.node, "time": rfc3339(time.time()), "jobs": shown})

    @app.get(
        "/jobs/{id:path}",
        response_model=schema.AccountShape | list[schema.AccountShape],
        responses=_REFUSED | {404: {"model": schema.Failure}},
        summary="Account of one owner: the newest with this id",
    )
    async def one_job(
        id: Annotated[str, Path(description="a job id, a pod's UID, `pod:namespace/name`, or an owner's id")],
        all: Annotated[bool, Query(description="a list of all with this id, such as of a requeued job")] = False,
    ) -> Response:
        found = [account_document(each, board.node, accounts.prices) for each in accounts_named(accounts, id)]
        if not found:
            return _json({"error": f"job {id!r} not found; /jobs lists all jobs"}, 404)
        return _json(found if all else found[0])

    @app.get(
        "/events",
        status_code=200,
        response_class=_EventStream,
        responses=_REFUSED | {503: {"model": schema.Failure, "description": "Too many clients"}},
        summary="Server-sent events: every sample, and every change of class or health",
    )
    async def stream(
        types: str = kinds,
        gpu: Annotated[str | None, Query(description="only this GPU: an index, UUID or `index:MIG id`")] = None,
        format: Annotated[
            Literal["json", "columns"],
            Query(description="columns: instead of ticks the state of all changed GPUs, `max_rate` times per second"),
        ] = "json",
        fields: str = _some_of(FIELDS, "columns", default=",".join(TICK_FIELDS)),
        max_rate: Annotated[float, Query(ge=0.01, le=10, description="batches of columns per second")] = 1.0,
    ) -> Response:
        wanted = types.split(",")
        shown = list(dict.fromkeys(fields.split(",")))
        if problem := _unknown_field(shown):
            return _json({"error": problem}, 400)
        for name in wanted:
            if name not in KINDS:
                return _json({"error": f"types: {name!r} is no event; there are {', '.join(KINDS)}"}, 400)
        if format == "json":
            return _EventStream(events, wanted, gpu)
        reader = ColumnReader(board, shown, gpu, 1 / max_rate) if TICK in wanted else None
        return _EventStream(events, [name for name in wanted if name != TICK], gpu, reader)

    @app.get(
        "/events/recent",
        response_model=schema.RecentChangesShape,
        responses=_REFUSED,
        summary="The last changes of class, health, owners and expected GPUs, the newest first",
    )
    async def recent_changes(
        types: str = _some_of(CHANGE_KINDS, "events", default=",".join(CHANGE_KINDS)),
        gpu: Annotated[str | None, Query(description="only this GPU: an index, UUID or `index:MIG id`")] = None,
        since: Annotated[float, Query(description="not before this Unix time", allow_inf_nan=False)] = 0.0,
        limit: Annotated[int, Query(ge=1, le=MAX_CHANGES * len(CHANGE_KINDS))] = 100,
    ) -> Response:
        wanted = types.split(",")
        for name in wanted:
            if name not in CHANGE_KINDS:
                return _json({"error": f"types: {name!r} is no change; there are {', '.join(CHANGE_KINDS)}"}, 400)
        found = events.recent.find(wanted, gpu, since, limit, board.node)
        return _json({"node": board.node, "time": rfc3339(time.time()), "changes": found})

    @app.get(
        "/health/gpus",
        response_model=list[schema.GpuHealthShape],
        responses=_REFUSED | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
        summary="Health problems of every GPU, for scripts",
    )
    async def health(
        format: Annotated[Literal["json", "line"], Query(description="line: one line for Nagios")] = "json",
        checks: str = all_checks,
    ) -> Response:
        wanted = checks.split(",") if checks else []
        for name in wanted:
            if name not in BY_ID:
                return _json({"error": f"checks: {did_you_mean(name, BY_ID, 'HEALTH.md lists the checks')}"}, 400)
        rows = documents.health_document(board, time.monotonic(), wanted)
        return Response(health_line(rows), media_type="text/plain") if format == "line" else _json(rows)

    @app.get("/host", response_model=schema.Host, summary="CPU and memory of the host")
    async def host() -> Response:
        return _json(usage.document())

    @app.get(
        "/processes",
        response_model=schema.Processes,
        summary="Processes of jobs and pods on this host",
    )
    async def processes() -> Response:
        if not config["attribution"]["processes"]:
            return _json({"published": False, "visible": None, "processes": []})
        return _json(await asyncio.to_thread(processes_document))

    @app.get("/version", response_model=schema.Version, summary="Version of pulsed and Python")
    async def version() -> Response:
        return _json({"version": __version__, "python": platform.python_version()})

    @app.get("/config", summary="Configuration in force, with secrets masked")
    async def configuration() -> Response:
        return _json(config)

    document = get_openapi(
        title=app.title, version=app.version, summary=app.summary, license_info=app.license_info, routes=app.routes
    )
    _remove_422(document)
    document["paths"] |= _front_paths(telemetry_path)
    if external_path is not None:
        document["servers"] = [{"url": external_path or "/"}]
    app.openapi = lambda: document  # type: ignore[method-assign] # FastAPI's way; what is in openapi_schema it may redo
    return app


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


class _EventStream(Response):
    """A response that lasts until the client disconnects or the daemon stops."""

    media_type = "text/event-stream"

    def __init__(
        self, events: EventBroadcaster, kinds: Sequence[str], gpu: str | None, columns: ColumnReader | None = None
    ) -> None:
        self._events, self._kinds, self._gpu, self._columns = events, kinds, gpu, columns
        self.status_code = 200
        self.background = None
        self.init_headers(HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Subscribe and send events, or answer 503 if there are too many subscribers."""
        if scope.get(HEAD_ONLY):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": b""})
            return
        try:
            with self._events.subscribed(self._kinds, self._gpu) as subscriber:
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await self._events.serve(subscriber, receive, send, self._columns)
        except TooManySubscribers:
            message = {"error": "/events: too many subscribers; increase events.max_subscribers"}
            await _json(message, 503, {"Retry-After": f"{RETRY_SECONDS:.0f}"})(scope, receive, send)


def _some_of(names: Sequence[str], meaning: str, default: str | None = None) -> Any:
    """Return a query parameter with some of these names, by default all; the pattern is for the documentation only."""
    one = f"({'|'.join(names)})"
    return Query(
        ",".join(names) if default is None else default,
        description=f"{meaning}, separated by commas",
        json_schema_extra={"pattern": f"^{one}(,{one})*$" if default != "" else f"^({one}(,{one})*)?$"},
    )


def _unknown_field(wanted: Sequence[str]) -> str:
    """Return the error for the first unknown field; empty if all are known."""
    try:
        check_fields(wanted)
    except UsageError as error:
        return f"fields: {error}"
    return ""


def _unkept(wanted: Iterable[str], kept: Sequence[str]) -> str:
    """Return the error for the first field that is not kept; empty if all are."""
    for name in wanted:
        if name in kept:
            continue
        if name in FIELDS:
            return f"fields: {name!r} is not kept; add it to history.fields"
        hint = did_you_mean(name, kept, did_you_mean(name, FIELDS, f"allowed: {', '.join(kept)}"))
        return f"fields: {name!r} is not a field; {hint}"
    return ""


def _remove_422(document: dict[str, Any]) -> None:
    """Remove FastAPI's 422 responses: an invalid parameter is answered 400."""
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)


def _not_one(wanted: str, found: Sequence[tuple[str, Device]]) -> Response:
    """Return the error for a name of no GPU, or of several."""
    if not found:
        return _json({"error": f"GPU {wanted!r} not found; /gpus lists all GPUs"}, 404)
    return _json({"error": f"{wanted!r} is ambiguous: {_choices(found)}"}, 409)


def _choices(found: Sequence[tuple[str, Device]]) -> str:
    """Return the remedy for a name that several GPUs share."""
    nodes = sorted({node for node, _ in found})
    if len(nodes) > 1:
        return f"add ?node= with one of {', '.join(nodes)}"
    entities = [device.entity for _, device in found]
    return f"use one of {', '.join(f'{entity.gpu or entity.uuid}:{entity.mig_id}' for entity in entities)}"


async def _failure(request: Request, error: Exception) -> Response:
    """Return an error of the API as JSON."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = error.detail if isinstance(error, HTTPException) else "internal error"
    headers = error.headers if isinstance(error, HTTPException) else None  # a 405 requires the header Allow
    return _json({"error": f"{request.url.path}: {message}"}, status, headers)


async def _refusal(request: Request, error: Exception) -> Response:
    """Return the error for invalid parameters."""
    found = error.errors() if isinstance(error, RequestValidationError) else ()
    message = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in found)
    return _json({"error": f"{request.url.path}: {message}"}, 400)


def _json(
    document: Mapping[str, Any] | Sequence[Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return Response(text, status, headers, media_type="application/json")
