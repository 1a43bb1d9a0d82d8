"""What routes share: the parts of the daemon that they answer from, and their parameters with the errors of these."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Path, Query

from pulsed.compute.settings import DEFAULT_SETTINGS, ComputeSettings
from pulsed.errors import UsageError
from pulsed.json_text import rfc3339
from pulsed.model.gpu import Device
from pulsed.model.target_store import TargetStore
from pulsed.owners.attribution.gpu_processes import GpuProcessTable
from pulsed.present.api.gpu_matches import Match, find
from pulsed.present.api.json_response import ApiError, Failure
from pulsed.present.api.sample_fields import check_fields
from pulsed.present.api.schema import Document, DocumentModel


@dataclass(slots=True)
class ApiParts:
    """The parts of the daemon that the API shows, whatever its features are. Secrets in `config` are masked.

    `external_path` is that of all pages as clients see it, without a slash at the end; None: links are relative.
    """

    store: TargetStore
    processes: GpuProcessTable
    config: Mapping[str, Any]
    settings: ComputeSettings = DEFAULT_SETTINGS
    telemetry_path: str = "/metrics"
    external_path: str | None = None

    def reconfigure(self, config: Mapping[str, Any], settings: ComputeSettings) -> None:
        """Show another configuration from now on."""
        self.config, self.settings = config, settings


class NodeAnswer(DocumentModel):
    """Of which daemon an answer is, and when it was given."""

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


def find_one(store: TargetStore, gpu: str, node: str | None, now: float) -> Match:
    """Return the GPU of a name at monotonic seconds. Raises as `require_one`."""
    gpu_matches = find(store, gpu, node, now)
    require_one(gpu, [(match.node, match.device) for match in gpu_matches])
    return gpu_matches[0]


def require_one(name: str, places: Sequence[tuple[str, Device]]) -> None:
    """Raise `ApiError` for a name of no GPU, 404, or of several, 409; they are found with their nodes."""
    if not places:
        raise ApiError(404, f"GPU {name!r} not found; /gpus lists all GPUs")
    if len(places) > 1:
        raise ApiError(409, f"{name!r} is ambiguous: {_choices(places)}")


def _choices(places: Sequence[tuple[str, Device]]) -> str:
    """Return the remedy for a name that several GPUs share."""
    nodes = sorted({node for node, _ in places})
    if len(nodes) > 1:
        return f"add ?node= with one of {', '.join(nodes)}"
    return f"use one of {', '.join(device.entity.name for _, device in places)}"


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
