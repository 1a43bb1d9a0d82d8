"""Responses of the JSON API: documents and errors, and what all of them pass through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.routing import Match, Route

from pulsed.json_text import json_bytes
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

    error: str = Field(description="what is wrong and what to do")


def json_response(
    document: Mapping[str, Any] | Sequence[Document], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a document as JSON."""
    return Response(json_bytes(document), status, headers, media_type="application/json")


def failure_response(message: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as JSON."""
    return json_response({"error": message}, status, headers)


class ApiError(HTTPException):
    """An error of a route, whose message is the whole error; `detail` has what is wrong and what to do."""


async def failure(request: Request, error: Exception) -> Response:
    """Return an error of the API as JSON; those of the framework begin with the path.

    A path with a slash too many redirects, by a relative address: the client's Host is not part of any answer.
    """
    if isinstance(error, ApiError):
        return failure_response(error.detail, error.status_code, error.headers)
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

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether a request is for this route, and what to add to its scope."""
        match, child_scope = super().matches(scope)
        return match, {**child_scope, "route": self}


class ResponseHeaders:
    """ASGI middleware that adds headers to all responses but those of a `PlainRoute`.

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
