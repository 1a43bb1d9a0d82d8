"""What routes share: the parts of the daemon that they answer from, parameters, responses, errors and middleware."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from orjson import Fragment
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.routing import Match as RouteMatch
from starlette.routing import Route

from pulsed.compute.settings import DEFAULT_SETTINGS, ComputeSettings
from pulsed.errors import UsageError
from pulsed.json_text import json_bytes, rfc3339
from pulsed.model.clocks import Monotonic
from pulsed.model.gpu import Device
from pulsed.model.target_store import TargetStore
from pulsed.owners.attribution.gpu_processes import GpuProcessTable
from pulsed.present.api.gpu_matches import Match, find
from pulsed.present.api.sample_fields import check_fields
from pulsed.present.api.schema import Document, DocumentModel
from pulsed.present.asgi import App, Message, Receive, Scope, Send, header_of
from pulsed.present.exposition.text_format import accepts_gzip

MIN_BYTES = 1024
"""Smaller documents fit in one packet anyway."""

LEVEL = 3
"""Level 6 takes 3 times as long for documents a quarter smaller; level 1 is not faster than level 3."""

_TEXTS = ("text/*", "application/openmetrics-text")


class Failure(DocumentModel):
    """The document of an error."""

    error: str = Field(description="the problem and its remedy")


def json_response(
    document: Mapping[str, Any] | Sequence[Document | Fragment],
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a document as JSON."""
    return Response(json_bytes(document), status, headers, media_type="application/json")


def failure_response(
    message: str, status: int, headers: Mapping[str, str] | None = None, nearest: Sequence[str] = ()
) -> Response:
    """Return an error as JSON, with the names that are most like one that is not found."""
    return json_response({"error": message, **({"nearest": nearest} if nearest else {})}, status, headers)


class ApiError(HTTPException):
    """An error of a route, whose message is the whole error; `detail` has what is wrong and what to do."""

    nearest: Sequence[str] = ()
    """Names that are most like one that is not found."""


async def failure(request: Request, error: Exception) -> Response:
    """Return an error of the API as JSON; errors of the framework begin with the path.

    A path with a slash too many redirects, by a relative address: the client's Host is not part of any answer.
    """
    if isinstance(error, ApiError):
        return failure_response(error.detail, error.status_code, error.headers, error.nearest)
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 404 and (location := _without_slash(request)):
        return Response(status_code=307, headers={"location": location})
    message = error.detail if isinstance(error, HTTPException) else "internal error"
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    if "Allow" in headers:  # of a 405; the server answers HEAD wherever it answers GET
        headers["Allow"] = headers["Allow"].replace("GET", "GET, HEAD")
    return failure_response(f"{request.url.path}: {message}", status, headers)


def _without_slash(request: Request) -> str:
    """Return the address without the slash at the end of its path; empty for a path without one."""
    path: str = request.scope["raw_path"].decode("ascii")
    name = path.removesuffix("/").rpartition("/")[2]
    query = f"?{request.url.query}" if request.url.query else ""
    return f"../{name}{query}" if name and path.endswith("/") else ""


async def refusal(request: Request, error: Exception) -> Response:
    """Return the error for invalid parameters."""
    errors = error.errors() if isinstance(error, RequestValidationError) else ()
    message = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in errors)
    return failure_response(f"{request.url.path}: {message}", 400)


ERROR_HANDLERS: dict[Any, Any] = {HTTPException: failure, RequestValidationError: refusal}
"""The handlers of an application's errors."""


class JsonCompression(GZipMiddleware):
    """ASGI middleware that compresses JSON by the qualities of Accept-Encoding, as `/metrics` is compressed.

    Texts are sent as they are: their routes compress them, or they are small.
    """

    def __init__(self, app: App) -> None:
        super().__init__(app, MIN_BYTES, LEVEL, exclude_content_types=(*DEFAULT_EXCLUDED_CONTENT_TYPES, *_TEXTS))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers = [header for header in scope["headers"] if header[0] != b"accept-encoding"]
        is_accepted = accepts_gzip(header_of(scope["headers"], b"accept-encoding"))
        scope["headers"] = [*headers, (b"accept-encoding", b"gzip" if is_accepted else b"identity")]
        await super().__call__(scope, receive, send)


class PlainRoute(Route):
    """A route of an ASGI endpoint for all methods, whose responses are sent as they are."""

    def matches(self, scope: Scope) -> tuple[RouteMatch, Scope]:
        """Return whether a request is for this route, and what to add to its scope."""
        match, child_scope = super().matches(scope)
        return match, {**child_scope, "route": self}


