from __future__ import annotations

import random
from fractions import Fraction
from math import fsum, inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.compute.accumulator import Accumulator
from pulsed.compute.plausibility_rules import MAX_WATTS
from pulsed.compute.settings import ComputeSettings, IdleSettings, RealUtilizationSettings
from pulsed.model.clocks import Unix
from pulsed.model.counters import COUNTER_POSITION, COUNTERS, IDLE_KINDS, NOTHING_COUNTED, CounterSnapshot
from pulsed.model.owner import Owner, Owners, pod
from pulsed.model.result import Workload
from pulsed.model.vocabulary import NOTHING, WORKLOAD_CLASSES, Reading
from tests.compute.readings import many

GIB = 2.0**30
HELD_BYTES = 0.25 * GIB
WORK = {name: Workload(name, "") for name in WORKLOAD_CLASSES}


def settings(bounds: tuple[float, ...] = ()) -> ComputeSettings:
    return ComputeSettings(
        real_utilization=RealUtilizationSettings(histogram=bounds), idle=IdleSettings(held_memory=int(HELD_BYTES))
    )


PLAIN = settings()


def ledger() -> Accumulator:
    return Accumulator(Unix(1000.0))


def begun(reading: Reading = NOTHING, workload_class: str = "idle") -> Accumulator:
    made = ledger()
    made.start(PLAIN, None, reading, None, WORK[workload_class])
    return made


def by_state(account: CounterSnapshot, name: str) -> dict[str, float]:
    """The states of a counter that are not 0."""
    states = next(counter.states for counter in COUNTERS if counter.name == name)
    return {state: value for state in states if (value := account.value(name, state))}


def total(account: CounterSnapshot, name: str, states: tuple[str, ...] = WORKLOAD_CLASSES) -> float:
    return fsum(account.value(name, state) or 0.0 for state in states)


def test_every_counter_has_its_place() -> None:
    assert len(COUNTER_POSITION) == sum(len(counter.states) for counter in COUNTERS)
    assert len(ledger().snapshot().values) == len(COUNTER_POSITION) == len(NOTHING_COUNTED.values)
    assert set(NOTHING_COUNTED.values) == {None}


def test_at_first_all_is_zero_and_what_was_never_known_is_absent() -> None:
    account = begun(Reading(sm_active_ratio=0.5, power_watts=100.0)).snapshot()
    assert account.created == 1000.0
    assert account.value("observed_seconds") == 0.0
    assert [account.value("workload_class_seconds", name) for name in WORKLOAD_CLASSES] == [0.0] * 13
    assert [account.value("class_energy_joules", name) for name in WORKLOAD_CLASSES] == [0.0] * 13
    assert [account.value("idle_seconds", kind) for kind in IDLE_KINDS] == [0.0] * 3
    assert account.value("sm_active_seconds") == account.value("sm_active_unknown_seconds") == 0.0
    assert account.value("tensor_active_seconds") is account.value("tensor_active_unknown_seconds") is None
    assert account.value("real_utilization_seconds") is None


@pytest.mark.parametrize(
    ("power", "energy", "joules"), [(None, 7e6, 0.0), (100.0, 7e6, 0.0), (100.0, None, 0.0), (None, None, None)]
)
def test_energy_is_known_from_the_first_sample_with_power_or_a_counter(
    power: float | None, energy: float | None, joules: float | None
) -> None:
    account = begun(Reading(power_watts=power, energy_joules_total=energy)).snapshot()
    assert account.value("class_energy_joules", "idle") == account.value("energy_unknown_seconds") == joules


def test_without_power_there_is_no_energy() -> None:
    made = begun()
    made.add(PLAIN, 1.0, None, NOTHING, None, WORK["idle"])
    account = made.snapshot()
    for name, states in (("class_energy_joules", WORKLOAD_CLASSES), ("idle_energy_joules", IDLE_KINDS)):
        assert {account.value(name, state) for state in states} == {None}
    assert account.value("energy_unknown_seconds") is None
    assert account.value("observed_seconds") == 1.0


def test_a_sample_counts_for_all_of_the_time_that_it_covers() -> None:
    made = begun(Reading(sm_active_ratio=1.0))
    made.add(
        PLAIN, 2.0, None, Reading(sm_active_ratio=0.25, pcie_receive_bytes_per_second=3e9), 0.5, WORK["compute_active"]
    )
    account = made.snapshot()
    assert account.value("observed_seconds") == 2.0
    assert by_state(account, "workload_class_seconds") == {"compute_active": 2.0}
    assert account.value("sm_active_seconds") == 0.5
    assert account.value("real_utilization_seconds") == 1.0
    assert account.value("observed_pcie_receive_bytes") == 6e9


