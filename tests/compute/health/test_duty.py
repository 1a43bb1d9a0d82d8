"""Counters of the seconds with reduced clocks."""

from __future__ import annotations

import pytest

from pulsed.compute.health.device_counters import DutyCounter
from pulsed.compute.health.inputs import GpuInputs
from pulsed.compute.health.rule import RuleState
from pulsed.compute.health.rule_kinds import Duty
from tests.compute.health.sim import give


def follow(counter: DutyCounter, *samples: tuple[float, float | None], window: float = 10.0) -> list[float | None]:
    shares = []
    for now, value in samples:
        counter.update(value, now, window)
        shares.append(counter.share)
    return shares


def test_the_share_is_the_growth_within_the_window() -> None:
    assert follow(DutyCounter(), (0, 5.0), (5, 6.0), (10, 8.0), (15, 8.0), (20, 8.0)) == [None, None, 0.3, 0.2, 0.0]


def test_a_young_counter_is_measured_against_the_whole_window() -> None:
    assert follow(DutyCounter(), (0, 0.0), (1, 1.0), (2, 2.0))[-1] == 0.2


def test_rare_samples_extend_the_window() -> None:
    assert follow(DutyCounter(), (0, 0.0), (30, 0.0), (60, 15.0), (90, 15.0))[2:] == [0.25, 0.25]


@pytest.mark.parametrize("value", [None, 1.0])
def test_a_missing_or_lower_value_restarts_it(value: float | None) -> None:
    counter = DutyCounter()
    shares = follow(counter, (0, 5.0), (1, 5.0), (2, 5.0), (3, value), (4, 5.0), (5, 5.0))
    assert shares[2:5] == [0.0, None, None]
    assert len(counter.points) == (2 if value is None else 3)


@pytest.mark.parametrize(("growth", "is_proven"), [(0.0, False), (2e-3, False), (2.1e-3, True), (0.5, True)])
def test_growth_beyond_microseconds_proves_the_unit(growth: float, is_proven: bool) -> None:
    counter = DutyCounter()
    start = 1e5
    follow(counter, (start, 0.0), (start + 1, growth), (start + 1, growth + 1.0))  # the last one covers no time
    assert counter.is_proven is is_proven


def measures(rule: Duty, *samples: tuple[float | None, float | None]) -> list[float | None]:
    """Return the measure after each sample, one per 10 s: of the first counter, and the mask of reasons."""
    state, inputs, found = RuleState(), GpuInputs(), []
    for number, (value, mask) in enumerate(samples):
        give(inputs, **dict.fromkeys(rule.inputs[:1], value), clocks_event_reasons=mask)
        inputs.clock_events.update(mask, False, 10.0, number * 10.0)
        found.append(rule.measure(state, inputs, number * 10.0))
    return found


COUNTER = "hardware_thermal_slowdown_seconds_total"


def test_a_counter_comes_before_the_mask_of_reasons() -> None:
    rule = Duty("share", {"hot": 0.05}, "heat", (COUNTER,), bits=0x40, window=20.0)
    assert measures(rule, *[(5.0, 64.0)] * 4) == [None, None, 0.0, 0.0]
    assert measures(rule, *[(None, 64.0)] * 4) == [None, None, 1.0, 1.0]
    assert measures(rule, (0.0, 0.0), (10.0, 0.0), (20.0, 0.0), (35.0, 0.0)) == [None, None, 1.0, 1.0], "no more than 1"


def test_a_counter_that_was_absent_starts_again() -> None:
    rule = Duty("share", {"hot": 0.05}, "heat", (COUNTER,), window=20.0)
    assert measures(
        rule, *[(float(k), 64.0) for k in range(3)], (None, 64.0), (9.0, 64.0), (9.0, 64.0), (9.0, 0.0)
    ) == [*(None, None, 0.1, None, None, None, 0.0)]


@pytest.mark.parametrize("bits", [0, 0x40])
def test_the_mask_counts_only_for_rules_with_bits_and_while_it_is_there(bits: int) -> None:
    rule = Duty("share", {"hot": 0.05}, "heat", (), bits=bits, window=20.0)
    share = 1.0 if bits else None
    assert measures(rule, *[(None, 64.0)] * 4, (None, None)) == [None, None, share, share, None]


def test_the_largest_share_of_several_counters_counts() -> None:
    inputs = (COUNTER, "power_brake_slowdown_seconds_total")
    rule = Duty("share", {"hot": 0.05}, "heat", inputs, window=20.0)
    state, facts = RuleState(), GpuInputs()
    for now in (0.0, 10.0, 20.0):
        give(facts, hardware_thermal_slowdown_seconds_total=now / 4, power_brake_slowdown_seconds_total=now / 2)
        found = rule.measure(state, facts, now)
    assert found == 0.5


def test_times_of_rules_about_duty() -> None:
    rule = Duty("share", {"hot": 0.05}, "heat")
    assert (rule.window, rule.enter, rule.hold, rule.release, rule.clear_share) == (60.0, 60.0, 300.0, 60.0, 0.5)
    assert (rule.bits, rule.uncertain, rule.below, rule.counts_events) == (0, False, False, False)


def test_an_evaluation_reports_every_change_of_the_state() -> None:
    rule = Duty("share", {"hot": 0.05}, "heat", ("thermal_violation_seconds_total",), uncertain=True)
    state, inputs = RuleState(), GpuInputs()
    for number, value in enumerate([5.0] * 10 + [5.0 + 1e-3 * step for step in range(20)]):
        give(inputs, thermal_violation_seconds_total=value)
        inputs.measured_at = number * 10.0
        before = (state.severity, state.is_covered)
        is_changed = rule.evaluate(state, inputs, number * 10.0)
        assert is_changed or (state.severity, state.is_covered) == before, number
    assert state.severity == 1
