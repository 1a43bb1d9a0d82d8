"""The JSON documents of the API, as plain dictionaries.

Unlike the page for Prometheus they list stale GPUs too, with `stale`. A missing reading is null; all keys are always
present.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from pulsed.accounting.counter_vector import by_name
from pulsed.compute.health.checks import BY_ID
from pulsed.compute.health.summary import limited_to, stale
from pulsed.model.computed_tick import ComputedTick, Result
from pulsed.model.gpu import Device, board_names, key_of, names_of, node_of, repeated
from pulsed.model.health import CheckState, Health
from pulsed.model.target_store import Target, TargetStore
from pulsed.model.vocabulary import Reading
from pulsed.present.api.account_documents import owner_document
from pulsed.present.api.derived_fields import derived_sections
from pulsed.present.time_text import rfc3339, rfc3339_or_none

Document = dict[str, Any]

SILENT_INTERVALS = 10.0
"""After so many intervals without a sample the health of a GPU is unknown."""

SILENT_SECONDS = 10.0
"""The same in seconds, for fast sources."""


class Match(NamedTuple):
    """One GPU or MIG instance, with the target that shows it."""

    target: Target
    device: Device
    reading: Reading
    result: Result
    node: str
    time: float
    lost: bool
    position: int

    @classmethod
    def of(cls, target: Target, tick: ComputedTick, position: int, here: str) -> Match:
        """Return a device of a target's tick; `here` is this process's node."""
        device, lost = tick.devices[position], position in tick.lost
        time = tick.lost[position] if lost else tick.time
        reading, result = tick.readings[position], tick.results[position]
        return cls(target, device, reading, result, node_of(device, here), time, lost, position)


def gpus_document(board: TargetStore, now: float, wall_time: float, preset: str) -> Document:
    """Return the document of all GPUs and sources; ages refer to `now` (monotonic seconds)."""
    return {**sources_document(board, now, wall_time), "gpus": list(gpu_documents(board, now, preset))}


def gpu_documents(board: TargetStore, now: float, preset: str) -> Iterator[Document]:
    """Yield the documents of all GPUs, of the tick that a target has when it is its turn."""
    return (gpu_document(match, now, preset) for match in matches(board, now))


def sources_document(board: TargetStore, now: float, wall_time: float) -> Document:
    """Return the document of all sources."""
    sources = [_source(target, now) for target in board.targets]
    return {
        "node": board.node,
        "time": rfc3339(wall_time),
        "source": _all_sources(sources),
        "sources": sources,
    }


def gpu_document(match: Match, now: float, preset: str) -> Document:
    """Return the document of one GPU; its age refers to `now` (monotonic seconds)."""
    device, result = match.device, current_result(match, now)
    derived = derived_sections(match.reading, result, {"preset": preset})
    derived["health"] |= _checks(result.health)
    return {
        "gpu": device.entity.gpu,
        "uuid": device.entity.uuid or None,
        "node": match.node,
        "model": device.model or None,
        "mig": _mig(device),
        "time": rfc3339(match.time),
        "age_seconds": round(_age(match, now), 3),
        "stale": is_stale(match, now),
        **derived,
        "metrics": _metrics(match.reading),
        "accounting": {"since": rfc3339_or_none(result.counters.created), "counters": by_name(result.counters.values)},
        "attribution": _attribution(device),
    }


def health_document(board: TargetStore, now: float, checks: Collection[str] = ()) -> list[Document]:
    """Return the health of all GPUs as a flat list for scripts; `problems` has the checks that are worse than ok.

    A target without any GPU has one element, whose `gpu` is null: its GPUs are unknown.

    Args:
        checks: the ids of those that count, all if empty; a GPU on which none is raised and one is unknown is unknown.
    """
    found: list[Document] = []
    for match in matches(board, now):
        device, health = match.device, _health_of(match, now)
        health = limited_to(health, checks) if checks else health
        found.append(
            {
                "node": match.node,
                "gpu": device.entity.gpu,
                "uuid": device.entity.uuid or None,
                "mig": _mig(device),
                "model": device.model or None,
                "target": match.target.name,
                "stale": is_stale(match, now),
                "state": health.state,
                "severity": health.severity,
                "coverage": health.coverage,
                "last_reset": rfc3339_or_none(health.last_reset),
                "problems": [check_document(check) for check in health.checks if check.severity > 0],
            }
        )
    return found + [
        _unknown_health(target, board.node)
        for target in board.targets
        if target.tick is None or not target.tick.devices
    ]


def _unknown_health(target: Target, node: str) -> Document:
    """Return the element of a target without any GPU."""
    telemetry = BY_ID["telemetry"]
    message = f"No GPU has been read: {target.error or 'no data yet'}"
    return {
        "node": node,
        "gpu": None,
        "uuid": None,
        "mig": None,
        "model": None,
        "target": target.name,
        "stale": True,
        "state": "unknown",
        "severity": -1,
        "coverage": 0.0,
        "last_reset": None,
        "problems": [check_document(CheckState("telemetry", "unknown", message=message, remedy=telemetry.remedy))],
    }


def find(board: TargetStore, wanted: str, node: str | None = None, now: float | None = None) -> list[Match]:
    """Return the GPUs of a name, as `find_all`."""
    return find_all(board, [wanted], node, now)[wanted]


def find_all(
    board: TargetStore, wanted: Sequence[str], node: str | None = None, now: float | None = None
) -> dict[str, list[Match]]:
    """Return the GPUs of each name: none, one, or several if nodes share it or only MIG instances of a GPU are known.

    Args:
        wanted: indices, UUIDs of GPUs or MIG instances, or index or UUID and MIG id as in `0:7`.
        now: monotonic seconds; when two targets report the same GPU a fresh one is preferred. None: the first.
    """
    exact: dict[str, list[Match]] = {name: [] for name in wanted}
    parts: dict[str, list[Match]] = {name: [] for name in wanted}
    for match in matches(board, now):
        if node is None or match.node == node:
            for found, names in ((exact, names_of(match.device)), (parts, board_names(match.device))):
                for name in names:
                    if name in found:
                        found[name].append(match)
    return {name: exact[name] or parts[name] for name in exact}


def matches(board: TargetStore, now: float | None = None) -> Iterator[Match]:
    """Yield all GPUs, each once, in the order of the configuration; fresh targets take precedence."""
    seen = [target for target in board.targets if target.tick is not None]
    ranked = seen if now is None else sorted(seen, key=lambda target: not target.fresh(now))
    keys = [
        [key_of(device, board.node) for device in target.tick.devices] for target in ranked if target.tick is not None
    ]
    hidden = {id(target): positions for target, positions in zip(ranked, repeated(keys), strict=True)}
    for target in seen:
        if (tick := target.tick) is not None:
            for position in range(len(tick.devices)):
                if position not in hidden[id(target)]:
                    yield Match.of(target, tick, position, board.node)


def is_stale(match: Match, now: float) -> bool:
    """Return whether a GPU's values are too old to be served as current ones; `now` is monotonic seconds."""
    return match.lost or not match.target.fresh(now)