def test_time_without_a_value_is_counted_apart_so_that_averages_stay_exact() -> None:
    made = begun()
    made.add(PLAIN, 3.0, None, NOTHING, None, WORK["unknown"])
    made.add(PLAIN, 1.0, None, NOTHING, 0.5, WORK["unknown"])
    made.add(PLAIN, 2.0, None, NOTHING, None, WORK["unknown"])
    made.add(PLAIN, 1.0, None, NOTHING, 0.7, WORK["unknown"])
    account = made.snapshot()
    assert account.value("real_utilization_seconds") == pytest.approx(1.2)
    assert account.value("real_utilization_unknown_seconds") == 5.0
    assert account.value("observed_seconds") == 7.0


def test_a_value_that_is_no_number_is_unknown() -> None:
    made = begun(Reading(sm_active_ratio=0.5))
    for wrong in (nan, inf, -0.1):
        made.add(
            PLAIN,
            1.0,
            None,
            Reading(sm_active_ratio=wrong, power_watts=wrong, energy_joules_total=wrong),
            0.5,
            WORK["idle"],
        )
    account = made.snapshot()
    assert account.value("sm_active_seconds") == 0.0
    assert account.value("sm_active_unknown_seconds") == 3.0
    assert account.value("class_energy_joules", "idle") is None


def energy(counter: float | None, watts: float | None) -> Reading:
    return Reading(energy_joules_total=counter, power_watts=watts)


@pytest.mark.parametrize(
    ("readings", "joules", "unknown"),
    [
        ([energy(100.0, 50.0), energy(170.0, 50.0), energy(200.0, 50.0)], 100.0, 0.0),
        ([energy(None, 50.0), energy(None, 60.0), energy(None, 70.0)], 130.0, 0.0),
        ([energy(5000.0, 50.0), energy(20.0, 60.0), energy(90.0, 50.0)], 130.0, 0.0),
        ([energy(100.0, 50.0), energy(1e9, 60.0), energy(1e9 + 70, 50.0)], 130.0, 0.0),
        ([energy(100.0, 50.0), energy(None, 60.0), energy(300.0, 70.0)], 130.0, 0.0),
        ([energy(100.0, None), energy(None, None), energy(300.0, None), energy(350.0, None)], 50.0, 2.0),
        ([energy(100.0, None), energy(90.0, None), energy(95.0, None)], 5.0, 1.0),
        ([energy(100.0, 50.0), energy(160.0, MAX_WATTS + 1), energy(None, MAX_WATTS + 1)], 60.0, 1.0),
    ],
    ids=["counter", "power", "reset", "jump", "counter missing", "both missing", "reset without power", "absurd power"],
)
def test_energy_is_what_the_counter_gained_else_power_times_time(
    readings: list[Reading], joules: float, unknown: float
) -> None:
    made = begun(readings[0])
    for reading in readings[1:]:
        made.add(PLAIN, 1.0, None, reading, None, WORK["idle"])
    account = made.snapshot()
    assert total(account, "class_energy_joules") == joules
    assert account.value("energy_unknown_seconds") == unknown


def test_a_page_that_repeats_the_energy_is_no_jump_afterwards() -> None:
    made = begun(energy(0.0, 1.0))
    for counter in (0.0, 0.0, 0.0, 4 * MAX_WATTS, 4 * MAX_WATTS, 6.5 * MAX_WATTS):
        made.add(PLAIN, 1.0, None, energy(counter, 1.0), None, WORK["idle"])
    # The last one is more than two seconds can bring: power times these two seconds instead.
    assert total(made.snapshot(), "class_energy_joules") == 4 * MAX_WATTS + 2.0


@pytest.mark.parametrize("value", [0.0, 5e6])
@pytest.mark.parametrize(("refresh", "seconds"), [(None, 60), (30.0, 60), (100.0, 60), (5.0, 10), (0.1, 1)])
def test_energy_that_stands_still_is_power_after_two_refresh_periods(
    value: float, refresh: float | None, seconds: int
) -> None:
    made = begun(energy(value, 300.0))
    for _ in range(seconds):
        made.add(PLAIN, 1.0, None, energy(value, 300.0), None, WORK["idle"], refresh)
    assert total(made.snapshot(), "class_energy_joules") == 0.0  # a repeated page, so far
    made.add(PLAIN, 1.0, None, energy(value, 300.0), None, WORK["idle"], refresh)
    assert total(made.snapshot(), "class_energy_joules") == 300.0 * (seconds + 1)
    made.add(PLAIN, 1.0, None, energy(value, None), None, WORK["idle"], refresh)
    assert made.snapshot().value("energy_unknown_seconds") == 1.0
    assert total(made.snapshot(), "idle_energy_joules", IDLE_KINDS) == 300.0 * (seconds + 1)


