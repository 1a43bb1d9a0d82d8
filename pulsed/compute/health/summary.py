"""Health of a whole GPU: the worst of its checks that apply and are known, and how long it was in each state.

A state lasts from the evaluation that enters it to the one that leaves it. Time that no sample covers is `unknown`, so
that the sum over all states is the time since the first sample. A restart of the daemon does not end a state: what was
saved last may be older than what was published, and counters must not decrease.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from pulsed.compute.health.checks import BY_ID
from pulsed.durations import MINUTE
from pulsed.model.health import SEVERITY, STATES, CheckState, Health, State


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


def worst_state(checks: tuple[CheckState, ...], is_fresh: bool) -> tuple[State, float]:
    """Return the state of a GPU with these checks, and the share of those that apply which are known."""
    severities = [SEVERITY[check.state] for check in checks if check.applies]
    severity = max(severities, default=-1)
    if not is_fresh:
        severity = max([check.severity for check in checks if check.applies and check.id != "telemetry"], default=-1)
        severity = severity if severity >= SEVERITY["warn"] else -1
    evaluated = len(severities) - severities.count(SEVERITY["unknown"])
    coverage = evaluated / len(severities) if severities else 0.0
    return STATES[severity + 1], coverage


def limited_to(health: Health, checks: Collection[str]) -> Health:
    """Return the health by these checks alone: the worst if one is raised, otherwise unknown if any or the GPU is."""
    limited = with_checks(health, tuple([check for check in health.checks if check.id in checks]))
    is_known = limited.severity > 0 or (limited.coverage == 1.0 and health.state != "unknown")
    return limited if is_known else replace(limited, state="unknown")


def unobserved(health: Health, since: float, age: float, reason: str) -> Health:
    """Return the health of a GPU whose source does not deliver: what is kept without inputs stays, the rest is unknown.

    That the GPU is not observed is not a problem of the GPU but of its source.

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


BRIDGED_SECONDS = MINUTE
"""Time since the state was saved for which it is taken to last: the interval between two writes of the state file."""


class StateSeconds:
    """Seconds by state.

    Attributes:
        state: the current one.
        by_state: in the order of `STATES`.
    """

    __slots__ = ("by_state", "state")

    def __init__(self) -> None:
        self.state: State = "unknown"
        self.by_state: dict[State, float] = dict.fromkeys(STATES, 0.0)

    def add(self, seconds: float, *, is_covered: bool) -> None:
        """Count time that has passed in the current state, if samples cover it."""
        self.by_state[self.state if is_covered else "unknown"] += seconds

    def saved(self) -> dict[State, float]:
        """Return the states that have lasted, for the state file."""
        return {state: seconds for state, seconds in self.by_state.items() if seconds}

    def restore(self, saved: Mapping[State, float], state: State, elapsed: float) -> None:
        """Continue with the state that was saved `elapsed` seconds ago."""
        self.by_state |= {state: max(seconds, 0.0) for state, seconds in saved.items()}  # a file may be damaged
        self.state = state
        bridged = min(elapsed, BRIDGED_SECONDS)
        self.add(bridged, is_covered=True)
        self.add(elapsed - bridged, is_covered=False)
