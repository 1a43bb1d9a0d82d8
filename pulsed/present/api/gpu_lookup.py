"""Parameters of routes that name one GPU, and the errors for a name of no GPU or of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Path, Query

from pulsed.model.gpu import Device
from pulsed.present.api import schema
from pulsed.present.api.json_response import ApiError

GpuPath = Annotated[str, Path(description="an index, a UUID, a MIG UUID, or `index:MIG id`")]
NodeQuery = Annotated[str | None, Query(description="node, if several have a GPU of that index")]

NOT_ONE_GPU: dict[int | str, dict[str, Any]] = {status: {"model": schema.Failure} for status in (404, 409)}
"""The errors of `require_one`, for the documentation of a route."""


def require_one(wanted: str, found: Sequence[tuple[str, Device]]) -> None:
    """Raise `ApiError` for a name of no GPU, 404, or of several, 409; they are found with their nodes."""
    if not found:
        raise ApiError(404, f"GPU {wanted!r} not found; /gpus lists all GPUs")
    if len(found) > 1:
        raise ApiError(409, f"{wanted!r} is ambiguous: {_choices(found)}")


def _choices(found: Sequence[tuple[str, Device]]) -> str:
    """Return the remedy for a name that several GPUs share."""
    nodes = sorted({node for node, _ in found})
    if len(nodes) > 1:
        return f"add ?node= with one of {', '.join(nodes)}"
    return f"use one of {', '.join(device.entity.name for _, device in found)}"
