"""Responses of the JSON API: documents, long lists and errors.

Long lists are rendered and sent in pieces: between two, other requests are answered, and only one is in memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException

from pulsed.background import turn
from pulsed.json_text import json_text
from pulsed.present.api.schema import Document, Member, Shape

PIECE_BYTES = 64 * 2**10
"""Size of a piece of a long list; rendering one takes some 5 ms."""

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
