"""How much time a sample covers, by its clock and the samples before it."""

from __future__ import annotations

import pytest

from pulsed.compute.sample import FIRST, GAP_INTERVALS, NEVER, REPEAT, Moment, SampleClock, SampleDecision, has_passed
from pulsed.model.vocabulary import Reading
from tests.compute.streams import sample


def advanced(clock: SampleClock, at: float, time: float, interval: float = 10.0) -> SampleDecision:
    return clock.advance(sample(at, Reading(), interval=interval, time=time))


def begun(at: float = 1000.0, time: float = 5000.0) -> SampleClock:
    clock = SampleClock()
    assert advanced(clock, at, time) == FIRST
    return clock


def test_before_the_first_tick_there_is_no_time() -> None:
    clock = SampleClock()
    assert (clock.now, clock.time, clock.ticks) == (0.0, 0.0, 0)
    assert clock.moment == NEVER == Moment(0, 0, 0.0)
    assert SampleDecision("first", 0.0, 0.0, 0.0) == FIRST
    assert SampleDecision("repeat", 0.0, 0.0, 0.0) == REPEAT


LIMIT = GAP_INTERVALS * 10.0


@pytest.mark.parametrize(
    ("later", "decision"),
    [
        (0.001, SampleDecision("next", 0.001, 0.001)),
        (10.0, SampleDecision("next", 10.0, 10.0)),
        (LIMIT, SampleDecision("next", LIMIT, LIMIT)),
        (LIMIT + 1.0, SampleDecision("gap", LIMIT + 1.0, 0.0, GAP_INTERVALS + 0.1)),
        (0.0, REPEAT),
        (-0.5, REPEAT),
        (-LIMIT, REPEAT),
        (-LIMIT - 1.0, SampleDecision("restart", 50.0, 0.0, 5.0)),
    ],
)
def test_a_tick_follows_repeats_or_comes_late(later: float, decision: SampleDecision) -> None:
    clock = begun()
    found = advanced(clock, 1000.0 + later, 5050.0)
    assert found.kind == decision.kind
    assert found[1:] == pytest.approx(decision[1:])
    is_counted = decision.kind != "repeat"
    assert clock.ticks == 1 + is_counted
    assert clock.now == pytest.approx(decision.elapsed)
    assert clock.time == (5050.0 if is_counted else 5000.0)
    assert clock.moment.clock_restarts == (decision.kind == "restart")


def test_a_repeated_tick_does_not_move_the_time_of_the_next() -> None:
    clock = begun()
    assert advanced(clock, 1000.0, 5000.0) == REPEAT
    assert advanced(clock, 995.0, 4995.0) == REPEAT
    assert advanced(clock, 1010.0, 5010.0) == SampleDecision("next", 10.0, 10.0)


def test_after_a_restart_of_the_clock_the_wall_clock_counts_and_never_backwards() -> None:
    clock = begun()
    assert advanced(clock, 3.0, 4000.0) == SampleDecision("restart", 0.0, 0.0, 0.0)
    assert advanced(clock, 13.0, 4010.0) == SampleDecision("next", 10.0, 10.0)
    assert clock.now == 10.0


def test_a_gap_without_an_interval_is_one_of_more_intervals_than_the_limit() -> None:
    clock = begun()
    assert advanced(clock, 1001.0, 5001.0, interval=0.0) == SampleDecision("gap", 1.0, 0.0, GAP_INTERVALS + 1.0)


def test_a_sample_of_a_gpu_that_was_absent_covers_the_time_if_it_is_short() -> None:
    clock = begun()
    before = clock.moment
    assert clock.decide_since(NEVER, 10.0) == FIRST
    for later in (10.0, LIMIT, LIMIT + 10.0):
        advanced(clock, 1000.0 + later, 5000.0 + later)
        found = clock.decide_since(before, 10.0)
        if later <= LIMIT:
            assert found == SampleDecision("next", later, later)
        else:
            assert found[:3] == ("gap", later, 0.0)
            assert found.gap_intervals == pytest.approx(later / 10.0)
    advanced(clock, 3.0, 5100.0)
    assert clock.decide_since(before, 10.0).kind == "restart"
    assert clock.decide_since(clock.moment, 10.0) == SampleDecision("next", 0.0, 0.0)


@pytest.mark.parametrize(
    ("kind", "is_interrupted"),
    [("first", False), ("next", False), ("gap", True), ("restart", True), ("repeat", False)],
)
def test_time_that_no_sample_covers_is_an_interruption(kind: str, is_interrupted: bool) -> None:
    assert SampleDecision(kind).is_interrupted is is_interrupted  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("decision", "seconds"),
    [
        (SampleDecision("gap", 50.0, 0.0, 5.0), 50.0),
        (SampleDecision("gap", 50.5, 0.0, 5.0), 0.0),
        (SampleDecision("restart", 10.0, 0.0, 1.0), 0.0),
        (SampleDecision("next", 90.0, 90.0), 90.0),
        (FIRST, 0.0),
    ],
)
def test_a_short_gap_does_not_separate_two_samples(decision: SampleDecision, seconds: float) -> None:
    assert decision.continued(50.0) == seconds


@pytest.mark.parametrize(
    ("now", "expected"), [(69.999998, False), (69.9999991, True), (70.0, True), (70.5, True), (-70.0, False)]
)
def test_time_has_passed_within_a_microsecond(now: float, expected: bool) -> None:
    assert has_passed(60.0, 10.0, now) is expected


def test_time_has_passed_at_the_tolerance_itself() -> None:
    assert has_passed(1e-6, 5.0, 5.0)
    assert not has_passed(1e-6, 5.0, 5.0 - 1e-9)
