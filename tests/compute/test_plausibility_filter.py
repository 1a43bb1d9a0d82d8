from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.compute.activity import Missing
from pulsed.compute.plausibility_filter import PlausibilityFilter, PlausibilityLimits
from pulsed.compute.plausibility_rules import ACTIVITY, MEASURED, RATES, REASONS, RULES, PlausibilitySettings
from pulsed.compute.sample import Freshness
from pulsed.compute.settings import ComputeSettings
from pulsed.model.clocks import GpuSeconds
from pulsed.model.raw_tick import RawTick
from pulsed.model.vocabulary import POSITION, Reading
from pulsed.reader.demo.source import DemoSource
from pulsed.translate.translator import Translator
from tests.compute.readings import arbitrary, consistent, many, result_of
from tests.support.samples import SAMPLES, needs_samples
from tests.support.ticks import readings_of
from tests.translate.build import dmon_ticks, page_tick

DEFAULT = PlausibilitySettings()

STUCK = Reading(
    **dict.fromkeys((*ACTIVITY, *RATES), 0.0),
    gpu_utilization_ratio=1.0,
    memory_utilization_ratio=0.6,
    power_watts=167.362,
    sm_clock_hertz=1380e6,
)
"""As in gpu-monitoring-tools#189: 167 W, and all profiling values 0."""

STEADY = Reading(
    graphics_engine_active_ratio=1.0,
    sm_active_ratio=0.121,
    sm_occupancy_ratio=0.031,
    tensor_active_ratio=0.0,
    integer_active_ratio=0.011,
    dram_active_ratio=0.002,
    pcie_transmit_bytes_per_second=12e6,
    gpu_utilization_ratio=1.0,
    memory_utilization_ratio=0.01,
    power_watts=130.5,
    energy_joules_total=1e6,
    temperature_celsius=41.0,
    memory_used_bytes=2e9,
    memory_bytes=8e10,
    xid_last_code=0.0,
    ecc_dbe_volatile_total=0.0,
)
"""A job that hangs: its communication kernels spin, and every counter says the same for hours."""

IDLE = Reading(
    **dict.fromkeys(ACTIVITY, 0.0),
    gpu_utilization_ratio=0.0,
    memory_utilization_ratio=0.0,
    power_watts=30.0,
    energy_joules_total=1e6,
    temperature_celsius=27.0,
    memory_used_bytes=0.0,
    memory_bytes=8e10,
)


class Gpu:
    """The filter of one GPU, with the freshness of its inputs."""

    def __init__(self, settings: PlausibilitySettings) -> None:
        self.settings, self.filter, self.inputs = settings, PlausibilityFilter(), Freshness()
        self.limits = PlausibilityLimits(settings)
        self.now = 0.0

    def apply(self, reading: Reading, seconds: float) -> tuple[Reading, tuple[str, ...]]:
        self.now += max(seconds, 0.0)
        self.inputs.update(reading, GpuSeconds(self.now), 1.0, self.settings)
        return self.filter.apply(self.limits, reading, seconds, self.inputs.state)


def noisy(reading: Reading, number: int, watts: float | None = None) -> Reading:
    """As a board with power shows it: energy grows and power wobbles."""
    base = reading.power_watts if watts is None else watts
    assert base is not None
    energy = 1e6 + 100.0 * number
    return reading._replace(power_watts=base + number % 7 / 10, energy_joules_total=energy)


def stream(reading: Reading, count: int, start: int = 0, watts: float | None = None) -> list[Reading]:
    return [noisy(reading, start + number, watts) for number in range(count)]


def reasons(plausible: Gpu, readings: Iterable[Reading], seconds: float = 1.0) -> list[tuple[str, ...]]:
    return [plausible.apply(reading, seconds)[1] for reading in readings]


def missing(before: Reading, after: Reading) -> set[str]:
    """What was taken out; nothing else may differ."""
    gone = {name for name, value in after._asdict().items() if value is None and getattr(before, name) is not None}
    assert after == before._replace(**dict.fromkeys(gone))
    return gone


def begun(reading: Reading) -> Gpu:
    plausible = Gpu(DEFAULT)
    plausible.apply(reading, 0.0)
    return plausible


BARE = Reading(power_watts=300.0, gpu_utilization_ratio=1.0, energy_joules_total=5e6, temperature_celsius=60.0)
"""The driver's fields of a GPU at work, without profiling."""

