"""`/container/metrics`: one row per GPU and container, in the JSON of zxporter's GPU exporter.

Keys, their order, units, indentation and escapes are those of its Go encoder, so that its clients work unchanged. Rows
have the units of DCGM: percent, MiB, MHz and nanoseconds. A quantity that is missing is 0 there, or null on request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import NamedTuple

from pulsed.model.owner import Owner
from pulsed.model.target_store import Target, TargetStore
from pulsed.model.vocabulary import POSITION, Value
from pulsed.present.api.container_fields import IDENTITY_KEYS, OWNER_KEYS, ROW_FIELDS
from pulsed.present.api.derived_fields import derived_sections
from pulsed.present.api.documents import Match, current_result, is_stale, matches
from pulsed.present.api.pod_gpus import board_of, pods_of, without_split_boards
from pulsed.present.time_text import rfc3339

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

    rows: Sequence[Mapping[str, object]]
    reasons: Sequence[str]
    has_failed: bool


def container_rows(
    board: TargetStore, now: float, wanted: RowFilter, *, null: bool = False, derived: Mapping[str, str] | None = None
) -> ContainerRows:
    """Return the rows at a monotonic time. Boards whose MIG instances have rows have none of their own.

    Args:
        null: a missing number is null instead of 0.
        derived: settings of the derived results, which rows have under keys of their own; None: they have none.
    """
    found = list(matches(board, now))
    boards = {board_of(match): match for match in found if match.device.entity.kind == "gpu"}
    rows: list[Mapping[str, object]] = []
    stale: dict[str, int] = {}
    for match in without_split_boards(found):
        if is_stale(match, now):
            stale[match.target.name] = stale.get(match.target.name, 0) + 1
            continue
        for owner in pods_of(match) or [_NO_POD]:
            if wanted.matches(match.node, owner):
                row = dict(_row(match, owner, boards.get(board_of(match), match), 0.0 if not null else None))
                if derived is not None:
                    row |= derived_sections(match.reading, current_result(match, now), derived)
                rows.append(row)
    has_failed = all(target.tick is None for target in board.targets) and any(each.error for each in board.targets)
    return ContainerRows(
        rows, [_reason(each, stale) for each in board.targets if not _is_current(each, stale)], has_failed
    )


def encode(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows as Go's encoder with an indent of two spaces writes them."""
    if not rows:
        return "[]\n"
    texts = (",\n".join(f"    {_encoded(key)}: {_encoded(value)}" for key, value in row.items()) for row in rows)
    return "[\n" + ",\n".join(f"  {{\n{text}\n  }}" for text in texts) + "\n]\n"


def _row(match: Match, owner: Owner, board: Match, missing: Value) -> Iterator[tuple[str, object]]:
    device, entity = match.device, match.device.entity
    texts = (match.node, device.model, device.device or board.device.device, entity.gpu, entity.uuid)
    yield from zip(IDENTITY_KEYS, texts, strict=True)
    instance = (("mig_profile", entity.mig_profile), ("mig_instance_id", entity.mig_id))
    workload = (("workload_name", owner.workload), ("workload_kind", owner.workload_kind))
    yield from (pair for pair in instance if pair[1])
    yield from zip(OWNER_KEYS, (owner.name, owner.container, owner.namespace), strict=True)
    yield from (pair for pair in workload if pair[1])
    for field in ROW_FIELDS:
        position = POSITION[field.quantity]
        value = match.reading[position]
        if value is None and field.is_of_board:
            value = board.reading[position]
        yield field.key, missing if value is None or not isfinite(value) else _in_units(value, field.factor)
    yield "timestamp", rfc3339(match.time)


def _in_units(value: float, factor: float) -> float:
    """Return a value in other units, without the error of a conversion there and back."""
    return value if factor == 1.0 else float(f"{value * factor:.12g}")


def _is_current(target: Target, stale: Mapping[str, int]) -> bool:
    return target.tick is not None and target.name not in stale


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
