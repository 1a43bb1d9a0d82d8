from __future__ import annotations

from pulsed.model.health import NOT_EVALUATED, SEVERITY, STATES, CheckState


def test_severities_follow_the_order_of_the_states() -> None:
    assert SEVERITY == {"unknown": -1, "ok": 0, "info": 1, "warn": 2, "hot": 3, "crit": 4}
    assert tuple(SEVERITY) == STATES


def test_a_check_that_was_not_evaluated_applies_and_is_not_covered() -> None:
    check = CheckState("temp_gpu", "unknown")
    assert (check.since, check.last_event, check.covered, check.applies) == (None, None, False, True)


def test_before_the_first_sample_nothing_is_known() -> None:
    assert (NOT_EVALUATED.state, NOT_EVALUATED.severity, NOT_EVALUATED.coverage) == ("unknown", -1, 0.0)
