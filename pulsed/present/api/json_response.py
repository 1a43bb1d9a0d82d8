"""Responses of the JSON API and its errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from pulsed.json_text import json_text
from pulsed.present.api import schema

REFUSED: dict[int | str, dict[str, Any]] = {400: {"model": schema.Failure}}
"""The response for invalid parameters, for the documentation of a route."""


def json_response(
    document: Mapping[str, Any] | Sequence[Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a document as JSON."""
    return Response(json_text(document), status, headers, media_type="application/json")


class ApiError(HTTPException):
    """An error of a route, whose message is the whole error; `detail` has what is wrong and what to do."""


async def failure(request: Request, error: Exception) -> Response:
    """Return an error of the API as JSON; those of the framework begin with the path."""
    if isinstance(error, ApiError):
        return json_response({"error": error.detail}, error.status_code, error.headers)
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = error.detail if isinstance(error, HTTPException) else "internal error"
    headers = error.headers if isinstance(error, HTTPException) else None  # a 405 requires the header Allow
    return json_response({"error": f"{request.url.path}: {message}"}, status, headers)


async def refusal(request: Request, error: Exception) -> Response:
    """Return the error for invalid parameters."""
    found = error.errors() if isinstance(error, RequestValidationError) else ()
    message = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in found)
    return json_response({"error": f"{request.url.path}: {message}"}, 400)


ERROR_HANDLERS: dict[Any, Any] = {HTTPException: failure, RequestValidationError: refusal}
"""The handlers of an application's errors."""