class ResponseHeaders:
    """ASGI middleware that adds headers to all responses, except from a `PlainRoute`.

    Contents are not sniffed, and not cached unless a route allows it.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start" and not isinstance(scope.get("route"), PlainRoute):
                headers = [*message["headers"], (b"x-content-type-options", b"nosniff")]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, add)


@dataclass(slots=True)
class ApiParts:
    """The parts of the daemon that the API shows, whatever its features are. Secrets in `config` are masked.

    `external_path` is the path of all pages as clients see it, without a slash at the end; None: links are relative.
    """

    store: TargetStore
    processes: GpuProcessTable
    config: Mapping[str, Any]
    settings: ComputeSettings = DEFAULT_SETTINGS
    telemetry_path: str = "/metrics"
    external_path: str | None = None


class NodeAnswer(DocumentModel):
    """The daemon that answers, and the time of the answer."""

    node: str
    time: str


def node_answer(node: str) -> Document:
    """Return the members of `NodeAnswer` for an answer of this node that is given now."""
    return {"node": node, "time": rfc3339(time.time())}


Responses = dict[int | str, dict[str, Any]]
"""Responses of a route besides its document, for its documentation."""

REFUSED: Responses = {400: {"model": Failure}}
"""The response for invalid parameters."""

NOT_FOUND: Responses = {404: {"model": Failure}}

GpuPath = Annotated[str, Path(description="an index, a UUID, a MIG UUID, or `index:MIG id`")]
NodeQuery = Annotated[str | None, Query(description="node, if several have a GPU of that index")]

NOT_ONE_GPU: Responses = NOT_FOUND | {409: {"model": Failure}}
"""The errors of `require_one`."""


def find_one(store: TargetStore, gpu: str, node: str | None, now: Monotonic) -> Match:
    """Return the GPU of a name at monotonic seconds. Raises as `require_one`."""
    gpu_matches = find(store, gpu, node, now)
    require_one(gpu, [(match.node, match.device) for match in gpu_matches], [match.time for match in gpu_matches])
    return gpu_matches[0]


def require_one(name: str, places: Sequence[tuple[str, Device]], seen: Sequence[float] = ()) -> None:
    """Raise `ApiError` for a name of no GPU, 404, or of several, 409.

    Args:
        places: the GPUs with their nodes.
        seen: when each was listed last, in Unix seconds; empty if unknown.
    """
    if not places:
        raise ApiError(404, f"GPU {name!r} not found; /gpus lists all GPUs")
    if len(places) > 1:
        raise ApiError(409, f"{name!r} is ambiguous: {_choices(places, seen)}")


def _choices(places: Sequence[tuple[str, Device]], seen: Sequence[float]) -> str:
    """Return the remedy for a name that several GPUs share: the options that distinguish them."""
    nodes = sorted({node for node, _ in places})
    if len(nodes) == len(places):
        return f"add ?node= with one of {', '.join(nodes)}"
    names = [device.entity.name for _, device in places]
    if len(set(names)) < len(names):
        names = [device.mig_uuid or device.entity.uuid or device.entity.name for _, device in places]
        if seen:
            names = [f"{name} (seen {rfc3339(time)})" for name, time in zip(names, seen, strict=True)]
    return f"use one of {', '.join(names)}"


def some_of(names: Sequence[str], meaning: str, default: str | None = None) -> Any:
    """Return a query parameter with some of these names, by default all; the pattern is for the documentation only."""
    one = f"({'|'.join(names)})"
    return Query(
        ",".join(names) if default is None else default,
        description=f"{meaning}, separated by commas",
        json_schema_extra={"pattern": f"^{one}(,{one})*$" if default != "" else f"^({one}(,{one})*)?$"},
    )


def chosen(parameter: str, text: str, allowed: Container[str], error: Callable[[str], str]) -> list[str]:
    """Return the names in a list, each once.

    Args:
        error: returns what is wrong with an unknown name.

    Raises:
        ApiError: 400, a name is unknown.
    """
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in allowed:
            raise ApiError(400, f"{parameter}: {error(name)}")
    return names


def chosen_fields(text: str) -> list[str]:
    """Return the names in a list of `FIELDS`, each once. Raises `ApiError` 400 for an unknown one."""
    names = list(dict.fromkeys(text.split(",")))
    try:
        check_fields(names)
    except UsageError as error:
        raise ApiError(400, f"fields: {error}") from None
    return names
