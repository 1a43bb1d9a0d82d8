"""Incidents as documents: recent ones, and present problems that need attention."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from pulsed.compute.health.checks import BY_ID
from pulsed.json_text import rfc3339_or_none
from pulsed.model.clocks import Monotonic
from pulsed.model.gpu import BoardKey, Device, GpuKey, names_of
from pulsed.model.health import SEVERITY, State
from pulsed.model.target_store import Target, TargetStore
from pulsed.owners.report.incidents import Incident, Troubles, current_incidents, incident_numbers, incidents_of
from pulsed.owners.report.job_advice import FINDING_TEXTS
from pulsed.present.api.event_documents import Change
from pulsed.present.api.gpu_matches import Match, health_of, identity_of, matches, silence_of
from pulsed.present.api.incident_shapes import INCIDENT_KINDS
from pulsed.present.api.schema import Document

MAX_TROUBLES = 1000
"""Troubles that are kept of all GPUs; the oldest are dropped first."""


class IncidentLog:
    """The incidents of the last changes of all GPUs. A restart clears them."""

    def __init__(self, max_troubles: int = MAX_TROUBLES) -> None:
        self._max_troubles = max_troubles
        self._gpus: dict[GpuKey, tuple[Device, Troubles]] = {}
        self._order = deque[GpuKey]()

    def add(self, change: Change) -> None:
        """Add a change; changes that are not part of incidents are ignored."""
        if change.kind not in INCIDENT_KINDS:
            return
        key = change.device.entity.key
        troubles = self._gpus[key][1] if key in self._gpus else Troubles()
        self._gpus[key] = change.device, troubles
        if _add(troubles, change):
            self._order.append(key)
        if len(self._order) > self._max_troubles:
            self._gpus[self._order.popleft()][1].drop_first()

    def find(self, gpu: str | None, since: float, limit: int, here: str) -> list[Document]:
        """Return incidents, the newest first, that began not before a Unix time; of one GPU, by any name, or of all.

        Args:
            here: as for `change_document`.
        """
        found = [
            (device, incident)
            for device, troubles in self._gpus.values()
            if gpu is None or gpu in names_of(device)
            for incident in incidents_of(troubles)
            if incident.since >= since
        ]
        found.sort(key=lambda pair: -pair[1].since)
        return [identity_of(device, here) | incident_numbers(incident) for device, incident in found[:limit]]


def _add(troubles: Troubles, change: Change) -> bool:
    """Add a change to the troubles of its GPU; return whether it is a new trouble."""
    time, document = change.time, change.document
    if change.kind == "xid":
        severity: State = document["severity"] if SEVERITY[document["severity"]] > 0 else "info"
        text = f"XID {document['code']}: {document['description']}"
        return troubles.add_moment("xid", str(document["code"]), time, severity, text, document["remedy"])
    if change.kind == "removal":
        return troubles.add_moment("removal", document["reason"], time, "warn", document["message"], "")
    if change.kind == "finding":
        name, state = document["finding"], document["state"]
        remedy = FINDING_TEXTS.get(name, "")
        return troubles.add_state(
            "finding", name, time, "warn" if state == "suspected" else "ok", document["message"] or "", remedy
        )
    if not document["check"]:
        return False
    return troubles.add_state(
        "health", document["check"], time, document["after"], document["message"], document["remedy"]
    )


SILENT = SEVERITY["hot"]
"""A source that does not deliver stands among GPUs of this severity."""


def attention_documents(store: TargetStore, now: Monotonic) -> list[Document]:
    """Return what is wrong with each GPU, and each source that does not deliver, the worst first.

    A MIG instance is left out where its board has something. Checks that are only `info` need no attention.
    """
    shown = list(matches(store, now))
    found: list[tuple[int, float, Document]] = []
    boards: set[BoardKey] = set()
    for match in sorted(shown, key=lambda each: bool(each.device.entity.mig_id)):
        incidents = current_incidents(health_of(match, now).checks)
        board = match.device.entity.board
        if incidents and SEVERITY[incidents[0].state] >= SEVERITY["warn"] and board not in boards:
            boards.add(board)
            found.append((-SEVERITY[incidents[0].state], incidents[0].since, _of_gpu(match, incidents[0])))
    for target in store.targets:
        gpus = [match for match in shown if match.target is target]
        if not target.ended and (not target.fresh(now) or not gpus):
            since = 0.0 if target.tick is None else target.tick.time
            found.append((-SILENT, since, _of_target(target, store.node, gpus)))
    return [document for *_, document in sorted(found, key=lambda each: each[:2])]


def _of_gpu(match: Match, incident: Incident) -> Document:
    return {
        **identity_of(match.device, match.node),
        "target": match.target.name,
        **incident_numbers(incident),
        "owners": list(_owners([match])),
        "gpus": 1,
    }


def _of_target(target: Target, here: str, gpus: list[Match]) -> Document:
    message = target.error or silence_of(target)
    return {
        "node": gpus[0].node if gpus else here,
        "gpu": None,
        "uuid": None,
        "mig_id": None,
        "target": target.name,
        "kind": "health",
        "cause": "telemetry",
        "state": "unknown",
        "message": message,
        "remedy": "" if target.error else BY_ID["telemetry"].remedy,
        "since": rfc3339_or_none(None if target.tick is None else target.tick.time),
        "until": None,
        "times": 1,
        "consequences": [],
        "owners": list(dict.fromkeys(_owners(gpus))),
        "gpus": len({match.device.entity.board for match in gpus}),
    }


def _owners(gpus: list[Match]) -> Iterator[str]:
    for match in gpus:
        yield from (f"{owner.kind}:{owner.id}" for owner in match.owners or ())
