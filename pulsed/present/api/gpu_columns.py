"""The state of all GPUs as columns: one list per field, in the order of a roster.

A twentieth of the size of the GPUs' documents, and a client with the roster needs only what has changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import NamedTuple

from pulsed.model.computed_tick import ComputedTick, Result
from pulsed.model.gpu import Device, names_of
from pulsed.model.health import Health
from pulsed.model.target_store import Target, TargetStore
from pulsed.model.vocabulary import Value
from pulsed.present.api.documents import Document, Match, current_result, is_silent, is_stale, matches
from pulsed.present.api.event_documents import TICK_FIELDS, encoded, finite
from pulsed.present.api.sample_fields import getter
from pulsed.present.time_text import rfc3339

SUMMARY_FIELDS = (*TICK_FIELDS, "limiting_resource", "memory_bytes", "power_limit_watts")
"""Fields of a summary by default."""

MAX_ROWS = 1000
"""GPUs of one event at most, of whole targets: more keep the event loop from its connections for over 20 ms."""


def summary_document(shown: Sequence[Match], fields: Sequence[str], now: float) -> Document:
    """Return the roster of some GPUs and their state; `now` is monotonic seconds."""
    gpus = _identities(shown)
    owners = [
        None if match.device.owners is None else [f"{owner.kind}:{owner.id}" for owner in match.device.owners]
        for match in shown
    ]
    results = [current_result(match, now) for match in shown]
    return {
        "roster": _roster_id(gpus),
        "gpus": gpus,
        "owners": owners,
        "class_since": [None if result.held.since is None else round(result.held.since, 3) for result in results],
        "candidates": [list(result.workload.candidates) for result in results],
        "problem": [_problem(result.health) for result in results],
        **_state(shown, fields, now),
    }


def _problem(health: Health) -> str | None:
    """Return the message of the worst raised check; None if none is raised."""
    raised = [check for check in health.checks if check.applies and check.severity > 0]
    return max(raised, key=lambda check: check.severity).message if raised else None


class _Shown(NamedTuple):
    """What was sent of a target."""

    tick: ComputedTick
    stale: bool
    silent: bool


class ColumnReader:
    """What has changed since the last reading, as events for one client.

    An event `roster` identifies the GPUs, at first and whenever they change; an event `columns` has the newest state of
    GPUs with a new sample, by their positions in the roster.

    Args:
        fields: names of `FIELDS`.
        gpu: only this GPU, by any of its names.
        interval: minimum time between two readings, in seconds.
    """

    def __init__(
        self, board: TargetStore, fields: Sequence[str], gpu: str | None = None, interval: float = 1.0
    ) -> None:
        self.interval = interval
        self._board, self._fields, self._gpu = board, fields, gpu
        self._roster = ""
        self._layout: list[tuple[Target, tuple[Device, ...], bool]] = []
        self._rows: list[tuple[Target, list[int], int]] = []
        self._sent: dict[int, _Shown] = {}

    def read(self, now: float, wall_time: float) -> tuple[bytes, bool]:
        """Return the next events and whether these are all; at `now` monotonic seconds, which is `wall_time`."""
        parts = [self._new_roster(now)] if self._has_new_layout(now) else []
        shown: list[Match] = []
        at: list[int] = []
        is_complete = True
        for target, positions, first in self._rows:
            tick = target.tick
            if tick is None:
                continue
            state = _Shown(tick, not target.fresh(now), is_silent(target, now))
            sent = self._sent.get(first)
            if sent is not None and sent.tick is tick and sent[1:] == state[1:]:
                continue
            if len(shown) >= MAX_ROWS:
                is_complete = False
                break
            self._sent[first] = state
            shown += [Match.of(target, tick, position, self._board.node) for position in positions]
            at += range(first, first + len(positions))
        if shown:
            head = {"roster": self._roster, "time": rfc3339(wall_time), "at": at}
            parts.append(encoded("columns", {**head, **_state(shown, self._fields, now)}))
        return b"".join(parts), is_complete

    def _has_new_layout(self, now: float) -> bool:
        """Return whether targets show other GPUs, or others of them, than at the last reading."""
        layout = [
            (target, target.tick.devices, target.fresh(now))
            for target in self._board.targets
            if target.tick is not None
        ]
        is_same = len(layout) == len(self._layout) and all(
            new[0] is old[0] and new[1] is old[1] and new[2] == old[2]
            for new, old in zip(layout, self._layout, strict=True)
        )
        self._layout = list(layout)
        return not is_same or not self._roster

    def _new_roster(self, now: float) -> bytes:
        """Find the GPUs again; return the event if they are others."""
        shown = [
            match for match in matches(self._board, now) if self._gpu is None or self._gpu in names_of(match.device)
        ]
        self._rows, first = [], 0
        for _, group in groupby(shown, key=lambda match: id(match.target)):
            rows = list(group)
            self._rows.append((rows[0].target, [match.position for match in rows], first))
            first += len(rows)
        gpus = _identities(shown)
        before, self._roster = self._roster, _roster_id(gpus)
        if before == self._roster:
            return b""
        self._sent.clear()
        return encoded("roster", {"roster": self._roster, "gpus": gpus})


def _identities(shown: Iterable[Match]) -> Document:
    rows = [
        (
            match.node,
            match.device.entity.gpu,
            match.device.entity.uuid or None,
            match.device.entity.mig_id or None,
            match.device.entity.mig_profile or None,
            match.device.model or None,
        )
        for match in shown
    ]
    names = ("node", "gpu", "uuid", "mig_id", "mig_profile", "model")
    return {name: [row[column] for row in rows] for column, name in enumerate(names)}


def _roster_id(gpus: Document) -> str:
    return blake2b(json.dumps(gpus).encode(), digest_size=8).hexdigest()


def _state(shown: Sequence[Match], fields: Sequence[str], now: float) -> Document:
    results = [current_result(match, now) for match in shown]
    return {
        "sample_time": [round(match.time, 3) for match in shown],
        "stale": [is_stale(match, now) for match in shown],
        "fields": {name: list(_column(name, shown, results)) for name in fields},
    }


def _column(name: str, shown: Sequence[Match], results: Sequence[Result]) -> Iterator[str | Value]:
    get, is_ratio = getter(name), name.endswith("_ratio")
    for match, result in zip(shown, results, strict=True):
        value = finite(get(match.reading, result))
        yield round(value, 4) if is_ratio and isinstance(value, float) else value