ENDED = STEADY._replace(gpu_utilization_ratio=0.0, power_watts=70.0)
MOVED = STEADY._replace(gpu_utilization_ratio=0.7)
NO_ENGINE = STUCK._replace(graphics_engine_active_ratio=None)
NO_PROFILE = STUCK._replace(**dict.fromkeys((*ACTIVITY, *RATES)))

Run = tuple[Reading | None, int, str]
"""Consecutive samples: the reading, how many, and the reason that all of them give; empty for none."""

GAP: Run = (None, 0, "")
ZERO = "profiling_stuck_at_zero"
FOUND: list[Run] = [(STUCK, 10, ""), (STUCK, 11, ZERO)]
RESTING = [(STEADY, 401, ""), *[(MOVED, 9, ""), (STEADY, 1, "")] * 3]

MOVING_HISTORIES: dict[str, list[Run]] = {
    "a profiler that works again counts at once": [
        *FOUND,
        (STUCK._replace(graphics_engine_active_ratio=0.9, sm_active_ratio=0.7), 1, ""),
        *FOUND,
    ],
    "a load that falls does not mend the profiler": [*FOUND, (STUCK._replace(gpu_utilization_ratio=0.4), 1, ZERO)],
    "a load that is unknown does not mend it": [*FOUND, (STUCK._replace(gpu_utilization_ratio=None), 1, ZERO)],
    "zeros without a load are true whatever was before": [*FOUND, (IDLE, 1, ""), (STUCK, 1, ZERO)],
    "a tick without profiling values proves nothing": [*FOUND, (NO_PROFILE, 1, ""), (STUCK, 1, ZERO)],
    "a gap begins anew": [*FOUND, GAP, *FOUND],
    "sm activity decides where there is no engine": [(NO_ENGINE, 10, ""), (NO_ENGINE, 11, ZERO)],
    "the load is below the limit": [(STUCK._replace(gpu_utilization_ratio=0.89), 1000, "")],
    "the load is unknown": [(STUCK._replace(gpu_utilization_ratio=None), 1000, "")],
    "one block spins": [(STUCK._replace(graphics_engine_active_ratio=1.0, sm_active_ratio=0.008), 1000, "")],
    "neither engine nor sm": [(NO_ENGINE._replace(sm_active_ratio=None), 1000, "")],
    "sm alone is above 0": [(NO_ENGINE._replace(sm_active_ratio=0.008), 1000, "")],
    "only pipes": [
        (Reading(tensor_active_ratio=0.0, dram_active_ratio=0.0, gpu_utilization_ratio=1.0, power_watts=90.0), 1000, "")
    ],
    "a load must move for ten seconds without a break": [*RESTING, (MOVED, 9, ""), (MOVED, 1, "profiling_frozen")],
    "a job that hangs": [(STEADY, 3000, "")],
    "utilization and power fall before the profile": [
        (STEADY, 1001, ""),
        (ENDED, 2, ""),
        (IDLE, 1000, ""),
    ],
}
"""Of readings whose power and energy change with every sample, a second apart."""

CONSTANT_HISTORIES: dict[str, list[Run]] = {
    "repeats are proof in the end": [
        (bare := Reading(graphics_engine_active_ratio=0.0, gpu_utilization_ratio=0.99), 300, ""),
        (bare, 10, ZERO),
    ],
    **{
        f"energy that stands still at work is proof: {what}": [
            (frozen, 300, ""),
            (frozen, 10, "values_frozen"),
        ]
        for what, frozen in {
            "some activity": STEADY._replace(sm_occupancy_ratio=None, integer_active_ratio=None),
            "without a profile": BARE,
            "power alone": BARE._replace(gpu_utilization_ratio=0.0),
            "utilization alone": BARE._replace(power_watts=40.0),
        }.items()
    },
    "energy that once moved does not stop on an idle GPU": [
        (IDLE, 1, ""),
        (idle := IDLE._replace(energy_joules_total=1e6 + 30), 300, ""),
        (idle, 10, "values_frozen"),
    ],
    "a gap does not thaw": [(STEADY, 300, ""), (STEADY, 100, "values_frozen"), GAP, (STEADY, 1, "values_frozen")],
    **{
        f"constant with every right: {what}": [(innocent, 2000, "")]
        for what, innocent in {
            "idle": IDLE,
            "idle without energy": IDLE._replace(energy_joules_total=None),
            "idle with memory": IDLE._replace(power_watts=29.531, memory_used_bytes=5e8),
            "whole watts": STEADY._replace(energy_joules_total=None, power_watts=130.0),
            "a counter that does not count": STEADY._replace(energy_joules_total=0.0, power_watts=None),
            "two fractions": STEADY._replace(
                sm_occupancy_ratio=None, integer_active_ratio=None, energy_joules_total=None
            ),
            "idle, and the counter may not count": BARE._replace(power_watts=40.0, gpu_utilization_ratio=0.0),
            "without power": BARE._replace(power_watts=None),
        }.items()
    },
}
"""Of readings that are repeated, a second apart."""


