"""The documents of events: ticks and changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isfinite
from typing import NamedTuple

from pulsed.compute.health.xids import advice, xid_of
from pulsed.json_text import json_bytes, rfc3339
from pulsed.model.clocks import Unix
from pulsed.model.gpu import Device
from pulsed.model.result import Removal, Result
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import Reading, Value
from pulsed.owners.accounting.owner_roster import OwnerChange
from pulsed.owners.findings import FindingChange
from pulsed.present.api.account_documents import OwnerShape
from pulsed.present.api.gpu_matches import identity_of
from pulsed.present.api.sample_fields import getter
from pulsed.present.api.schema import Document

TICK_FIELDS = (
    "workload_class",
    "raw_class",
    "health_state",
    "bottleneck",
    "real_utilization_ratio",
    "real_utilization_lower_ratio",
    "real_utilization_upper_ratio",
    "saturation_ratio",
    "sm_active_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "memory_used_bytes",
    "power_watts",
    "temperature_celsius",
)
"""Fields of a GPU in a tick event; `/gpus` has all."""

TICK = "tick"


class Change(NamedTuple):
    """A change of a GPU at a Unix time; the document is without GPU and time."""

    kind: str
    device: Device
    time: Unix
    document: Document


def _class_changes(tick: Tick) -> Iterator[Change]:
    for change in tick.changes:
        document = {"before": change.before, "after": change.after, "bottleneck": change.bottleneck}
        yield Change("workload_class", change.device, change.time, document)


def _health_changes(tick: Tick) -> Iterator[Change]:
    for change in tick.health_changes:
        document = {
            "check": change.check or None,
            "before": change.before,
            "after": change.after,
            "message": change.message,
            "remedy": change.remedy,
        }
        yield Change("health", change.device, change.time, document)


def _xids(tick: Tick) -> Iterator[Change]:
    for event in tick.xids:
        xid = xid_of(event.code)
        document = {
            "code": event.code,
            "severity": event.severity,
            "count": event.count,
            "total": event.total,
            "description": xid.description,
            "detail": event.detail or None,
            "remedy": advice(event.severity, xid.action),
        }
        yield Change("xid", event.device, event.time, document)


def owner_change(change: OwnerChange) -> Change:
    """Return the change of an owner that is new on a GPU, or that had it and has ended."""
    document = {"change": change.kind, "owner": OwnerShape.render(change.owner)}
    return Change("owner", change.device, change.time, document)


def finding_change(change: FindingChange) -> Change:
    """Return the change of a finding about an owner's GPU."""
    state = "suspected" if change.is_active else "ok"
    document = {"finding": change.name, "state": state, "message": change.message or None}
    return Change("finding", change.device, change.time, {**document, "owner": OwnerShape.render(change.owner)})


def removal_change(removal: Removal) -> Change:
    """Return the change of a GPU that is no longer expected."""
    last_seen = rfc3339(removal.last_seen) if removal.last_seen else None
    document = {"reason": removal.reason, "message": removal.message, "last_seen": last_seen}
    return Change("removal", removal.device, removal.time, document)


CHANGES: Mapping[str, Callable[[Tick], Iterable[Change]]] = {
    "workload_class": _class_changes,
    "health": _health_changes,
    "xid": _xids,
    "removal": lambda tick: map(removal_change, tick.removed),
}
"""The kinds of changes, each with the function that yields them from a tick."""

CHANGE_KINDS: tuple[str, ...] = (*CHANGES, "owner", "finding")
"""All kinds of changes."""

KINDS: tuple[str, ...] = (TICK, *CHANGE_KINDS)
"""All kinds of events."""


def change_document(change: Change, here: str) -> Document:
    """Return the document of a change; `here` is this process's node, for GPUs whose source does not name one."""
    return {"time": rfc3339(change.time), **identity_of(change.device, here), **change.document}


def tick_row(device: Device, reading: Reading, result: Result, here: str) -> Document:
    """Return the part of a tick event about one GPU; `here` is this process's node."""
    row = identity_of(device, here)
    for name, get in _GETTERS:
        row[name] = finite(get(reading, result))
    return row


_GETTERS = tuple((name, getter(name)) for name in TICK_FIELDS)


def finite(value: str | Value) -> str | Value:
    """Return a value of a field; None for a number that JSON cannot represent."""
    if isinstance(value, str):
        return value
    try:
        return value if value is not None and isfinite(value) else None
    except OverflowError:
        return None


def encoded(kind: str, document: Document, number: int | None = None) -> bytes:
    """Return an event as it is sent; `number` is its id."""
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {kind}\ndata: ".encode() + json_bytes(document) + b"\n\n"
