"""Times of rules: when a severity is raised, kept and left."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from operator import eq

import pytest

from pulsed.compute.health.inputs import GpuInputs
from pulsed.compute.health.rule import Rule, RuleState, When
from pulsed.durations import DAY, HOUR, MINUTE
from pulsed.model.clocks import GpuSeconds
from tests.compute.health.sim import give

UNKNOWN, OK, INFO, WARN, HOT, CRIT = range(-1, 5)
LEVELS = {"info": 10, "warn": 20, "hot": 30, "crit": 40}


def level(**times: float) -> Rule:
    return Rule("temperature_celsius", LEVELS, **times)  # type: ignore[arg-type]


class Follower:
    """One rule of one GPU."""

    def __init__(self, rule: Rule) -> None:
        self.rule, self.state = rule, RuleState()
        self.inputs = GpuInputs()

    def take(self, value: float | None, now: float, measured_at: float | None = None, **others: float) -> int:
        """Take a temperature; return the severity."""
        give(self.inputs, temperature_celsius=value, **others)
        self.inputs.measured_at = GpuSeconds(now if measured_at is None else measured_at)
        self.rule.evaluate(self.state, self.inputs, GpuSeconds(now))
        return self.state.severity


def held(rule: Rule, values: Sequence[float | None]) -> list[int]:
    """Return the severity after each value, one per second."""
    follower = Follower(rule)
    return [follower.take(value, float(now)) for now, value in enumerate(values)]


def test_units_of_time() -> None:
    assert (MINUTE, HOUR, DAY) == (60.0, 3600.0, 86400.0)


def test_a_new_state_is_unknown() -> None:
    state = RuleState()
    assert (state.severity, state.until, state.is_covered, state.events) == (-1, -inf, False, 0)


def test_without_times_a_severity_follows_the_measure() -> None:
    values = [0.0, 10.0, 20.0, 30.0, 40.0, 39.0, 9.0, None, 9.0, None, 40.0, None]
    expected = [OK, INFO, WARN, HOT, CRIT, HOT, OK, UNKNOWN, OK, UNKNOWN, CRIT, UNKNOWN]
    assert held(level(), values) == expected
    assert held(Rule("temperature_celsius", {"warn": 5, "crit": -2}, below=True), [6.0, 5.0, 0.0, -2.0, -1.0]) == [
        *(OK, WARN, WARN, CRIT, WARN)
    ]


@pytest.mark.parametrize(("at", "severity"), [(10.0, INFO), (20.0, WARN), (30.0, HOT), (40.0, CRIT)])
def test_every_severity_is_raised_after_its_time_without_a_break(at: float, severity: int) -> None:
    rule = level(enter=3.0)
    assert held(rule, [0.0] + [at] * 4) == [OK, OK, OK, OK, severity]
    assert held(rule, [0.0, at, at, 0.0, at, at, at, at]) == [OK] * 7 + [severity]
    assert held(rule, [0.0, at, at, None, at, at, at, at]) == [OK] * 3 + [UNKNOWN] + [OK] * 3 + [severity]


def test_each_severity_has_a_time_of_its_own() -> None:
    assert held(level(enter=2.0), [40.0, 20.0, 40.0, 40.0, 40.0]) == [OK, OK, WARN, WARN, CRIT]


def test_a_repeated_reading_does_not_reach_a_level_for_longer() -> None:
    follower = Follower(level(enter=3.0))
    assert [follower.take(20.0, now, measured_at=0.0) for now in (0.0, 3.0, 9.0)] == [OK, OK, OK]
    assert follower.take(20.0, 10.0) == WARN


def test_a_raised_severity_is_kept_for_its_time_since_it_was_raised() -> None:
    rule = level(hold=5.0)
    assert held(rule, [20.0, 20.0, 0.0, 0.0, 0.0, 0.0, 0.0]) == [WARN] * 5 + [OK, OK]
    assert held(rule, [20.0, 20.0, 40.0, 0.0, 0.0, 0.0, 0.0, 0.0]) == [WARN] * 2 + [CRIT] * 5 + [OK]
    assert held(rule, [20.0, 20.0, None, None, None, None]) == [WARN] * 5 + [UNKNOWN], "without its inputs, too"
    assert held(rule, [0.0, None, None]) == [OK, UNKNOWN, UNKNOWN], "ok is not kept"
    assert held(level(enter=2.0, hold=5.0), [20.0, None]) == [OK, UNKNOWN], "nor while a level is reached"


def test_a_severity_is_left_after_it_was_not_reached_for_a_time() -> None:
    rule = level(release=3.0)
    assert held(rule, [20.0, 0.0, 0.0, 0.0, 0.0]) == [WARN] * 4 + [OK]
    assert held(rule, [20.0, 0.0, 0.0, 20.0, 0.0, 0.0, 0.0, 0.0]) == [WARN] * 7 + [OK], "the time starts again"
    assert held(rule, [40.0, 20.0, 0.0, 0.0, 0.0]) == [CRIT] * 4 + [OK], "one time for all that are milder"
    assert held(level(hold=5.0, release=2.0), [20.0, 0.0, 0.0, 0.0, 0.0, 0.0]) == [WARN] * 5 + [OK]
    assert held(level(hold=2.0, release=4.0), [20.0, 0.0, 0.0, 0.0, 0.0, 0.0]) == [WARN] * 5 + [OK]


def test_a_margin_keeps_a_severity_that_is_held_and_raises_none() -> None:
    assert held(level(clear=3.0), [18.0, 20.0, 18.0, 17.0, 16.9, 18.0]) == [INFO, WARN, WARN, WARN, INFO, INFO]
    rule = Rule("temperature_celsius", {"warn": 20}, clear_share=0.5)
    assert held(rule, [15.0, 20.0, 10.0, 9.9, 15.0]) == [OK, WARN, WARN, OK, OK]


@pytest.mark.parametrize(("celsius", "severity"), [(0.0, UNKNOWN), (10.0, INFO), (20.0, WARN)])
def test_a_held_severity_without_inputs_is_not_covered(celsius: float, severity: int) -> None:
    follower = Follower(level(hold=5.0))
    follower.take(celsius, 0.0)
    assert (follower.take(None, 1.0), follower.state.is_covered) == (severity, False)


@pytest.mark.parametrize(
    ("before", "celsius", "state", "expected"),
    [
        ((0.0, 0.0), 0.0, None, OK),
        ((0.0, 0.0), 10.0, None, UNKNOWN),
        ((10.0, 0.0), 0.0, None, UNKNOWN),
        ((10.0, 0.0), 10.0, 8.0, OK),
        ((10.0, 8.0), 10.0, 0.0, INFO),
    ],
)
def test_a_condition_matters_while_a_level_is_reached_or_held(
    before: tuple[float, float], celsius: float, state: float | None, expected: int
) -> None:
    follower = Follower(Rule("temperature_celsius", {"info": 10}, when=(When("performance_state", eq, 0),)))
    follower.take(before[0], 0.0, performance_state=before[1])
    others = {} if state is None else {"performance_state": state}
    assert follower.take(celsius, 1.0, **others) == expected


def test_by_default_a_rule_has_no_times_and_no_margin() -> None:
    rule = Rule("temperature_celsius", {"warn": 20})
    assert (rule.enter, rule.hold, rule.release, rule.clear, rule.clear_share, rule.below) == (*[0.0] * 5, False)
    assert rule.inputs == rule.uses == ("temperature_celsius",)
    assert not rule.counts_events