@pytest.mark.parametrize(
    ("history", "is_moving"),
    [
        *(pytest.param(history, True, id=name) for name, history in MOVING_HISTORIES.items()),
        *(pytest.param(history, False, id=name) for name, history in CONSTANT_HISTORIES.items()),
    ],
)
def test_reasons_of_a_history(history: list[Run], is_moving: bool) -> None:
    gpu, number, seconds = Gpu(DEFAULT), 0, 0.0
    for reading, samples, reason in history:
        if reading is None:
            seconds = 0.0
        for _ in range(samples):
            assert reading is not None
            now = noisy(reading, number) if is_moving else reading
            after, found = gpu.apply(now, seconds)
            assert found == ((reason,) if reason else ()), number
            assert reason or after is now
            number, seconds = number + 1, 1.0


# --- a profiler stuck at 0


@pytest.mark.parametrize(("interval", "clean"), [(0.1, 100), (1.0, 9), (5.0, 1), (15.0, 1)])
def test_a_stuck_profiler_is_found_after_ten_seconds_and_three_samples(interval: float, clean: int) -> None:
    plausible = begun(STUCK)
    said = reasons(plausible, stream(STUCK, clean + 5), interval)
    assert said[:clean] == [()] * clean
    assert set(said[clean:]) == {("profiling_stuck_at_zero",)}


def test_a_profiler_without_the_engine_that_works_now_and_then_is_not_stuck() -> None:
    stuck = STUCK._replace(graphics_engine_active_ratio=None)
    working = stuck._replace(sm_active_ratio=0.4)
    plausible = begun(stuck)
    for number in range(6):
        assert reasons(plausible, stream(stuck, 5, 6 * number)) == [()] * 5
        assert reasons(plausible, stream(working, 1, 6 * number + 5)) == [()]
    assert reasons(plausible, stream(stuck, 15, 40))[-1] == ("profiling_stuck_at_zero",)


def test_a_stuck_profiler_removes_its_zeros_only() -> None:
    plausible = begun(STUCK)
    reading = STUCK._replace(pcie_receive_bytes_per_second=5e6)  # from the driver: it moves
    reasons(plausible, stream(reading, 20))
    now = noisy(reading, 20)
    after, said = plausible.apply(now, 1.0)
    assert said == ("profiling_stuck_at_zero",)
    assert missing(now, after) == {*ACTIVITY, *RATES} - {"pcie_receive_bytes_per_second"}


def test_a_stuck_profiler_is_not_idle() -> None:
    assert result_of(STUCK).workload.raw_class == "idle"  # which is why
    plausible = begun(STUCK)
    *_, after = [plausible.apply(reading, 1.0)[0] for reading in stream(STUCK, 20)]
    result = result_of(after)
    assert result.real_utilization.ratio.value is None
    assert result.real_utilization.ratio.low == 0.0
    assert result.real_utilization.ratio.high == pytest.approx(
        0.921
    )  # memory was in use for 60.5 % of the time at most
    assert result.workload.raw_class == "unknown"
    assert len(result.workload.candidates) > 1


def test_a_kernel_that_just_ended_is_no_contradiction() -> None:
    """The driver's figure is that of the last second, and an exporter shows the same page until its next sample."""
    plausible = begun(IDLE)
    for number in range(20):
        just_ended = noisy(STUCK, number)
        assert not any(reasons(plausible, [just_ended] * 30))  # sampled every 30 s, scraped every second
        assert not any(reasons(plausible, [noisy(IDLE, number)] * 30))


