"""How much time a sample covers, and whether its inputs are fresh."""

from __future__ import annotations

import pytest

from pulsed.compute.plausibility_rules import PlausibilitySettings
from pulsed.compute.sample import (
    FIRST,
    GAP_INTERVALS,
    NEVER,
    REPEAT,
    VITAL,
    Freshness,
    InputState,
    Moment,
    SampleClock,
    SampleDecision,
    fractional,
    has_passed,
)
from pulsed.model.clocks import GpuSeconds, Monotonic
from pulsed.model.vocabulary import NOTHING, Reading, Value
from tests.compute.streams import sample


def advanced(clock: SampleClock, at: float, time: float, interval: float = 10.0) -> SampleDecision:
    return clock.advance(sample(at, Reading(), interval=interval, time=time))


def begun(at: float = 1000.0, time: float = 5000.0) -> SampleClock:
    clock = SampleClock()
    assert advanced(clock, at, time) == FIRST
    return clock


def test_before_the_first_tick_there_is_no_time() -> None:
    clock = SampleClock()
    assert (clock.now, clock.time, clock.moment.tick) == (0.0, 0.0, 0)
    assert clock.moment == NEVER == Moment(0, 0, Monotonic(0.0))
    assert SampleDecision("first", 0.0) == FIRST
    assert SampleDecision("repeat", 0.0) == REPEAT


LIMIT = GAP_INTERVALS * 10.0


@pytest.mark.parametrize(
    ("later", "decision"),
    [
        (0.001, SampleDecision("next", 0.001, 0.001)),
        (10.0, SampleDecision("next", 10.0, 10.0)),
        (LIMIT, SampleDecision("next", LIMIT, LIMIT)),
        (LIMIT + 1.0, SampleDecision("gap", LIMIT + 1.0)),
        (0.0, REPEAT),
        (-0.5, REPEAT),
        (-LIMIT, REPEAT),
        (-LIMIT - 1.0, SampleDecision("restart", 50.0)),
    ],
)
def test_a_tick_follows_repeats_or_comes_late(later: float, decision: SampleDecision) -> None:
    clock = begun()
    found = advanced(clock, 1000.0 + later, 5050.0)
    assert found.kind == decision.kind
    assert found[1:] == pytest.approx(decision[1:])
    is_counted = decision.kind != "repeat"
    assert clock.moment.tick == 1 + is_counted
    assert clock.now - 1000.0 == pytest.approx(decision.elapsed)
    assert clock.time == (5050.0 if is_counted else 5000.0)
    assert clock.moment.clock_restarts == (decision.kind == "restart")


def test_a_repeated_tick_does_not_move_the_time_of_the_next() -> None:
    clock = begun()
    assert advanced(clock, 1000.0, 5000.0) == REPEAT
    assert advanced(clock, 995.0, 4995.0) == REPEAT
    assert advanced(clock, 1010.0, 5010.0) == SampleDecision("next", 10.0, 10.0)


def test_after_a_restart_of_the_clock_the_wall_clock_counts_and_never_backwards() -> None:
    clock = begun()
    assert advanced(clock, 3.0, 4000.0) == SampleDecision("restart", 0.0)
    assert advanced(clock, 13.0, 4010.0) == SampleDecision("next", 10.0, 10.0)
    assert clock.now == 1010.0


def test_a_gap_without_an_interval_is_one_of_more_intervals_than_the_limit() -> None:
    clock = begun()
    assert advanced(clock, 1001.0, 5001.0, interval=0.0) == SampleDecision("gap", 1.0)


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
            assert found == SampleDecision("gap", later)
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
        (SampleDecision("gap", 50.0), 50.0),
        (SampleDecision("gap", 50.5), 0.0),
        (SampleDecision("restart", 10.0), 0.0),
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
    assert has_passed(60.0, GpuSeconds(10.0), GpuSeconds(now)) is expected


def test_time_has_passed_at_the_tolerance_itself() -> None:
    assert has_passed(1e-6, GpuSeconds(5.0), GpuSeconds(5.0))
    assert not has_passed(1e-6, GpuSeconds(5.0), GpuSeconds(5.0 - 1e-9))


SETTINGS = PlausibilitySettings(frozen_samples=4, frozen_seconds=20.0)

WARM = Reading(temperature_celsius=40.0)
BLANK = Reading(row_remap_pending=0.0)

Sample = tuple[float, Reading]


def followed(*samples: Sample, interval: float = 1.0, settings: PlausibilitySettings = SETTINGS) -> list[Freshness]:
    """Return what is known after each sample: its time, and the reading."""
    found = []
    for number in range(len(samples)):
        freshness = Freshness()
        for now, reading in samples[: number + 1]:
            freshness.update(reading, GpuSeconds(now), interval, settings)
        found.append(freshness)
    return found


def states(*samples: Sample, settings: PlausibilitySettings = SETTINGS) -> list[InputState]:
    return [each.state for each in followed(*samples, settings=settings)]


