from __future__ import annotations

import pytest

from pulsed.compute.health.model import NOT_EVALUATED, SEVERITY, STATES, CheckState, has_passed


def test_severities_follow_the_order_of_the_states() -> None:
    assert SEVERITY == {"unknown": -1, "ok": 0, "info": 1, "warn": 2, "hot": 3, "crit": 4}
    assert tuple(SEVERITY) == STATES


@pytest.mark.parametrize(
    ("now", "expected"), [(69.999998, False), (69.9999991, True), (70.0, True), (70.5, True), (-70.0, False)]
)
def test_time_has_passed_within_a_microsecond(now: float, expected: bool) -> None:
    assert has_passed(60.0, 10.0, now) is expected


def test_time_has_passed_at_the_tolerance_itself() -> None:
    assert has_passed(1e-6, 5.0, 5.0)
    assert not has_passed(1e-6, 5.0, 5.0 - 1e-9)


def test_a_check_that_was_not_evaluated_applies_and_is_not_covered() -> None:
    check = CheckState("temp_gpu", "unknown")
    assert (check.since, check.last_event, check.covered, check.applies) == (None, None, False, True)


def test_before_the_first_sample_nothing_is_known() -> None:
    assert (NOT_EVALUATED.state, NOT_EVALUATED.severity, NOT_EVALUATED.coverage) == ("unknown", -1, 0.0)
