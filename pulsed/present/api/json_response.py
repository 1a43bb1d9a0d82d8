"""Responses of the JSON API: documents, long lists and errors, and what all of them pass through.

Long lists are rendered and sent in pieces: between two, other requests are answered, and only one is in memory. JSON is
compressed by Accept-Encoding as `/metrics` is: small documents are sent as they are; large ones are compressed beside
the event loop, those in pieces piece by piece.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException

from pulsed.background import in_background, turn
from pulsed.json_text import json_text
from pulsed.present.api.schema import Document, Member, Shape
from pulsed.present.asgi import App, Header, Message, Receive, Scope, Send, header_of
from pulsed.present.exposition.text_format import accepts_gzip

PIECE_BYTES = 64 * 2**10
"""Size of a piece of a long list; rendering one takes some 5 ms."""

MIN_BYTES = 1024
"""Smaller documents fit in one packet anyway."""

LEVEL = 3
"""Level 6 takes 3 times as long for documents a quarter smaller; level 1 is no faster than 3."""

_GZIP_BITS = 31
"""zlib's parameter for the format of gzip."""

_INLINE_BYTES = 64 * 2**10
"""Compressing so much takes less than 1 ms; more is compressed in the background thread."""

FAILURE = Shape("Failure", Member("error", str, "what is wrong and what to do", lambda message: message))


def json_response(
    document: Mapping[str, Any] | Sequence[Document], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a document as JSON."""
    return Response(json_text(document), status, headers, media_type="application/json")


def list_response(shape: Shape, source: object) -> Response:
    """Return a document whose last key has a list of documents; they are rendered while it is sent."""
    pieces = _pieces(shape, source)
    first = next(pieces)
    second = next(pieces, None)
    if second is None:
        return Response(first, media_type="application/json")

    async def stream() -> AsyncIterator[bytes]:
        yield first + second
        while True:
            await turn()
            piece = next(pieces, None)
            if piece is None:
                return
            yield piece

    return StreamingResponse(stream(), media_type="application/json")


def _pieces(shape: Shape, source: object) -> Iterator[bytes]:
    head, items = shape.streamed(source)
    texts = [json_text(head)[:-2]]
    size, separator = len(texts[0]), ""
    for item in items:
        if size >= PIECE_BYTES:
            yield "".join(texts).encode()
            texts, size = [], 0
        text = json_text(item)
        texts += (separator, text)
        size, separator = size + len(text), ","
    yield "".join((*texts, "]}")).encode()


class ApiError(HTTPException):
    """An error of a route, whose message is the whole error; `detail` has what is wrong and what to do."""


async def failure(request: Request, error: Exception) -> Response:
    """Return an error of the API as JSON; those of the framework begin with the path.

    A path with a slash too many redirects, by a relative address: the client's Host is not part of any answer.
    """
    if isinstance(error, ApiError):
        return json_response(FAILURE.of(error.detail), error.status_code, error.headers)
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 404 and (location := _without_slash(request)):
        return Response(status_code=307, headers={"location": location})
    message = error.detail if isinstance(error, HTTPException) else "internal error"
    headers = error.headers if isinstance(error, HTTPException) else None  # a 405 requires the header Allow
    return json_response(FAILURE.of(f"{request.url.path}: {message}"), status, headers)


def _without_slash(request: Request) -> str:
    """Return the address without the slash at the end of its path; empty if there is none."""
    path: str = request.scope["raw_path"].decode("ascii")
    name = path.removesuffix("/").rpartition("/")[2]
    query = f"?{request.url.query}" if request.url.query else ""
    return f"../{name}{query}" if name and path.endswith("/") else ""


async def refusal(request: Request, error: Exception) -> Response:
    """Return the error for invalid parameters."""
    found = error.errors() if isinstance(error, RequestValidationError) else ()
    message = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in found)
    return json_response(FAILURE.of(f"{request.url.path}: {message}"), 400)


ERROR_HANDLERS: dict[Any, Any] = {HTTPException: failure, RequestValidationError: refusal}
"""The handlers of an application's errors."""


class JsonCompression:
    """ASGI middleware that compresses complete JSON documents for clients that accept gzip."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_accepted = accepts_gzip(header_of(scope["headers"], b"accept-encoding"))
        start: Message | None = None
        stream = None

        async def compress(message: Message) -> None:
            nonlocal start, stream
            if message["type"] == "http.response.start":
                if header_of(message["headers"], b"content-type") != "application/json":
                    await send(message)
                    return
                message["headers"] = [*message["headers"], (b"vary", b"Accept-Encoding")]
                start = message
                return
            body, has_more = message.get("body", b""), message.get("more_body", False)
            if start is not None:
                if is_accepted and has_more:
                    stream = zlib.compressobj(LEVEL, wbits=_GZIP_BITS)
                    start["headers"] = _compressed(start["headers"], None)
                elif is_accepted and len(body) >= MIN_BYTES:
                    message = {**message, "body": await _gzip(body)}
                    start["headers"] = _compressed(start["headers"], len(message["body"]))
                await send(start)
                start = None
            if stream is not None:
                message = {**message, "body": stream.compress(body) + (b"" if has_more else stream.flush())}
            await send(message)

        await self._app(scope, receive, compress)


class ResponseHeaders:
    """ASGI middleware that adds headers to all responses: no sniffing, and no caching unless a route allows it."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"], (b"x-content-type-options", b"nosniff")]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, add)


async def _gzip(body: bytes) -> bytes:
    if len(body) <= _INLINE_BYTES:
        return gzip.compress(body, LEVEL, mtime=0)
    return await in_background(lambda: gzip.compress(body, LEVEL, mtime=0))


def _compressed(headers: list[Header], size: int | None) -> list[Header]:
    """Return the headers of a compressed document; its size is not known of one in pieces."""
    kept = [header for header in headers if header[0] != b"content-length"]
    length = [] if size is None else [(b"content-length", str(size).encode())]
    return [*kept, *length, (b"content-encoding", b"gzip")]