def test_before_the_first_sample_nothing_is_known() -> None:
    new = Freshness()
    assert (new.state, new.age, new.refresh, new.is_fresh) == ("blank", None, None, False)
    assert not new.is_answered
    assert not new.is_same_measurement


@pytest.mark.parametrize("name", VITAL)
def test_any_vital_value_is_an_answer(name: str) -> None:
    assert states((0.0, Reading(**{name: 0.0}))) == ["present"]


@pytest.mark.parametrize(
    "name", ["memory_temperature_celsius", "temperature_margin_celsius", "pcie_receive_bytes_per_second"]
)
def test_a_gpu_with_any_measured_value_answers(name: str) -> None:
    assert states((0.0, WARM), (1.0, Reading(**{name: 0.0})), (2.0, Reading(power_limit_watts=700.0))) == [
        *("present", "unmeasured", "blank"),
    ]


def test_a_sample_is_present_repeated_unmeasured_or_blank() -> None:
    warmer, held = Reading(temperature_celsius=41.0), Reading(memory_used_bytes=4e10)
    readings = [WARM, WARM, warmer, BLANK, NOTHING, held, held, warmer, WARM]
    found = followed(*[(float(number), reading) for number, reading in enumerate(readings)])
    assert [each.state for each in found] == [
        *("present", "repeated", "present", "blank", "blank", "unmeasured", "unmeasured", "repeated", "present"),
    ]
    assert [each.is_answered for each in found] == [True, True, True, False, False, True, True, True, True]


def test_the_memory_in_use_does_not_keep_inputs_fresh() -> None:
    held = Reading(memory_used_bytes=4e10)
    found = followed((0.0, WARM), (10.0, held), (10.1, held), (11.0, WARM))
    assert [(each.age, each.is_fresh) for each in found] == [
        (0.0, True),
        (10.0, True),
        (pytest.approx(10.1), False),
        (0.0, True),
    ]


def test_settings_and_limits_alone_are_blank_from_the_start() -> None:
    found = followed((0.0, NOTHING), (1.0, BLANK), (2.0, BLANK), (3.0, WARM))
    assert [(each.state, each.age, each.is_fresh) for each in found] == [
        *[("blank", None, False)] * 3,
        ("present", 0.0, True),
    ]


def test_the_refresh_is_the_longer_one_of_two_periods_between_samples_that_differ() -> None:
    """When the values of the first sample began is not known."""
    readings = [40.0, 40.0, 41.0, 41.0, 41.0, 45.0, 46.0, 47.0]
    samples = [(10.0 + 2 * number, Reading(temperature_celsius=value)) for number, value in enumerate(readings)]
    found = followed(*samples)
    assert [each.refresh for each in found] == [None, None, None, None, None, 6.0, 6.0, 2.0]
    assert [each.has_moved for each in found] == [False, False, True, False, False, True, True, True]


@pytest.mark.parametrize(("interval", "fresh_until"), [(1.0, 10.0), (3.0, 10.0), (4.0, 12.0), (15.0, 45.0)])
def test_blank_inputs_are_fresh_for_ten_seconds_or_three_intervals(interval: float, fresh_until: float) -> None:
    for late, is_fresh in ((0.0, True), (0.01, False)):
        *_, last = followed((100.0, WARM), (105.0, BLANK), (100.0 + fresh_until + late, BLANK), interval=interval)
        assert last.age == pytest.approx(fresh_until + late)
        assert last.is_fresh is is_fresh


def energies(*values: Value, watts: float = 300.0) -> list[Sample]:
    """Return a sample per 10 s of a GPU with this energy counter."""
    return [
        (1000.0 + 10.0 * number, Reading(energy_joules_total=value, power_watts=watts))
        for number, value in enumerate(values)
    ]


def test_an_energy_counter_that_grows_proves_when_a_sample_was_measured() -> None:
    found = followed(*energies(5.0, 5.0, 5.0, 6.0, 6.0, 7.0))
    assert [each.is_same_measurement for each in found] == [False, False, False, False, True, False]
    falling = followed(*energies(5.0, 4.0, 4.0, None, 4.0, 4.0))
    assert not any(each.is_same_measurement for each in falling)
    stale = followed(*energies(5.0, 6.0, *[6.0] * 4))[-1]
    assert (stale.state, stale.is_same_measurement) == ("stale", True)


