"""Health of a whole GPU by other checks: by some of them alone, or while its source does not deliver."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pulsed.compute.health.checks import BY_ID
from pulsed.model.clocks import Unix
from pulsed.model.health import CheckState, Health, worst_state


def with_checks(health: Health, checks: tuple[CheckState, ...], is_fresh: bool = True) -> Health:
    """Return the health with these checks.

    Args:
        health: what does not follow from the checks.
        checks: all of them; those that do not apply do not count.
        is_fresh: whether the vital inputs are fresh. Without them the GPU is unknown, unless another check than
            `telemetry` is a warning or worse.
    """
    state, coverage = worst_state(checks, is_fresh)
    return replace(health, state=state, coverage=coverage, checks=checks)


def limited_to(health: Health, checks: Collection[str]) -> Health:
    """Return the health by these checks alone: the worst if one is raised, otherwise unknown if any or the GPU is."""
    limited = with_checks(health, tuple([check for check in health.checks if check.id in checks]))
    is_known = limited.severity > 0 or (limited.coverage == 1.0 and health.state != "unknown")
    return limited if is_known else replace(limited, state="unknown")


def unobserved(health: Health, since: Unix, age: float, reason: str) -> Health:
    """Return the health of a GPU whose source does not deliver: states kept without inputs stay, others are unknown.

    A missing observation is a problem of the source, not of the GPU.

    Args:
        health: of the last sample.
        since: when the sample after it was due, in Unix seconds.
        age: of the last sample, in seconds.
        reason: why the source does not deliver; the message of `telemetry`.
    """
    telemetry = BY_ID["telemetry"]
    checks: list[CheckState] = []
    for check in health.checks:
        if check.id == telemetry.id:
            evidence = (("sample_age_seconds", round(age, 1)),)
            check = CheckState(check.id, "unknown", since, None, reason, evidence, telemetry.remedy)
        elif check.severity <= 0 or not (check.last_event or any(rule.lasts > age for rule in BY_ID[check.id].rules)):
            check = CheckState(check.id, "unknown", since, check.last_event, applies=check.applies)
        checks.append(check)
    return with_checks(health, tuple(checks), is_fresh=False)