def is_silent(target: Target, now: float) -> bool:
    """Return whether a target has not delivered for so long that the health of its GPUs is unknown."""
    silent = now - target.arrived > max(SILENT_INTERVALS * target.interval, SILENT_SECONDS)
    return silent and target.tick is not None and not target.fresh(now)


def current_result(match: Match, now: float) -> Result:
    """Return the result of a GPU; its health is unknown once its target has not delivered for a long time."""
    health = _health_of(match, now)
    return match.result if health is match.result.health else match.result._replace(health=health)


def _mig(device: Device) -> Document | None:
    entity = device.entity
    if not entity.mig_id:
        return None
    return {"id": entity.mig_id, "profile": entity.mig_profile or None, "uuid": device.mig_uuid or None}


def _metrics(reading: Reading) -> dict[str, float | None]:
    metrics: dict[str, float | None] = reading._asdict()
    try:
        finite = isfinite(sum(value for value in reading if value is not None))
    except OverflowError:
        finite = False
    if finite:
        return metrics
    # JSON cannot represent them, and no gauge reads infinity.
    return {name: value if value is not None and isfinite(value) else None for name, value in metrics.items()}


def _age(match: Match, now: float) -> float:
    """Return the age of the values; those of a lost GPU are older than the sample that it is missing from."""
    target = match.target
    sample = match.time if target.tick is None else target.tick.time
    return max(0.0, now - target.arrived) + max(0.0, sample - match.time)