def test_only_the_engine_is_stuck() -> None:
    reading = STUCK._replace(tensor_active_ratio=0.4, dram_active_ratio=0.3)
    plausible = begun(reading)
    said = reasons(plausible, stream(reading, 20))
    assert said[:9] == [()] * 9
    assert said[-1] == ("graphics_engine_stuck_at_zero",)
    now = noisy(reading, 20)
    assert missing(now, plausible.apply(now, 1.0)[0]) == {"graphics_engine_active_ratio"}
    alive = noisy(reading._replace(graphics_engine_active_ratio=0.1), 21)
    assert plausible.apply(alive, 1.0) == (alive, ())


# --- values that stand still


def test_power_is_compared_relatively_also_where_it_is_small() -> None:
    steady = STEADY._replace(power_watts=2.0, gpu_utilization_ratio=0.5)
    plausible = begun(steady)
    assert not any(reasons(plausible, [noisy(steady, 7 * number) for number in range(290)]))
    said = reasons(plausible, [noisy(steady, 7 * number, watts=4.0) for number in range(290, 320)])
    assert said[-1] == ("profiling_frozen",)


def test_a_frozen_profile_under_a_load_that_moved() -> None:
    plausible = begun(STEADY)
    assert not any(reasons(plausible, stream(STEADY, 290)))
    ended = STEADY._replace(gpu_utilization_ratio=0.0)
    said = reasons(plausible, stream(ended, 30, 290, watts=70.0))
    assert said[:9] == [()] * 9
    assert said[-1] == ("profiling_frozen",)
    now = noisy(ended, 320, watts=70.0)
    assert missing(now, plausible.apply(now, 1.0)[0]) == {
        name for name in (*ACTIVITY, *RATES) if getattr(STEADY, name) is not None
    }
    moves = now._replace(sm_active_ratio=0.122)
    assert plausible.apply(moves, 1.0) == (moves, ())


@pytest.mark.parametrize("watts", [0.0, None])
def test_a_power_that_is_not_measured_does_not_move(watts: float | None) -> None:
    steady = STEADY._replace(power_watts=watts)
    readings = [steady._replace(energy_joules_total=1e6 + number) for number in range(600)]
    assert not any(reasons(begun(steady), readings))


@pytest.mark.parametrize(("interval", "count"), [(1.0, 300), (15.0, 20), (100.0, 3)])
def test_a_frozen_row(interval: float, count: int) -> None:
    said = reasons(begun(STEADY), [STEADY] * (count + 5), interval)
    assert said.index(("values_frozen",)) == count - 1
    assert set(said[count:]) == {("values_frozen",)}


def test_a_frozen_row_removes_measured_values_until_one_changes() -> None:
    plausible = begun(STEADY)
    reasons(plausible, [STEADY] * 300)
    after, _ = plausible.apply(STEADY, 1.0)
    assert missing(STEADY, after) == {name for name in MEASURED if getattr(STEADY, name) is not None}
    assert (after.memory_bytes, after.xid_last_code, after.ecc_dbe_volatile_total) == (8e10, 0.0, 0.0)
    moves = STEADY._replace(energy_joules_total=1e6 + 100)
    assert plausible.apply(moves, 1.0) == (moves, ())


def test_an_exporter_slower_than_its_scrapes() -> None:
    plausible = begun(STEADY)
    pages = [page for page in stream(STEADY, 50) for _ in range(60)]
    assert not any(reasons(plausible, pages))


# --- what no hardware has


@pytest.mark.parametrize(
    ("quantity", "value", "reason"),
    [
        ("power_watts", 10_001.0, "power_absurd"),
        ("power_instant_watts", -1.0, "power_absurd"),
        ("temperature_celsius", 201.0, "temperature_absurd"),
        ("memory_temperature_celsius", -51.0, "temperature_absurd"),
        ("sm_clock_hertz", 10.1e9, "clock_absurd"),
        ("pcie_transmit_bytes_per_second", -1.0, "traffic_absurd"),
        ("nvlink_receive_bytes_per_second", 1.1e13, "traffic_absurd"),
        ("nvlink_bandwidth_bytes_per_second", math.nan, "traffic_absurd"),
        ("pcie_receive_bytes_per_second", math.inf, "traffic_absurd"),
    ],
)
def test_one_absurd_value_goes_missing_alone(quantity: str, value: float, reason: str) -> None:
    plausible = begun(STEADY)
    odd = STEADY._replace(**{quantity: value})
    assert plausible.apply(odd, 1.0) == (STEADY._replace(**{quantity: None}), (reason,))
    assert plausible.apply(STEADY, 1.0) == (STEADY, ())


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        ("power_watts", 1400.0),
        ("power_watts", 0.0),
        ("temperature_celsius", -10.0),
        ("memory_clock_hertz", 14e9),  # GDDR7
        ("nvlink_bandwidth_bytes_per_second", 3.6e12),
        ("memory_used_bytes", 8.1e10),
    ],
)
def test_values_that_hardware_has_are_kept(quantity: str, value: float) -> None:
    reading = STEADY._replace(**{quantity: value})
    assert begun(STEADY).apply(reading, 1.0) == (reading, ())


