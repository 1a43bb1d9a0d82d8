"""`/container/metrics`: one row per GPU and container, in the JSON of zxporter's GPU exporter.

Keys, their order, units, indentation and escapes follow its Go encoder, so that its clients work unchanged. Rows
have the units of DCGM: percent, MiB, MHz and nanoseconds. A quantity that is missing is 0 there, or null on request.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, create_model

from pulsed.json_text import rfc3339
from pulsed.model.clocks import Monotonic
from pulsed.model.owner import Owner
from pulsed.model.target_store import Target, TargetStore
from pulsed.model.vocabulary import POSITION, Value
from pulsed.present.api.gpu_matches import (
    SECTIONS,
    Derived,
    Match,
    board_of,
    current_result,
    is_stale,
    matches,
    pods_of,
    without_split_boards,
)
from pulsed.present.api.routing import REFUSED, ApiParts
from pulsed.present.api.schema import Document, DocumentModel
from pulsed.present.asgi import HEAD_ONLY

PATH = "/container/metrics"

STALE_HEADER = "X-Pulsed-Stale"
"""Why GPUs are left out."""

MAX_HEADER = 1000

_OTHER_METHODS = ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

MEBIBYTE = 2.0**20


class _RowNumber(NamedTuple):
    """A number of a row.

    Attributes:
        quantity: its name in the canonical vocabulary.
        factor: from base units to DCGM's units.
        is_of_board: whether rows of MIG instances have the value of their board, as in dcgm-exporter.
    """

    key: str
    quantity: str
    factor: float = 1.0
    is_of_board: bool = False


_QUANTITIES: tuple[_RowNumber, ...] = (
    _RowNumber("sm_active", "sm_active_ratio"),
    _RowNumber("sm_occupancy", "sm_occupancy_ratio"),
    _RowNumber("tensor_active", "tensor_active_ratio"),
    _RowNumber("dram_active", "dram_active_ratio"),
    _RowNumber("pcie_tx_bytes", "pcie_transmit_bytes_per_second"),
    _RowNumber("pcie_rx_bytes", "pcie_receive_bytes_per_second"),
    _RowNumber("nvlink_tx_bytes", "nvlink_transmit_bytes_per_second"),
    _RowNumber("nvlink_rx_bytes", "nvlink_receive_bytes_per_second"),
    _RowNumber("graphics_engine_active", "graphics_engine_active_ratio"),
    _RowNumber("framebuffer_total", "memory_bytes", 1 / MEBIBYTE),
    _RowNumber("framebuffer_used", "memory_used_bytes", 1 / MEBIBYTE),
    _RowNumber("framebuffer_free", "memory_free_bytes", 1 / MEBIBYTE),
    _RowNumber("pcie_link_gen", "pcie_link_generation", is_of_board=True),
    _RowNumber("pcie_link_width", "pcie_link_width", is_of_board=True),
    _RowNumber("temperature", "temperature_celsius", is_of_board=True),
    _RowNumber("memory_temperature", "memory_temperature_celsius", is_of_board=True),
    _RowNumber("power_usage", "power_watts", is_of_board=True),
    _RowNumber("gpu_utilization", "gpu_utilization_ratio", 100.0),
    _RowNumber("int_pipe_active", "integer_active_ratio"),
    _RowNumber("fp16_pipe_active", "fp16_active_ratio"),
    _RowNumber("fp32_pipe_active", "fp32_active_ratio"),
    _RowNumber("fp64_pipe_active", "fp64_active_ratio"),
    _RowNumber("clocks_event_reasons", "clocks_event_reasons", is_of_board=True),
    _RowNumber("xid_errors", "xid_last_code", is_of_board=True),
    _RowNumber("power_violation", "power_violation_seconds_total", 1e9, is_of_board=True),
    _RowNumber("thermal_violation", "thermal_violation_seconds_total", 1e9, is_of_board=True),
    _RowNumber("sm_clock", "sm_clock_hertz", 1e-6, is_of_board=True),
    _RowNumber("mem_clock", "memory_clock_hertz", 1e-6, is_of_board=True),
)
"""The numbers of a row, in their order."""


class _RowIdentity(DocumentModel):
    node_name: str
    model_name: str
    device: str
    device_id: str
    device_uuid: str
    mig_profile: str = Field("", description="absent if unknown")
    mig_instance_id: str = Field("", description="absent if unknown")
    pod: str
    container: str
    namespace: str
    workload_name: str = Field("", description="absent if unknown")
    workload_kind: str = Field("", description="absent if unknown")


_MEMBERS: dict[str, Any] = {
    **{field.key: (float | None, Field(description=field.quantity)) for field in _QUANTITIES},
    "timestamp": (str, ...),
    **{name: (dict[str, Any], Field({}, description="with `derived`, as in /gpus")) for name in SECTIONS},
}

CONTAINER_ROW = create_model("ContainerRow", __base__=_RowIdentity, **_MEMBERS)
"""A GPU or MIG instance, and a container that has it."""

_OPTIONAL = frozenset(name for name, field in CONTAINER_ROW.model_fields.items() if not field.is_required())


def _document(match: Match, board: Match, owner: Owner, missing: Value, derived: Derived | None) -> Document:
    """Return the row of a GPU or MIG instance with its board, and of a container that has it.

    `missing` stands for numbers that are missing; without `derived` the row has no derived results.
    """
    device, entity = match.device, match.device.entity
    row = {
        "node_name": match.node,
        "model_name": device.model,
        "device": device.device or board.device.device,
        "device_id": entity.gpu,
        "device_uuid": entity.uuid,
        "mig_profile": entity.mig_profile,
        "mig_instance_id": entity.mig_id,
        "pod": owner.name,
        "container": owner.container,
        "namespace": owner.namespace,
        "workload_name": owner.workload,
        "workload_kind": owner.workload_kind,
        **{field.key: _number(field, match, board, missing) for field in _QUANTITIES},
        "timestamp": rfc3339(match.time),
        **({name: section.document(derived) for name, section in SECTIONS.items()} if derived else {}),
    }
    return {key: value for key, value in row.items() if value or key not in _OPTIONAL}


def _number(field: _RowNumber, match: Match, board: Match, missing: Value) -> Value:
    """Return a number in the units of DCGM."""
    position = POSITION[field.quantity]
    value = match.reading[position]
    if value is None and field.is_of_board:
        value = board.reading[position]
    if value is None or not isfinite(value):
        return missing
    # Without the error of a conversion there and back.
    return value if field.factor == 1.0 else float(f"{value * field.factor:.12g}")


def container_router(parts: ApiParts) -> APIRouter:
    """Return the route `/container/metrics`."""
    router = APIRouter()

    @router.get(
        PATH,
        response_model=list[CONTAINER_ROW],  # type: ignore[valid-type] # made of a table
        responses=REFUSED | {500: {"description": "No source has ever been read", "content": {"text/plain": {}}}},
        summary="Metrics of every GPU and container, in the JSON of zxporter",
    )
    async def container_metrics(
        request: Request,
        pod: str = "",
        namespace: str = "",
        container: str = "",
        node: str = "",
        null: Annotated[bool, Query(description="missing numbers are null instead of 0")] = False,
        derived: Annotated[bool, Query(description="adds derived results under keys of their own")] = False,
    ) -> Response:
        if request.scope.get(HEAD_ONLY):
            return _plain("method not allowed", 405, {"Allow": "GET"})
        row_filter = RowFilter(pod, namespace, container, node)
        preset = parts.settings.real_utilization.preset if derived else None
        rows = container_rows(parts.store, Monotonic(time.monotonic()), row_filter, null=null, preset=preset)
        headers = {STALE_HEADER: _header("; ".join(rows.reasons))} if rows.reasons else {}
        if rows.has_failed:
            return _plain("internal server error", 500, headers)
        return Response(encode(rows.rows), headers=headers, media_type="application/json")

    @router.api_route(PATH, methods=_OTHER_METHODS, include_in_schema=False)
    async def not_allowed() -> Response:
        return _plain("method not allowed", 405, {"Allow": "GET"})

    return router


def _plain(text: str, status: int, headers: dict[str, str]) -> Response:
    return Response(f"{text}\n", status, headers, media_type="text/plain")


def _header(text: str) -> str:
    """Return a text in one line of printable ASCII."""
    return " ".join(text.split()).encode("ascii", "replace").decode()[:MAX_HEADER]


_NO_POD = Owner("nobody", "")

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


class RowFilter(NamedTuple):
    """Which rows are wanted, by exact texts; empty: any."""

    pod: str = ""
    namespace: str = ""
    container: str = ""
    node: str = ""

    def matches(self, node: str, owner: Owner) -> bool:
        """Return whether a row of this node and owner is wanted."""
        texts = (owner.name, owner.namespace, owner.container, node)
        return all(expected in ("", text) for expected, text in zip(self, texts, strict=True))


class ContainerRows(NamedTuple):
    """The rows of all GPUs with current values, why others are left out, one reason per target, and whether no target
    has ever been read and one has failed.
    """

    rows: Sequence[Document]
    reasons: Sequence[str]
    has_failed: bool


def container_rows(
    store: TargetStore, now: Monotonic, row_filter: RowFilter, *, null: bool = False, preset: str | None = None
) -> ContainerRows:
    """Return the rows at a monotonic time. Boards whose MIG instances have rows have none of their own.

    Args:
        null: a missing number is null instead of 0.
        preset: name of the weights of the derived results, which rows have under keys of their own; None: they have
            none.
    """
    gpu_matches = list(matches(store, now))
    boards = {board_of(match): match for match in gpu_matches if match.device.entity.kind == "gpu"}
    rows: list[Document] = []
    stale: dict[str, int] = {}
    for match in without_split_boards(gpu_matches):
        if is_stale(match, now):
            stale[match.target.name] = stale.get(match.target.name, 0) + 1
            continue
        board, missing = boards.get(board_of(match), match), None if null else 0.0
        derived = None if preset is None else Derived(match.reading, current_result(match, now), preset)
        rows += [
            _document(match, board, owner, missing, derived)
            for owner in pods_of(match.owners) or [_NO_POD]
            if row_filter.matches(match.node, owner)
        ]
    has_failed = all(target.tick is None for target in store.targets) and any(each.error for each in store.targets)
    reasons = [_reason(each, stale) for each in store.targets if each.tick is None or each.name in stale]
    return ContainerRows(rows, reasons, has_failed)


def encode(rows: Sequence[Document]) -> str:
    """Return rows as Go's encoder with an indent of two spaces writes them."""
    if not rows:
        return "[]\n"
    texts = (",\n".join(f"    {_encoded(key)}: {_encoded(value)}" for key, value in row.items()) for row in rows)
    return "[\n" + ",\n".join(f"  {{\n{text}\n  }}" for text in texts) + "\n]\n"


def _reason(target: Target, stale: Mapping[str, int]) -> str:
    error = f": {target.error}" if target.error else ""
    if target.tick is None:
        return f"{target.name} has no data yet{error}"
    return f"{stale[target.name]} GPUs of {target.name} are stale{error}"


def _encoded(value: object) -> str:
    if isinstance(value, float):
        return go_number(value)
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).replace("\n", "\n    ")
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def go_number(value: float) -> str:
    """Return a finite number as Go's `encoding/json` writes it: no fraction of a whole number, few exponents."""
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    text = repr(value)
    if "e" not in text:
        return text
    return f"{Decimal(text):f}" if 1e-6 <= abs(value) < 1e21 else text.replace("e-0", "e-")
