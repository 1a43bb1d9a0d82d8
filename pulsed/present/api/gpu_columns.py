"""The state of all GPUs as columns: one list per field, in the order of a roster.

A twentieth of the size of the GPUs' documents, and a client with the roster needs only what has changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import groupby

from pydantic import Field

from pulsed.json_text import rfc3339
from pulsed.model.clocks import Monotonic
from pulsed.model.gpu import PLATFORM, Device, Entity, names_of
from pulsed.model.health import applicable_checks, known_checks
from pulsed.model.node_names import shared_domain
from pulsed.model.result import Result
from pulsed.model.target_store import Target, TargetStore
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import Value
from pulsed.present.api.documents import SourcesShape
from pulsed.present.api.event_documents import TICK_FIELDS, encoded, finite
from pulsed.present.api.gpu_matches import Match, current_result, is_stale, matches
from pulsed.present.api.sample_fields import getter
from pulsed.present.api.schema import Document, DocumentModel

SUMMARY_FIELDS = (*TICK_FIELDS, "limiting_resource", "memory_bytes", "power_limit_watts")
"""Fields of a summary by default."""


class RosterShape(DocumentModel):
    """The identities of GPUs; those that are unknown are null."""

    node: list[str]
    gpu: list[str]
    uuid: list[str | None]
    mig_id: list[str | None]
    mig_profile: list[str | None]
    model: list[str | None]
    place: list[list[str] | None] = Field(
        description="serial number of the chassis, tray, slot and NVLink fabric, unknown ones empty"
    )


class GpuColumnsShape(SourcesShape):
    """The state of all GPUs as columns, in the order of the roster."""

    domain: str = Field(description="that the names of all nodes end with, which views leave out; empty for none")
    roster: str = Field(description="identifies the list of GPUs; another one if GPUs come or go")
    gpus: RosterShape
    owners: list[list[str] | None] = Field(description="`kind:id` of each owner; null if they are not known")
    class_since: list[float | None] = Field(description="Unix seconds of the first sample of the class")
    candidates: list[list[str]] = Field(
        description="classes that raw_class may be while it is unknown; otherwise empty"
    )
    problem: list[str | None] = Field(description="message of the worst raised health check, or why there is no sample")
    sample_time: list[float] = Field(description="Unix seconds of each GPU's sample")
    stale: list[bool]
    known_checks: list[int] = Field(description="health checks that apply and are known")
    applicable_checks: list[int] = Field(description="health checks that apply")
    fields: dict[str, list[float | str | None]] = Field(description="one list per field; ratios have four decimals")


def _roster(gpus: Sequence[Match]) -> Document:
    devices = [gpu.device for gpu in gpus]
    return {
        "node": [gpu.node for gpu in gpus],
        "gpu": [device.entity.gpu for device in devices],
        "uuid": [device.entity.uuid or None for device in devices],
        "mig_id": [device.entity.mig_id or None for device in devices],
        "mig_profile": [device.entity.mig_profile or None for device in devices],
        "model": [device.model or None for device in devices],
        "place": [_place(device) for device in devices],
    }


def _place(device: Device) -> list[str] | None:
    """Return where a GPU is in its rack, and its NVLink fabric; None if nothing is known."""
    platform = dict(zip(PLATFORM, device.platform, strict=False))
    place = [platform.get(name, "") for name in ("chassis_serial", "tray_index", "slot_number")]
    return [*place, device.fabric] if any(place) or device.fabric else None


def _state(gpus: Sequence[Match], results: Sequence[Result], fields: Sequence[str], now: Monotonic) -> Document:
    """Return what changes with every sample, at monotonic seconds."""
    return {
        "sample_time": [round(gpu.time, 3) for gpu in gpus],
        "stale": [is_stale(gpu, now) for gpu in gpus],
        "known_checks": [known_checks(result.health.checks) for result in results],
        "applicable_checks": [applicable_checks(result.health.checks) for result in results],
        "fields": {name: list(_values(name, gpus, results)) for name in fields},
    }


def _owners(gpu: Match) -> list[str] | None:
    owners = gpu.owners
    return None if owners is None else [f"{owner.kind}:{owner.id}" for owner in owners]


def _problem(result: Result) -> str | None:
    """Return the message of the worst raised check, or why the source does not deliver; None if all is well."""
    told = [check for check in result.health.checks if check.applies and check.message]
    return max(told, key=lambda check: check.severity).message if told else None


def summary_document(sources: SourcesShape, gpus: Sequence[Match], fields: Sequence[str], now: Monotonic) -> Document:
    """Return the roster of some GPUs and their state; `now` is monotonic seconds."""
    roster, results = _roster(gpus), [current_result(gpu, now) for gpu in gpus]
    return {
        **sources.model_dump(),
        "domain": shared_domain(roster["node"]),
        "roster": _roster_id(roster),
        "gpus": roster,
        "owners": [_owners(gpu) for gpu in gpus],
        "class_since": [None if (since := each.shown_class.since) is None else round(since, 3) for each in results],
        "candidates": [list(result.workload.candidates) for result in results],
        "problem": [_problem(result) for result in results],
        **_state(gpus, results, fields, now),
    }


def _values(name: str, gpus: Sequence[Match], results: Sequence[Result]) -> Iterator[str | Value]:
    get, is_ratio = getter(name), name.endswith("_ratio")
    for gpu, result in zip(gpus, results, strict=True):
        value = finite(get(gpu.reading, result))
        yield round(value, 4) if is_ratio and isinstance(value, float) else value


def _roster_id(roster: Document) -> str:
    return blake2b(json.dumps(roster).encode(), digest_size=8).hexdigest()


class ColumnReader:
    """Changes since the last reading, as events for one client.

    An event `roster` identifies the GPUs, at first and whenever they change; an event `columns` has the newest state of
    GPUs with a new sample, by their positions in the roster.

    Args:
        gpu: only this GPU, by any of its names.
        interval: minimum time between two readings, in seconds.
    """

    def __init__(
        self, store: TargetStore, fields: Sequence[str], gpu: str | None = None, interval: float = 1.0
    ) -> None:
        self.interval = interval
        self._store, self._fields, self._gpu = store, fields, gpu
        self._roster = ""
        self._layout: list[tuple[Target, Sequence[Device], bool]] = []
        self._rows: list[tuple[Target, list[tuple[Entity, str]], int]] = []
        self._sent: dict[int, tuple[Tick, bool]] = {}

    def read(self, now: Monotonic, wall_time: float) -> bytes:
        """Return the next events; at `now` monotonic seconds, which is `wall_time`."""
        parts = [self._new_roster(now)] if self._has_new_layout(now) else []
        shown: list[Match] = []
        at: list[int] = []
        for target, keys, first in self._rows:
            tick = target.tick
            if tick is None:
                continue
            is_stale, sent = not target.fresh(now), self._sent.get(first)
            if sent is not None and sent[0] is tick and sent[1] == is_stale:
                continue
            self._sent[first] = tick, is_stale
            rows = {row.device.entity: row for row in tick.gpus}
            shown += [Match(target, rows[entity], node) for entity, node in keys]
            at += range(first, first + len(keys))
        if shown:
            head = {"roster": self._roster, "time": rfc3339(wall_time), "at": at}
            results = [current_result(gpu, now) for gpu in shown]
            parts.append(encoded("columns", {**head, **_state(shown, results, self._fields, now)}))
        return b"".join(parts)

    def _has_new_layout(self, now: Monotonic) -> bool:
        """Return whether targets show other GPUs, or others of them, than at the last reading."""
        layout = [
            (target, target.tick.devices, target.fresh(now))
            for target in self._store.targets
            if target.tick is not None
        ]
        is_same = len(layout) == len(self._layout) and all(
            new[0] is old[0] and new[1] == old[1] and new[2] == old[2]
            for new, old in zip(layout, self._layout, strict=True)
        )
        self._layout = list(layout)
        return not is_same or not self._roster

    def _new_roster(self, now: Monotonic) -> bytes:
        """Find the GPUs again; return the event if they are others."""
        shown = [
            match for match in matches(self._store, now) if self._gpu is None or self._gpu in names_of(match.device)
        ]
        self._rows, first = [], 0
        for _, group in groupby(shown, key=lambda match: id(match.target)):
            rows = list(group)
            self._rows.append((rows[0].target, [(match.device.entity, match.node) for match in rows], first))
            first += len(rows)
        gpus = _roster(shown)
        before, self._roster = self._roster, _roster_id(gpus)
        if before == self._roster:
            return b""
        self._sent.clear()
        return encoded("roster", {"roster": self._roster, "gpus": gpus})