@pytest.mark.parametrize(
    ("energy", "watts", "others", "is_stale"),
    [
        (5.0, 100.0, {}, True),
        (5.0, 99.5, {}, False),
        (5.0, 99.0, {"gpu_utilization_ratio": 0.1}, True),
        (5.0, 99.0, {"sm_active_ratio": 0.1}, True),
        (5.0, 99.0, {"sm_active_ratio": 0.0}, False),
        (0.0, 300.0, {}, False),
        (5.0, 0.0, {"sm_active_ratio": 0.1}, False),
        (None, 300.5, {"sm_active_ratio": 0.1, "dram_active_ratio": 0.2, "tensor_active_ratio": 0.3}, True),
        (None, 300.0, {"sm_active_ratio": 0.1, "dram_active_ratio": 0.2, "tensor_active_ratio": 0.3}, False),
        (None, 300.5, {"sm_active_ratio": 0.1, "dram_active_ratio": 0.2, "tensor_active_ratio": 1.0}, False),
        (5.0, None, {"sm_active_ratio": 0.1, "dram_active_ratio": 0.2, "tensor_active_ratio": 0.3}, True),
    ],
)
def test_values_that_cannot_stay_equal_are_stale(
    energy: Value, watts: Value, others: dict[str, float], is_stale: bool
) -> None:
    reading = Reading(energy_joules_total=energy, power_watts=watts, temperature_celsius=50.0, **others)
    found = states(*[(20.0 / 3.0 * number, reading) for number in range(6)])
    assert found[:3] == ["present", "repeated", "repeated"]
    assert found[3:] == (["stale"] * 3 if is_stale else ["repeated"] * 3)


def test_an_idle_gpu_whose_energy_moved_once_cannot_stand_still() -> None:
    assert states(*energies(5.0, *[6.0] * 4, watts=50.0))[-1] == "stale"
    assert states(*energies(7.0, *[6.0] * 4, watts=50.0))[-1] == "stale", "a reset"
    assert states(*energies(*[6.0] * 5, watts=50.0))[-1] == "repeated"


def test_energy_that_moved_while_a_sample_lacked_it_has_moved() -> None:
    assert states(*energies(5.0, None, *[6.0] * 4, watts=50.0))[-1] == "stale"
    assert states(*energies(6.0, None, *[6.0] * 4, watts=50.0))[-1] == "repeated"


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((0.0, 6.0, 12.0, 18.0), "repeated"),
        ((0.0, 6.0, 12.0, 20.0), "stale"),
        ((0.0, 20.0), "stale"),
        ((0.0, 1.0, 2.0, 3.0, 19.9), "repeated"),
        ((0.0, 1.0, 2.0, 3.0, 20.0), "stale"),
    ],
)
def test_a_standing_energy_counter_is_stale_after_enough_time(times: tuple[float, ...], expected: str) -> None:
    reading = Reading(energy_joules_total=5.0, power_watts=300.0)
    assert states(*[(100.0 + now, reading) for now in times])[-1] == expected
    off = PlausibilitySettings(enabled=False, frozen_samples=4, frozen_seconds=20.0)
    assert states(*[(100.0 + now, reading) for now in times], settings=off)[-1] == "repeated"


def test_stale_values_age_from_when_they_were_first_seen_until_others_come() -> None:
    reading = Reading(energy_joules_total=5.0, power_watts=300.0)
    samples = [(100.0 + 10.0 * number, reading) for number in range(5)]
    found = followed(*samples, (150.0, BLANK), (160.0, reading), (170.0, WARM))
    assert [each.state for each in found] == [
        *("present", "repeated", "stale", "stale", "stale", "blank", "stale", "present")
    ]
    assert [each.age for each in found] == [0.0, 0.0, 20.0, 30.0, 40.0, 50.0, 60.0, 0.0]
    assert [each.is_fresh for each in found] == [True] * 2 + [False] * 5 + [True]


def test_repeated_values_that_blank_ones_follow_are_fresh_no_longer_than_without() -> None:
    reading = Reading(energy_joules_total=5.0, power_watts=300.0)
    found = followed((100.0, reading), (119.0, reading), (119.9, BLANK), (120.0, BLANK))
    assert [(each.state, each.age, each.is_fresh) for each in found[2:]] == [
        ("blank", pytest.approx(0.9), True),
        ("blank", 20.0, False),
    ]
    *_, new = followed((100.0, reading), (125.0, BLANK), interval=15.0)
    assert (new.age, new.is_fresh) == (25.0, True), "only repeated values can be old when they are read"


@pytest.mark.parametrize(
    ("times", "expected"),
    [((0.0, 6.0, 12.0, 20.0), "stale"), ((0.0, 6.0, 20.0), "repeated"), ((0.0, 1.0, 2.0, 3.0, 19.9), "repeated")],
)
def test_values_without_an_energy_counter_are_stale_after_enough_samples_and_time(
    times: tuple[float, ...], expected: str
) -> None:
    activity = {"sm_active_ratio": 0.31, "tensor_active_ratio": 0.12, "dram_active_ratio": 0.45}
    reading = Reading(power_watts=300.5, graphics_engine_active_ratio=0.9, **activity)
    assert states(*[(100.0 + now, reading) for now in times])[-1] == expected


def test_values_between_0_and_1_are_fractional() -> None:
    assert fractional(Reading(sm_active_ratio=0.5, dram_active_ratio=0.0, tensor_active_ratio=1.0)) == 1
    assert fractional(Reading(sm_active_ratio=0.5, dram_active_ratio=0.001, gpu_utilization_ratio=0.5)) == 2