def test_energy_that_moves_again_is_not_counted_twice() -> None:
    made = begun(energy(0.0, 300.0))
    for _ in range(100):
        made.add(PLAIN, 1.0, None, energy(0.0, 300.0), None, WORK["idle"], 1.0)
    made.add(PLAIN, 1.0, None, energy(101 * 300.0, 310.0), None, WORK["compute_heavy"], 1.0)
    assert by_state(made.snapshot(), "class_energy_joules") == {"idle": 30000.0, "compute_heavy": 310.0}
    made.add(PLAIN, 1.0, None, energy(102 * 300.0, 310.0), None, WORK["compute_heavy"], 1.0)
    assert by_state(made.snapshot(), "class_energy_joules") == {"idle": 30000.0, "compute_heavy": 610.0}


def test_energy_that_stands_still_before_a_gap_is_power() -> None:
    made = begun(energy(0.0, 300.0))
    made.add(PLAIN, 1.0, None, energy(0.0, 300.0), None, WORK["idle"], 1.0)
    made.start(PLAIN, None, energy(9e5, 300.0), None, WORK["idle"])
    assert total(made.snapshot(), "class_energy_joules") == 300.0


def test_after_a_gap_the_counter_is_looked_at_anew() -> None:
    made = begun(energy(100.0, 50.0))
    made.start(PLAIN, None, energy(900.0, 50.0), None, WORK["idle"])
    made.add(PLAIN, 1.0, None, energy(960.0, 50.0), None, WORK["idle"])
    assert total(made.snapshot(), "class_energy_joules") == 60.0


USED_BY_A_POD: Owners = (pod("default", "train-0"),)
USED_BY_A_JOB: Owners = (Owner("slurm_job", "4711"),)
UNOWNED: Owners = ()


@pytest.mark.parametrize(
    ("owners", "used", "kind"),
    [
        (None, 0.0, "free"),
        (None, HELD_BYTES - 1, "free"),
        (None, HELD_BYTES, "held"),
        (None, None, "unknown"),
        (USED_BY_A_POD, 0.0, "held"),
        (USED_BY_A_POD, None, "held"),
        (USED_BY_A_JOB, 0.0, "held"),
        (UNOWNED, HELD_BYTES - 1, "free"),
        (UNOWNED, HELD_BYTES, "held"),
        (UNOWNED, None, "free"),
    ],
)
def test_idle_time_is_free_held_or_unknown(owners: Owners | None, used: float | None, kind: str) -> None:
    made = begun()
    made.add(PLAIN, 2.0, owners, Reading(memory_used_bytes=used, power_watts=75.0), 0.0, WORK["idle"])
    made.add(PLAIN, 2.0, owners, Reading(memory_used_bytes=used, power_watts=700.0), 0.9, WORK["compute_heavy"])
    account = made.snapshot()
    assert by_state(account, "idle_seconds") == {kind: 2.0}
    assert by_state(account, "idle_energy_joules") == {kind: 150.0}
    assert by_state(account, "class_energy_joules") == {"idle": 150.0, "compute_heavy": 1400.0}


def test_the_distribution_counts_samples_that_cover_something() -> None:
    made, quarters = ledger(), settings((0.25, 0.5))
    made.start(quarters, None, NOTHING, 0.9, WORK["idle"])
    for ratio in (0.0, 0.25, 0.26, 0.5, 1.0, None):
        made.add(quarters, 0.1, None, NOTHING, ratio, WORK["idle"])
    distribution = made.snapshot().distribution
    assert distribution is not None
    assert distribution.bounds == (0.25, 0.5)
    assert distribution.counts == (2, 2, 1)
    assert distribution.sum == 2.01
    assert ledger().snapshot().distribution is None


def test_other_buckets_begin_a_new_distribution() -> None:
    made, halves, tenths = ledger(), settings((0.5,)), settings((0.1, 0.2))
    made.start(halves, None, NOTHING, 0.4, WORK["idle"])
    made.add(halves, 1.0, None, NOTHING, 0.4, WORK["idle"])
    made.add(settings((0.5,)), 1.0, None, NOTHING, 0.4, WORK["idle"])
    assert made.snapshot().distribution == ((0.5,), (2, 0), 0.8)
    made.add(tenths, 0.0, None, NOTHING, 0.4, WORK["idle"])
    assert made.snapshot().distribution == ((0.1, 0.2), (0, 0, 0), 0.0)
    made.add(tenths, 1.0, None, NOTHING, 0.15, WORK["idle"])
    assert made.snapshot().distribution == ((0.1, 0.2), (0, 1, 0), 0.15)


def test_an_account_never_changes() -> None:
    made = begun(Reading(sm_active_ratio=0.5, power_watts=9.0))
    account = made.snapshot()
    kept = CounterSnapshot(*account)
    made.add(PLAIN, 1.0, None, Reading(sm_active_ratio=0.5, power_watts=9.0), 0.5, WORK["idle"])
    assert account == kept
    assert made.snapshot() != kept


