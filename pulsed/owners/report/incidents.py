"""Incidents: the problems that a fault of a GPU causes within a minute are one entry, with its cause first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from pulsed.json_text import moment_of, rfc3339, rfc3339_or_none
from pulsed.model.clocks import EPOCH, Unix
from pulsed.model.health import SEVERITY, STATES, CheckState, State

WITHIN_SECONDS = 60.0
"""Troubles of one GPU that begin within this time of the first one have one cause."""

REPEAT_SECONDS = 600.0
"""A trouble that returns within this time after its end is the same one."""

SYMPTOMS = frozenset({"gpu_lost", "telemetry"})
"""Checks that most often follow from another fault: they are a cause only without another one."""

TroubleKind = Literal["health", "xid", "finding", "removal"]


@dataclass(slots=True)
class Trouble:
    """A raised check, an XID, a finding, or the removal of a GPU.

    Attributes:
        id: of the check, finding or reason of removal, or the code of an XID.
        since: when it began, in Unix seconds.
        until: when it ended; None while it lasts. XIDs and removals end when they begin.
        times: how often it began.
    """

    kind: TroubleKind
    id: str
    state: State
    since: Unix
    message: str
    remedy: str = ""
    until: Unix | None = None
    times: int = 1


class Incident(NamedTuple):
    """Troubles of one GPU with one cause."""

    cause: Trouble
    consequences: Sequence[Trouble]

    @property
    def state(self) -> State:
        """The worst state of its troubles."""
        return STATES[max(SEVERITY[each.state] for each in (self.cause, *self.consequences)) + 1]

    @property
    def since(self) -> Unix:
        """When the first of its troubles began, in Unix seconds."""
        return min(each.since for each in (self.cause, *self.consequences))

    @property
    def until(self) -> float | None:
        """When the last of its troubles ended; None while one lasts."""
        ends = [each.until for each in (self.cause, *self.consequences)]
        return None if None in ends else max(end for end in ends if end is not None)


def incidents_of(troubles: Iterable[Trouble]) -> list[Incident]:
    """Return the incidents that the troubles of one GPU make, the oldest first."""
    groups: list[list[Trouble]] = []
    for trouble in sorted(troubles, key=lambda each: each.since):
        if groups and trouble.since - groups[-1][0].since <= WITHIN_SECONDS:
            groups[-1].append(trouble)
        else:
            groups.append([trouble])
    return [_incident(group) for group in groups]


def _incident(group: Sequence[Trouble]) -> Incident:
    cause = min(group, key=lambda each: (each.id in SYMPTOMS, -SEVERITY[each.state], each.kind != "xid", each.since))
    others = [each for each in group if each is not cause]
    if cause.kind != "xid":
        return Incident(cause, others)
    # The check of an XID repeats it, lasts, and has the remedy in a sentence.
    checks = [each for each in others if each.id.startswith("xid_")]
    if checks:
        cause = replace(cause, remedy=checks[-1].remedy or cause.remedy, until=checks[-1].until)
    return Incident(cause, [each for each in others if each not in checks])


def current_incidents(checks: Iterable[CheckState]) -> list[Incident]:
    """Return the incidents that the raised checks of a GPU make, the worst first."""
    raised = [
        Trouble("health", check.id, check.state, check.since or EPOCH, _brief(check), check.remedy)
        for check in checks
        if check.applies and check.severity > 0
    ]
    return sorted(incidents_of(raised), key=lambda each: (-SEVERITY[each.state], each.since))


def _brief(check: CheckState) -> str:
    """Return the message of a check; of one about XIDs, which XID it is."""
    xid = check.message.partition(": ")[2]
    return xid if check.id.startswith("xid_") and xid else check.message


class Troubles:
    """The troubles of one GPU, made of changes in the order of their times."""

    def __init__(self) -> None:
        self._all: list[Trouble] = []

    def __iter__(self) -> Iterator[Trouble]:
        """Yield them in the order in which they began."""
        return iter(self._all)

    def add_state(self, kind: TroubleKind, id: str, time: Unix, state: State, message: str, remedy: str) -> bool:
        """Add the state that a check or finding has from a Unix time on; return whether it is a new trouble."""
        last = next((each for each in reversed(self._all) if (each.kind, each.id) == (kind, id)), None)
        if SEVERITY[state] <= 0:
            if last is not None and last.until is None and state == "ok":
                last.until = time
            return False
        if last is None or (last.until is not None and time - last.until > REPEAT_SECONDS):
            self._all.append(Trouble(kind, id, state, time, message, remedy))
            return True
        last.times += last.until is not None
        last.until = None
        if SEVERITY[state] >= SEVERITY[last.state]:
            last.state, last.message, last.remedy = state, message or last.message, remedy or last.remedy
        return False

    def add_moment(self, kind: TroubleKind, id: str, time: Unix, state: State, message: str, remedy: str) -> bool:
        """Add an XID or a removal at a Unix time; return whether it is a new trouble."""
        is_new = self.add_state(kind, id, time, state, message, remedy)
        self.add_state(kind, id, time, "ok", "", "")
        return is_new

    def drop_first(self) -> None:
        """Drop the oldest one."""
        del self._all[:1]


def account_incidents(gpus: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the documents of the incidents of GPUs while an owner had them, from its account, the newest first."""
    found = []
    for gpu in gpus:
        troubles = Troubles()
        for event in gpu["events"]:
            if not event["check"]:
                continue
            is_finding = "suspected" in (event["before"], event["after"])
            state: State = "warn" if event["after"] == "suspected" else event["after"]
            troubles.add_state(
                "finding" if is_finding else "health",
                event["check"],
                Unix(moment_of(event["time"]).timestamp()),
                state,
                event["message"],
                event["remedy"],
            )
        found += [(gpu, each) for each in incidents_of(troubles)]
    found.sort(key=lambda pair: -pair[1].since)
    return [{name: gpu[name] for name in _IDENTITY} | incident_numbers(each) for gpu, each in found]


_IDENTITY = ("node", "gpu", "uuid", "mig_id")


def incident_numbers(incident: Incident) -> dict[str, Any]:
    """Return the members of an incident that a document has, without its GPU; times are text."""
    cause = incident.cause
    return {
        "kind": cause.kind,
        "cause": cause.id,
        "state": incident.state,
        "message": cause.message,
        "remedy": cause.remedy,
        "since": rfc3339(incident.since),
        "until": rfc3339_or_none(incident.until),
        "times": cause.times,
        "consequences": [
            {"kind": each.kind, "id": each.id, "state": each.state, "message": each.message}
            for each in incident.consequences
        ],
    }