@pytest.mark.parametrize(("used", "size"), [(9e10, 8e10), (-1.0, 8e10), (-1.0, None)])
def test_more_used_memory_than_there_is_goes_missing(used: float, size: float | None) -> None:
    reading = STEADY._replace(memory_used_bytes=used, memory_used_ratio=1.0, memory_bytes=size)
    after, said = begun(STEADY).apply(reading, 1.0)
    assert said == ("memory_absurd",)
    assert missing(reading, after) == {"memory_used_bytes", "memory_used_ratio"}


def test_a_size_of_0_limits_nothing() -> None:
    reading = STEADY._replace(memory_bytes=0.0)
    assert begun(STEADY).apply(reading, 1.0) == (reading, ())


def test_reasons_come_in_the_order_of_the_table() -> None:
    odd = STUCK._replace(temperature_celsius=999.0, power_watts=1e5, memory_used_bytes=2e9, memory_bytes=1e9)
    plausible = begun(odd)
    said = reasons(plausible, [odd._replace(energy_joules_total=float(number)) for number in range(20)])
    assert said[-1] == ("profiling_stuck_at_zero", "power_absurd", "temperature_absurd", "memory_absurd")


def test_limits_can_be_set() -> None:
    assert Gpu(PlausibilitySettings(power_max_watts=100.0)).apply(STEADY, 0.0)[1] == ("power_absurd",)


def test_nothing_is_removed_when_switched_off() -> None:
    plausible = Gpu(PlausibilitySettings(enabled=False))
    for reading in [*stream(STUCK, 50), *[STEADY] * 400, STEADY._replace(power_watts=1e5)]:
        after, said = plausible.apply(reading, 1.0)
        assert after is reading
        assert said == ()


@many
@given(
    st.sets(st.sampled_from((*ACTIVITY, *RATES))),
    st.sampled_from(ACTIVITY[:2]),
    st.floats(0.9, 1.0),
    st.none() | st.floats(0.0, 1.0),
    st.sampled_from(["bounds", "zero"]),
)
def test_no_subset_of_stuck_values_reads_as_idle(
    names: set[str], leader: str, utilization: float, memory: float | None, convention: Missing
) -> None:
    reading = Reading(
        **dict.fromkeys({*names, leader}, 0.0),
        gpu_utilization_ratio=utilization,
        memory_utilization_ratio=memory,
        power_watts=200.0,
    )
    plausible = begun(reading)
    *_, (after, said) = [plausible.apply(each, 1.0) for each in stream(reading, 20)]
    assert said == ("profiling_stuck_at_zero",)
    result = result_of(after, ComputeSettings(missing=convention))
    assert result.workload.raw_class != "idle"
    assert result.real_utilization.ratio.value != 0.0
    assert result.real_utilization.ratio.high > 0.0


# --- anything

wild = st.none() | st.sampled_from([0.0, 0.0, 0.5, 1.0, -1.0, 1e6, 1e300, math.nan, math.inf, -math.inf])


@st.composite
def anything(draw: st.DrawFn) -> Reading:
    """Readings with quantities of the table only, so that they often collide."""
    names = draw(st.sets(st.sampled_from(sorted({*MEASURED, "memory_bytes", "xid_last_code"})), max_size=12))
    return draw(arbitrary())._replace(**{name: draw(wild) for name in sorted(names)})


steps = st.lists(
    st.tuples(anything() | st.sampled_from([STUCK, STEADY, IDLE]), st.sampled_from([0.0, -1.0, 0.1, 1.0, 15.0, 400.0])),
    max_size=25,
)


