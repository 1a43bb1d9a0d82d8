"""`/container/metrics`: one row per GPU and container, in the JSON of zxporter's GPU exporter.

Keys, their order, units, indentation and escapes are those of its Go encoder, so that its clients work unchanged. Rows
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
from pulsed.present.api.schema import REQUIRED, TIME, Document, Member, Shape, ValueKind, listed
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
        factor: from base units to those of DCGM.
        is_of_board: whether rows of MIG instances have the value of their board, as those of dcgm-exporter do.
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


class _ContainerRow(NamedTuple):
    """A GPU or MIG instance, its board, and a container that has it; `missing` is in place of numbers.

    Attributes:
        derived: what has the derived results; None: the row has none.
    """

    match: Match
    board: Match
    owner: Owner
    missing: Value
    derived: Derived | None

    def number(self, field: _RowNumber) -> Value:
        """Return a number in the units of DCGM."""
        position = POSITION[field.quantity]
        value = self.match.reading[position]
        if value is None and field.is_of_board:
            value = self.board.reading[position]
        if value is None or not isfinite(value):
            return self.missing
        # Without the error of a conversion there and back.
        return value if field.factor == 1.0 else float(f"{value * field.factor:.12g}")


def _text(key: str, path: str) -> Member:
    """Return a text that a row has only if it is known."""
    return Member(key, str, "absent if unknown", path, "")


def _number(field: _RowNumber) -> Member:
    return Member(field.key, float | None, field.quantity, lambda row: row.number(field))


def _section(name: str, shape: Shape) -> Member:
    kind = ValueKind(lambda: dict[str, Any], lambda derived: derived and shape.of(derived))
    return Member(name, kind, "with `derived`, as in /gpus", "derived", {})


_ROW = Shape(
    "ContainerRow",
    Member("node_name", str, of="match.node"),
    Member("model_name", str, of="match.device.model"),
    Member("device", str, of=lambda row: row.match.device.device or row.board.device.device),
    Member("device_id", str, of="match.device.entity.gpu"),
    Member("device_uuid", str, of="match.device.entity.uuid"),
    _text("mig_profile", "match.device.entity.mig_profile"),
    _text("mig_instance_id", "match.device.entity.mig_id"),
    Member("pod", str, of="owner.name"),
    Member("container", str, of="owner.container"),
    Member("namespace", str, of="owner.namespace"),
    _text("workload_name", "owner.workload"),
    _text("workload_kind", "owner.workload_kind"),
    *map(_number, _QUANTITIES),
    Member("timestamp", TIME, of="match.time"),
    *(_section(name, shape) for name, shape in SECTIONS.items()),
    first=("node_name", "model_name", "device", "device_id", "device_uuid", "pod", "container", "namespace"),
)
"""A GPU or MIG instance, and a container that has it."""

_OPTIONAL = frozenset(member.name for member in _ROW.members if member.default is not REQUIRED)


def _document(row: _ContainerRow) -> Document:
    return {key: value for key, value in _ROW.of(row).items() if value or key not in _OPTIONAL}


def container_router(parts: ApiParts) -> APIRouter:
    """Return the route `/container/metrics`."""
    router = APIRouter()

    @router.get(
        PATH,
        response_model=listed(_ROW).type(),
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
        wanted = RowFilter(pod, namespace, container, node)
        preset = parts.settings.real_utilization.preset if derived else None
        found = container_rows(parts.store, time.monotonic(), wanted, null=null, preset=preset)
        headers = {STALE_HEADER: _header("; ".join(found.reasons))} if found.reasons else {}
        if found.has_failed:
            return _plain("internal server error", 500, headers)
        return Response(encode(found.rows), headers=headers, media_type="application/json")

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
        found = (owner.name, owner.namespace, owner.container, node)
        return all(wanted in ("", text) for wanted, text in zip(self, found, strict=True))


class ContainerRows(NamedTuple):
    """The rows of all GPUs with current values.

    Attributes:
        reasons: why GPUs are left out, one per target with stale ones or without any data.
        has_failed: whether no target has ever been read, and one has failed.
    """

    rows: Sequence[Document]
    reasons: Sequence[str]
    has_failed: bool


def container_rows(
    store: TargetStore, now: float, wanted: RowFilter, *, null: bool = False, preset: str | None = None
) -> ContainerRows:
    """Return the rows at a monotonic time. Boards whose MIG instances have rows have none of their own.

    Args:
        null: a missing number is null instead of 0.
        preset: name of the weights of the derived results, which rows have under keys of their own; None: they have
            none.
    """
    found = list(matches(store, now))
    boards = {board_of(match): match for match in found if match.device.entity.kind == "gpu"}
    rows: list[Document] = []
    stale: dict[str, int] = {}
    for match in without_split_boards(found):
        if is_stale(match, now):
            stale[match.target.name] = stale.get(match.target.name, 0) + 1
            continue
        board, missing = boards.get(board_of(match), match), None if null else 0.0
        derived = None if preset is None else Derived(match.reading, current_result(match, now), preset)
        rows += [
            _document(_ContainerRow(match, board, owner, missing, derived))
            for owner in pods_of(match) or [_NO_POD]
            if wanted.matches(match.node, owner)
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