def _health_of(match: Match, now: float) -> Health:
    """Return the health of a GPU: unknown once its target has not delivered for a long time."""
    target, health = match.target, match.result.health
    if match.lost or not is_silent(target, now):
        return health
    return stale(health, match.time + target.interval, (now - target.arrived) / target.interval)


def _checks(health: Health) -> Document:
    last = health.xid_last
    return {
        "checks": [check_document(check) for check in health.checks if check.applies],
        "last_xid": None
        if last is None
        else {
            "code": last.code,
            "description": last.description,
            "time": rfc3339_or_none(last.time),
        },
    }


def check_document(check: CheckState) -> Document:
    """Return the document of one check."""
    return {
        "id": check.id,
        "state": check.state,
        "since": rfc3339_or_none(check.since),
        "last_event": rfc3339_or_none(check.last_event),
        "covered": check.covered,
        "message": check.message,
        "evidence": {name: value if isfinite(value) else None for name, value in check.evidence},
        "remedy": check.remedy,
    }


def _attribution(device: Device) -> Document:
    owners = device.owners or ()
    return {
        "known": device.owners is not None,
        "owners": [owner_document(owner) for owner in owners],
        "pods": [
            {"namespace": owner.namespace, "pod": owner.name, "container": owner.container, "uid": owner.uid}
            for owner in owners
            if owner.kind == "pod"
        ],
        "slurm_job": ",".join(owner.id for owner in owners if owner.kind == "slurm_job") or None,
        "processes": [int(owner.id) for owner in owners if owner.kind == "process" and owner.id.isdecimal()],
    }


def _source(target: Target, now: float) -> Document:
    return {
        "kind": target.kind,
        "target": target.name,
        "up": target.up and target.fresh(now),  # as on the page: one that hangs has not failed yet
        "error": target.error or None,
        "interval_seconds": target.interval,
        "last_sample_time": rfc3339(target.tick.time) if target.tick else None,
        "demo": target.kind == "demo",
        "kernel_log_error": target.kernel_log_error or None,
    }


def _all_sources(sources: list[Document]) -> Mapping[str, Any]:
    """Return the summary of all sources: up only if all of them are, with the first error."""
    if len(sources) == 1:
        return sources[0]
    down = [source for source in sources if not source["up"]]
    error = next((source["error"] for source in down if source["error"]), None)
    if len(down) > 1:
        error = f"{len(down)} of {len(sources)} sources are down" + (f"; the first: {error}" if error else "")
    kinds = dict.fromkeys(source["kind"] for source in sources)
    times = [source["last_sample_time"] for source in sources if source["last_sample_time"]]
    return {
        "kind": ",".join(kinds),
        "target": f"{len(sources)} targets",
        "up": bool(sources) and not down,
        "error": error,
        "interval_seconds": max((source["interval_seconds"] for source in sources), default=0.0),
        "last_sample_time": max(times, default=None),
        "demo": any(source["demo"] for source in sources),
        "kernel_log_error": next(
            (source["kernel_log_error"] for source in sources if source["kernel_log_error"]), None
        ),
    }
