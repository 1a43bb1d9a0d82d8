"""Health of a node's GPUs as faults for NVSentinel: a check of a GPU each, and a source that does not deliver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulsed.compute.health.checks import CHECKS
from pulsed.compute.health.node_checks import NODE_CHECK_IDS
from pulsed.compute.health.xids import Action, xid_of
from pulsed.kubernetes.node_conditions import MAX_MESSAGE_LENGTH
from pulsed.kubernetes.nvsentinel import Entity, HealthFault, HealthFaults, RecommendedAction
from pulsed.model.health import SEVERITY
from pulsed.present.health_report import Row
from pulsed.present.node_conditions import is_silent, reason_of

SOURCE = "PulsedSource"
"""The check of the sources; it is never fatal: a blind pulsed proves nothing about GPUs."""

_OF_CHECKS: Mapping[str, RecommendedAction] = {
    "gpu_lost": RecommendedAction.RESTART_BM,
    "ecc_uncorrectable": RecommendedAction.COMPONENT_RESET,
}
"""What a fatal check needs; others, `CONTACT_SUPPORT`."""

_OF_XIDS: Mapping[Action, RecommendedAction] = {
    "reset_gpu": RecommendedAction.COMPONENT_RESET,
    "reboot_node": RecommendedAction.RESTART_BM,
}

_OF_RECOVERY: Mapping[int, RecommendedAction] = {
    1: RecommendedAction.COMPONENT_RESET,
    2: RecommendedAction.RESTART_BM,
    4: RecommendedAction.COMPONENT_RESET,
    7: RecommendedAction.RESTART_BM,
}
"""By NVML's recovery action, as in the check `recovery_action`."""


def check_name(check: str) -> str:
    """Return the name of a check for NVSentinel, whose own have none of this beginning.

    >>> check_name("gpu_lost")
    'PulsedGpuLost'
    """
    return f"Pulsed{reason_of(check)}"


CHECK_NAMES = tuple(check_name(each.id) for each in CHECKS)
OTHER_NAMES = (*map(check_name, NODE_CHECK_IDS), SOURCE)


def health_faults(rows: Sequence[Row]) -> HealthFaults:
    """Return what is known, from the rows of `/health/gpus`: `crit` is fatal, `warn` and `hot` are not."""
    faults: dict[tuple[str, tuple[Entity, ...]], HealthFault] = {}
    healthy, unknown = list[tuple[Entity, ...]](), set[tuple[Entity, ...]]()
    for row in rows:
        if is_silent(row):
            message = "; ".join(f"{each['message']} -> {each['remedy']}" for each in row["problems"])
            faults.setdefault((SOURCE, ()), HealthFault(SOURCE, (), message[:MAX_MESSAGE_LENGTH]))
            continue
        entities = _entities(row)
        if row["stale"] or row["state"] == "unknown":
            unknown.add(entities)
        elif entities not in healthy:
            healthy.append(entities)
        for problem in row["problems"]:
            if SEVERITY[problem["state"]] >= SEVERITY["warn"]:  # once, though MIG instances repeat their board's
                fault = _fault(problem, entities)
                faults[fault.check, entities] = fault
    return HealthFaults(list(faults.values()), healthy, unknown)


def _entities(row: Row) -> tuple[Entity, ...]:
    given = (("GPU", row["gpu"]), ("GPU_UUID", row["uuid"]))
    return tuple((kind, name) for kind, name in given if name)


def _fault(problem: Mapping[str, Any], entities: tuple[Entity, ...]) -> HealthFault:
    xid = problem["evidence"].get("xid")
    is_fatal = problem["state"] == "crit"
    return HealthFault(
        check_name(problem["id"]),
        entities,
        f"{problem['message']} -> {problem['remedy']}"[:MAX_MESSAGE_LENGTH],
        is_fatal,
        _action(problem, xid) if is_fatal else RecommendedAction.NONE,
        () if xid is None else (f"{xid:g}",),
    )


def _action(problem: Mapping[str, Any], xid: float | None) -> RecommendedAction:
    known = _OF_CHECKS.get(problem["id"])
    if known is None and problem["id"] == "recovery_action":
        known = _OF_RECOVERY.get(int(problem["evidence"].get("recovery_action") or 0))
    if known is None and xid is not None:
        known = _OF_XIDS.get(xid_of(int(xid)).action)
    return known or RecommendedAction.CONTACT_SUPPORT