something = st.one_of(st.none(), st.floats(0, 1.0), st.floats(0, 1e5))
samples = st.tuples(
    st.floats(1e-3, 50), st.builds(energy, st.none() | st.floats(0, 1e5), something), st.sampled_from(WORKLOAD_CLASSES)
)


@many
@given(st.lists(samples, max_size=30))
def test_parts_sum_up_and_nothing_ever_falls(stream: list[tuple[float, Reading, str]]) -> None:
    made = begun()
    before = made.snapshot()
    for seconds, reading, workload_class in stream:
        made.add(PLAIN, seconds, None, reading, reading.power_watts, WORK[workload_class])
        account = made.snapshot()
        for old, new in zip(before.values, account.values, strict=True):
            assert new is not None or old is None
            assert (new or 0.0) >= (old or 0.0)
        before = account
        observed = account.value("observed_seconds")
        assert sum(account.value("workload_class_seconds", name) or 0.0 for name in WORKLOAD_CLASSES) == observed
        assert total(account, "idle_seconds", IDLE_KINDS) == pytest.approx(
            account.value("workload_class_seconds", "idle"), rel=1e-12
        )
        assert total(account, "idle_energy_joules", IDLE_KINDS) == pytest.approx(
            account.value("class_energy_joules", "idle") or 0.0, rel=1e-12
        )


@pytest.mark.nightly
def test_a_million_samples_are_exact() -> None:
    rng = random.Random(4)
    levels = [
        (Reading(sm_active_ratio=rng.random(), power_watts=700 * rng.random()), rng.random()) for _ in range(1000)
    ]
    steps = [0.1 + rng.random() / 100 for _ in range(1000)]
    made = ledger()
    made.start(PLAIN, None, *levels[0], WORK["idle"])
    clock, seconds = 1e7, []
    for number in range(1_000_000):
        before, clock = clock, clock + steps[number % 1000]
        seconds.append(clock - before)
        reading, ratio = levels[number % 1000]
        made.add(PLAIN, seconds[-1], None, reading, ratio, WORK[WORKLOAD_CLASSES[number % 13]])
    account = made.snapshot()
    watts = [reading.power_watts or 0.0 for reading, _ in levels]
    exact = {
        account.value("observed_seconds"): Fraction(clock) - Fraction(1e7),
        account.value("real_utilization_seconds"): _integral(seconds, [ratio for _, ratio in levels]),
        account.value("sm_active_seconds"): _integral(
            seconds, [reading.sm_active_ratio or 0.0 for reading, _ in levels]
        ),
        total(account, "class_energy_joules"): _integral(seconds, watts),
    }
    for found, expected in exact.items():
        assert found is not None
        assert abs(Fraction(found) / expected - 1) < 1e-9


def _integral(seconds: list[float], values: list[float]) -> Fraction:
    """Sum up value times time; fsum is exact but for its last rounding."""
    shares = [fsum(seconds[at :: len(values)]) for at in range(len(values))]
    return sum((Fraction(value) * Fraction(share) for value, share in zip(values, shares, strict=True)), Fraction(0))


@pytest.mark.parametrize(
    ("gain", "watts", "seconds", "joules"),
    [
        (0.25, 300.0, 1.0, 0.25),
        (MAX_WATTS * 2.0, 300.0, 2.0, MAX_WATTS * 2.0),
        (MAX_WATTS * 2.0 + 1.0, 300.0, 2.0, 600.0),
        (-1.0, 300.0, 2.0, 600.0),
        (-1.0, 0.0, 2.0, 0.0),
        (-1.0, MAX_WATTS, 2.0, MAX_WATTS * 2.0),
        (-1.0, MAX_WATTS + 1.0, 2.0, 0.0),
    ],
)
def test_a_gain_of_the_counter_counts_up_to_what_a_gpu_can_draw_else_power(
    gain: float, watts: float, seconds: float, joules: float
) -> None:
    assert MAX_WATTS == 10_000.0
    made = begun(Reading(energy_joules_total=1e6, power_watts=watts))
    made.add(PLAIN, seconds, None, Reading(energy_joules_total=1e6 + gain, power_watts=watts), None, WORK["idle"])
    account = made.snapshot()
    assert account.value("class_energy_joules", "idle") == pytest.approx(joules)
    is_unknown = gain < 0.0 and watts > MAX_WATTS
    assert account.value("energy_unknown_seconds") == (seconds if is_unknown else 0.0)


def test_a_rate_of_0_is_known() -> None:
    made = begun()
    made.add(PLAIN, 2.0, None, Reading(sm_active_ratio=0.0), 0.0, WORK["idle"])
    account = made.snapshot()
    assert (account.value("sm_active_seconds"), account.value("sm_active_unknown_seconds")) == (0.0, 0.0)
    assert account.value("real_utilization_seconds") == 0.0
