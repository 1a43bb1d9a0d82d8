"""Counters of the seconds with reduced clocks."""

from __future__ import annotations

import pytest

from pulsed.compute.health.duty import Duty, DutyCounter
from pulsed.compute.health.inputs import GpuInputs
from pulsed.compute.health.rule import RuleState
from pulsed.compute.health.settings import HealthSettings
from pulsed.translate.vocabulary import NOTHING, Reading


def follow(counter: DutyCounter, *samples: tuple[float, float | None], window: float = 10.0) -> list[float]:
    shares = []
    for now, value in samples:
        counter.update(value, now, window)
        shares.append(counter.share)
    return shares


def test_the_share_is_the_growth_within_the_window() -> None:
    assert follow(DutyCounter(), (0, 5.0), (5, 6.0), (10, 8.0), (15, 8.0), (20, 8.0)) == [-1, -1, 0.3, 0.2, 0.0]


def test_a_young_counter_is_measured_against_the_whole_window() -> None:
    assert follow(DutyCounter(), (0, 0.0), (1, 1.0), (2, 2.0))[-1] == 0.2


def test_rare_samples_extend_the_window() -> None:
    assert follow(DutyCounter(), (0, 0.0), (30, 0.0), (60, 15.0), (90, 15.0))[2:] == [0.25, 0.25]


@pytest.mark.parametrize("value", [None, 1.0])
def test_a_missing_or_lower_value_restarts_it(value: float | None) -> None:
    counter = DutyCounter()
    shares = follow(counter, (0, 5.0), (1, 5.0), (2, 5.0), (3, value), (4, 5.0), (5, 5.0))
    assert shares[2:5] == [0.0, -1.0, -1.0]
    assert len(counter.points) == (2 if value is None else 3)


@pytest.mark.parametrize(("growth", "is_proven"), [(0.0, False), (2e-3, False), (2.1e-3, True), (0.5, True)])
def test_growth_beyond_microseconds_proves_the_unit(growth: float, is_proven: bool) -> None:
    counter = DutyCounter()
    follow(counter, (0, 0.0), (1, growth), (1, growth + 1.0))  # the last one covers no time
    assert counter.is_proven is is_proven


def test_an_evaluation_reports_every_change_of_the_state() -> None:
    rule = Duty("share", {"hot": 0.05}, "heat", ("thermal_violation_seconds_total",), uncertain=True)
    state, inputs = RuleState(), GpuInputs(HealthSettings(), "", lambda check: -1)
    for number, value in enumerate([5.0] * 10 + [5.0 + 1e-3 * step for step in range(20)]):
        inputs.values = (*Reading(thermal_violation_seconds_total=value), *inputs.values[len(NOTHING) :])
        inputs.measured_at = number * 10.0
        before = (state.held, state.is_covered)
        is_changed = rule.evaluate(state, inputs, number * 10.0)
        assert is_changed or (state.held, state.is_covered) == before, number
    assert state.held == 1