@many
@given(steps, st.integers(1, 4))
def test_only_what_a_reason_names_goes_missing(stream: list[tuple[Reading, float]], repeats: int) -> None:
    plausible = Gpu(PlausibilitySettings(stuck_seconds=0.2, frozen_seconds=2.0, frozen_samples=3))
    named = {rule.reason: set(rule.missing) for rule in RULES}
    for reading, seconds in stream:
        for _ in range(repeats):
            after, said = plausible.apply(reading, seconds)
            assert said == tuple(reason for reason in REASONS if reason in said)
            allowed = set().union(*(named[reason] for reason in said)) if said else set()
            for name, position in POSITION.items():
                assert after[position] is reading[position] or (after[position] is None and name in allowed)
            assert (after is reading) == (not said)


@many
@given(st.lists(consistent(), max_size=20))
def test_a_plausible_reading_passes_unchanged(readings: list[Reading]) -> None:
    plausible = Gpu(DEFAULT)
    for reading in readings:
        for _ in range(2):
            after, said = plausible.apply(reading, 0.1)
            assert after is reading
            assert said == ()


@many
@given(anything())
def test_a_filtered_reading_is_plausible(reading: Reading) -> None:
    after, _ = Gpu(DEFAULT).apply(reading, 0.0)
    assert Gpu(DEFAULT).apply(after, 0.0) == (after, ())


# --- through Translate

FROZEN_IF_REPEATED = {
    "exporter-2x-a100-mig-loaded-noheaders.prom",
    "exporter-3x-a100-mig-1inst-active.prom",
    "exporter-3x-a100-mig-3inst-active.prom",
    "exporter-3x-a100-mig-enabled-empty.prom",
    "exporter-3x-t4-2gpu-pod-runai.prom",
    "exporter-4x-t4-partial.prom",
    "exporter-4x-t4-whole-page.prom",
}
"""Power and an energy counter, at some activity: the counter would move."""


def seen(ticks: Sequence[RawTick], seconds: float) -> set[str]:
    """Every reason that came up in these ticks of one target."""
    translator = Translator("here")
    filters: dict[object, Gpu] = {}
    found: set[str] = set()
    for raw in ticks:
        canonical = translator.translate(raw)
        for device, reading in zip(canonical.devices, readings_of(canonical), strict=True):
            known = filters.get(device.entity)
            plausible = filters.setdefault(device.entity, known or Gpu(DEFAULT))
            found.update(plausible.apply(reading, seconds if known else 0.0)[1])
    return found


async def test_the_demo_has_no_implausible_input() -> None:
    source = DemoSource(start=1767225600.0, pace=False)
    ticks = [await source.read() for _ in range(600)]
    assert seen(ticks, 1.0) == set()
    assert seen(ticks[::15], 15.0) == set()


@needs_samples
@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.glob("dmon/*.txt")))
def test_captures_of_real_gpus_have_no_implausible_input(name: str) -> None:
    ticks = dmon_ticks((SAMPLES / "dmon" / name).read_text())
    assert seen(ticks, 1.0) == set()
    assert seen([tick for _ in range(600) for tick in ticks][:600], 1.0) == set()  # played in a loop


@needs_samples
@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.glob("exporter/*.prom")))
def test_pages_of_real_gpus_have_no_implausible_input(name: str) -> None:
    tick = page_tick((SAMPLES / "exporter" / name).read_text())
    assert seen([tick] * 20, 15.0) == set()
    # One page for ten minutes is what a dead engine shows: a few pages have what it takes to tell.
    assert seen([tick] * 41, 15.0) == ({"values_frozen"} if name in FROZEN_IF_REPEATED else set())


# --- limits and times themselves


@pytest.mark.parametrize(
    ("quantity", "low", "high"),
    [
        ("power_watts", 0.0, 100.0),
        ("temperature_celsius", -20.0, 90.0),
        ("sm_clock_hertz", 0.0, 2e9),
        ("pcie_transmit_bytes_per_second", 0.0, 1e10),
    ],
)
def test_a_value_at_its_limit_is_plausible(quantity: str, low: float, high: float) -> None:
    settings = PlausibilitySettings(
        power_max_watts=100.0,
        temperature_min_celsius=-20.0,
        temperature_max_celsius=90.0,
        sm_clock_max_hertz=2e9,
        traffic_max_bytes_per_second=1e10,
    )
    found = [
        bool(Gpu(settings).apply(Reading(**{quantity: value}), 0.0)[1]) for value in (low - 0.5, low, high, high + 1e4)
    ]
    assert found == [True, False, False, True]
    other = Reading(**{quantity: high, "memory_temperature_celsius": 999.0})
    after, said = Gpu(settings).apply(other, 0.0)
    assert (after, said) == (Reading(**{quantity: high}), ("temperature_absurd",))


