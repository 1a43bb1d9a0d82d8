"""All GPUs of a target together, and what is left to say of one whose readings have grown old."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pulsed.compute.health.checks import BY_ID
from pulsed.compute.health.model import SEVERITY, STATES, CheckState, Health, NodeHealth, State


def roll_up(healths: Iterable[Health]) -> NodeHealth:
    """Give the health of a node from that of its boards, lost ones included: the worst of those that are known."""
    counts: dict[State, int] = dict.fromkeys(STATES, 0)
    coverage = 0.0
    for health in healths:
        counts[health.state] += 1
        coverage += health.coverage
    gpus = sum(counts.values())
    severity = max((SEVERITY[state] for state, count in counts.items() if count), default=-1)
    return NodeHealth(
        state=STATES[severity + 1],
        severity=severity,
        coverage=coverage / gpus if gpus else 0.0,
        gpus=gpus,
        counts=tuple(counts.items()),
    )


def stale(health: Health, since: float, age_in_intervals: float) -> Health:
    """Give what can still be said of a GPU whose last sample is more than ten intervals old: nothing but that.

    Events stay counted. The result is another object with every call: ask once.

    Args:
        health: of the last sample.
        since: when the sample after it was due, in Unix seconds.
        age_in_intervals: of the last sample, in nominal intervals.
    """
    telemetry = BY_ID["telemetry"]
    checks = tuple(
        CheckState(
            id=check.id,
            state="crit",
            since=since,
            message=telemetry.title,
            evidence=(("sample_gap_intervals", round(age_in_intervals, 1)),),
            remedy=telemetry.remedy,
            covered=True,
        )
        if check.id == telemetry.id
        else CheckState(check.id, "unknown", since, check.last_event, applies=check.applies)
        for check in health.checks
    )
    known = sum(check.severity >= 0 for check in checks)
    applying = sum(check.applies for check in checks)
    severity = max((check.severity for check in checks), default=-1)
    return replace(
        health,
        state=STATES[severity + 1],
        severity=severity,
        coverage=known / applying if applying else 0.0,
        checks=checks,
    )