def test_memory_may_exceed_its_size_by_the_ratio() -> None:
    settings = PlausibilitySettings(memory_excess_ratio=1.25, memory_min_bytes=1.0)
    for used, said in ((0.0, ()), (100.0, ()), (100.5, ("memory_absurd",))):
        assert Gpu(settings).apply(Reading(memory_used_bytes=used, memory_bytes=80.0), 0.0)[1] == said


QUICK = PlausibilitySettings(frozen_samples=5, frozen_seconds=8.0, stuck_samples=2, stuck_seconds=3.0, moved_ratio=0.25)


@pytest.mark.parametrize(
    ("changes", "number"),
    [
        ({}, 9),
        ({"frozen_seconds": 4.0}, 5),
        ({"frozen_samples": 12}, 12),
        ({"stuck_seconds": 6.0, "frozen_seconds": 1.0}, 8),
        ({"stuck_samples": 7}, 14),
        ({"frozen_seconds": 40.0}, 41),
    ],
)
@pytest.mark.parametrize("moved", [{"gpu_utilization_ratio": 0.75}, {"power_watts": 75.0}, {"power_watts": 140.0}])
def test_a_frozen_profile_needs_all_its_times(changes: dict[str, float], moved: dict[str, float], number: int) -> None:
    """The reference is taken at a tenth of `frozen_seconds` and `stuck_samples`; then the load moves."""
    settings = dataclasses.replace(QUICK, **changes)  # type: ignore[arg-type]
    gpu = Gpu(settings)
    before = STEADY._replace(gpu_utilization_ratio=1.0, power_watts=100.0)
    taken = max(settings.stuck_samples, math.ceil(0.1 * settings.frozen_seconds) + 1)
    first = None
    for sample in range(1, 50):
        reading = (before if sample <= taken else before._replace(**moved))._replace(energy_joules_total=float(sample))
        if gpu.apply(reading, 1.0 if sample > 1 else 0.0)[1]:
            first = sample
            break
    moving = max(math.ceil(settings.stuck_seconds), settings.stuck_samples)
    assert number == max(taken + moving, settings.frozen_samples, math.ceil(settings.frozen_seconds) + 1)
    assert first == number


@pytest.mark.parametrize(("fractions", "is_frozen"), [(2, False), (3, True)])
def test_a_profile_is_frozen_with_three_values_that_are_not_constant_by_chance(fractions: int, is_frozen: bool) -> None:
    names = ("sm_active_ratio", "sm_occupancy_ratio", "dram_active_ratio")[:fractions]
    before = Reading(**{"graphics_engine_active_ratio": 1.0, **dict.fromkeys(names, 0.5)}, gpu_utilization_ratio=1.0)
    gpu, found = Gpu(QUICK), []
    for sample in range(30):
        load = before._replace(gpu_utilization_ratio=1.0 if sample < 3 else 0.5, energy_joules_total=float(sample))
        found.append(gpu.apply(load, 1.0 if sample else 0.0)[1])
    assert (("profiling_frozen",) in found) is is_frozen


def test_a_load_that_returned_starts_its_time_again() -> None:
    gpu, found = Gpu(QUICK), []
    steady = STEADY._replace(gpu_utilization_ratio=1.0)
    moved = steady._replace(gpu_utilization_ratio=0.5)
    for sample, reading in enumerate([*[steady] * 20, *[moved] * 2, steady, *[moved] * 3]):
        found.append(bool(gpu.apply(noisy(reading, sample), 1.0 if sample else 0.0)[1]))
    assert found == [False] * 25 + [True]


def test_samples_before_a_gap_count_for_no_profile() -> None:
    gpu, found = Gpu(QUICK), []
    steady = STEADY._replace(gpu_utilization_ratio=1.0)
    moved = steady._replace(gpu_utilization_ratio=0.5)
    for sample, reading in enumerate([*[steady] * 20, *[moved] * 20]):
        found.append(bool(gpu.apply(noisy(reading, sample), 0.0 if sample in (0, 20) else 1.0)[1]))
    assert not any(found), "the load after the gap is the reference"
