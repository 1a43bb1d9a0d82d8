from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.compute import presence
from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.layer import ComputeLayer
from pulsed.compute.settings import ComputeSettings, WorkloadSettings
from pulsed.compute.target_gpus import Tracker
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.counters import IDLE_KINDS
from pulsed.model.gpu import Device, Entity
from pulsed.model.owner import Ownership, pod
from pulsed.model.result import ClassChange
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import NOTHING, WORKLOAD_CLASSES, Reading
from tests.compute.readings import arbitrary, many, result_of
from tests.compute.streams import BUSY, DAY, GPU, IDLE, MEMORY, NAMES, OTHER, activity, counted, sample
from tests.support.ticks import missing_in, readings_of, results_of


def run(ticks: Iterable[Tick], settings: ComputeSettings | None = None) -> list[Tick]:
    computer = ComputeLayer(GpuTable(settings))
    return [computer.compute(tick) for tick in ticks]


def observed(ticks: Iterable[Tick]) -> list[float]:
    return [counted(tick, "observed_seconds") for tick in run(ticks)]


def test_each_tick_by_itself_is_what_compute_says() -> None:
    ticks = [sample(clock, reading) for clock, reading in enumerate(NAMES)]
    for tick, found in zip(ticks, run(ticks), strict=True):
        alone = result_of(tick.gpus[0].reading)
        assert (found.devices, list(readings_of(found)), found.values) == (
            tick.devices,
            list(readings_of(tick)),
            tick.values,
        )
        assert found.gpus[0].result.real_utilization == alone.real_utilization
        assert found.gpus[0].result.workload == alone.workload
        assert found.gpus[0].result.workload.raw_class == NAMES[tick.gpus[0].reading]


@pytest.mark.parametrize(("mebibytes", "kind"), [(0.0, "free"), (255.0, "free"), (256.0, "held")])
def test_256_mib_in_use_hold_an_idle_gpu_by_default(mebibytes: float, kind: str) -> None:
    reading = IDLE._replace(memory_used_bytes=mebibytes * 2**20)
    found = run(sample(float(clock), reading) for clock in range(2))[-1]
    assert [counted(found, "idle_seconds", each) for each in IDLE_KINDS] == [float(each == kind) for each in IDLE_KINDS]


def test_a_tick_without_gpus_is_nothing() -> None:
    assert results_of(run([sample(0.0), sample(1.0, IDLE)])[0]) == []


def test_a_sample_covers_the_time_since_the_one_before() -> None:
    assert observed(sample(clock, IDLE) for clock in (5.0, 6.0, 6.5, 8.5)) == [0.0, 1.0, 1.5, 3.5]


def test_two_samples_of_one_time_count_once() -> None:
    assert observed(sample(clock, IDLE) for clock in (5.0, 6.0, 6.0, 7.0)) == [0.0, 1.0, 1.0, 2.0]


def test_a_gap_of_three_intervals_is_covered_and_a_longer_one_is_not() -> None:
    assert observed(sample(clock, IDLE) for clock in (0.0, 3.0, 6.5, 7.5)) == [0.0, 3.0, 3.0, 4.0]
    tenths = [sample(clock, IDLE, interval=0.1) for clock in (1e7, 1e7 + 0.1, 1e7 + 0.1 + 3 * 0.1)]
    assert observed(tenths)[-1] == pytest.approx(0.4)


def test_samples_out_of_order_are_never_counted_twice() -> None:
    assert observed(sample(clock, IDLE) for clock in (10.0, 11.0, 10.0, 11.0, 12.0)) == [0.0, 1.0, 1.0, 1.0, 2.0]


def test_a_clock_that_begins_anew_is_a_gap() -> None:
    assert observed(sample(clock, IDLE) for clock in (1e6, 1e6 + 1, 5.0, 6.0)) == [0.0, 1.0, 1.0, 2.0]


def test_the_wall_clock_counts_nothing() -> None:
    wall = (DAY, DAY + 7200.0, DAY - 3600.0)
    ticks = [sample(float(at), IDLE, time=when) for at, when in enumerate(wall)]
    assert observed(ticks) == [0.0, 1.0, 2.0]
    assert run(ticks)[-1].gpus[0].result.shown_class.since == DAY


def test_a_long_pause_counts_nothing_not_even_energy() -> None:
    before, after = (IDLE._replace(energy_joules_total=joules, power_watts=75.0) for joules in (100.0, 9e6))
    later = after._replace(energy_joules_total=9e6 + 75)
    ticks = [sample(0.0, before), sample(36_000.0, after), sample(36_001.0, later)]
    found = run(ticks)
    assert [counted(tick, "class_energy_joules", "idle") for tick in found] == [0.0, 0.0, 75.0]
    assert [counted(tick, "observed_seconds") for tick in found] == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(("missing", "observed_seconds", "sm_seconds"), [("bounds", 12.0, 3.5), ("zero", 2.0, 1.0)])
def test_cycle_counters_cover_lost_samples_unless_missing_inputs_count_as_0(
    missing: Literal["bounds", "zero"], observed_seconds: float, sm_seconds: float
) -> None:
    ticks = [
        sample(clock, BUSY._replace(sm_elapsed_cycles_total=1e9 * clock, sm_active_cycles_total=1e9 * active))
        for clock, active in ((0.0, 0.0), (1.0, 0.5), (11.0, 3.0), (12.0, 3.5))
    ]
    last = run(ticks, ComputeSettings(missing))[-1]
    assert counted(last, "observed_seconds") == observed_seconds
    assert counted(last, "sm_active_seconds") == pytest.approx(sm_seconds)
    assert counted(last, "dram_active_seconds") == pytest.approx(2 * 0.9)
    assert counted(last, "dram_active_unknown_seconds") == observed_seconds - 2.0
    repeated = run([*ticks[:2], replace(ticks[1], raw=replace(ticks[1].raw, clock=Monotonic(1.5))), ticks[2]])[-1]
    assert counted(repeated, "sm_active_seconds") == pytest.approx(0.75 + 0.25 * 9.5)


def test_the_counters_of_a_gpu_that_comes_back_go_on() -> None:
    found = run(
        [
            sample(0.0, IDLE, BUSY),
            sample(1.0, IDLE, BUSY),
            sample(2.0, IDLE),
            sample(3.0, IDLE, BUSY),
            sample(9.0, IDLE),
            sample(10.0, IDLE, BUSY),
            sample(11.0, IDLE, BUSY),
        ]
    )
    back = [counted(tick, "observed_seconds", position=1) for tick in found]
    assert back == [0.0, 1.0, 1.0, 3.0, 3.0, 3.0, 4.0]
    assert counted(found[-1], "observed_seconds") == 5.0
    assert found[-1].gpus[1].result.counters.created == DAY


def test_a_device_that_is_only_described_anew_goes_on() -> None:
    described = replace(GPU, model="NVIDIA H100")
    ticks = [sample(0.0, IDLE), sample(1.0, IDLE, devices=[described]), sample(2.0, IDLE, devices=[described])]
    for tick in ticks[1:]:
        tick.gpus[0].ownership = Ownership((pod("default", "train-0"),))
    found = run(ticks)
    assert counted(found[-1], "observed_seconds") == 2.0
    assert counted(found[-1], "idle_seconds", "held") == 2.0


def test_instances_of_a_new_partition_begin_at_0() -> None:
    halves = [Device(Entity("mig", "0", "GPU-0", str(number), "3g.40gb")) for number in (1, 2)]
    sevenths = [Device(Entity("mig", "0", "GPU-0", str(number), "1g.10gb")) for number in (1, 2)]
    found = run(
        [
            *(sample(float(clock), IDLE, BUSY, devices=halves) for clock in range(3)),
            *(sample(float(clock), IDLE, BUSY, devices=sevenths) for clock in range(3, 5)),
            sample(5.0, IDLE, BUSY, devices=halves),
        ]
    )
    assert [counted(tick, "observed_seconds", position=1) for tick in found] == [0.0, 1.0, 2.0, 0.0, 1.0, 5.0]
    assert all(tick.changes == () for tick in found)


def test_a_gpu_that_is_named_twice_is_counted_once() -> None:
    found = run(sample(float(clock), IDLE, IDLE, devices=[GPU, GPU]) for clock in range(3))
    assert [counted(tick, "observed_seconds", position=1) for tick in found] == [0.0, 1.0, 2.0]


def test_what_is_remembered_is_bounded_and_the_longest_gone_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "KEPT", 8)
    many_devices = [Device(Entity("mig", "0", "GPU-0", str(number))) for number in range(8 + 2)]
    computer = ComputeLayer(GpuTable())

    def see(device: Device, clock: float) -> float:
        return counted(computer.compute(sample(clock, IDLE, devices=[device])), "observed_seconds")

    first, second = many_devices[:2]
    assert [see(first, clock) for clock in (0.0, 1.0)] == [0.0, 1.0]
    assert [see(second, clock) for clock in (2.0, 3.0)] == [0.0, 1.0]
    for device in many_devices[2:]:
        see(device, 4.0)
    assert [see(second, clock) for clock in (5.0, 6.0)] == [3.0, 4.0]
    assert see(first, 7.0) == 0.0


def test_a_change_of_class_is_reported_once_with_the_time_of_its_first_sample() -> None:
    readings = [IDLE, BUSY, BUSY, BUSY, IDLE, BUSY, MEMORY, MEMORY, MEMORY]
    found = run(sample(float(clock), reading) for clock, reading in enumerate(readings))
    held = [tick.gpus[0].result.shown_class for tick in found]
    assert [each.workload_class for each in held] == ["idle"] * 2 + ["tensor_heavy_compute"] * 5 + ["memory_bound"] * 2
    assert [tick.changes for tick in found if tick.changes] == [
        (ClassChange(GPU, "idle", "tensor_heavy_compute", Unix(DAY + 1), "compute"),),
        (ClassChange(GPU, "tensor_heavy_compute", "memory_bound", Unix(DAY + 6), "memory"),),
    ]
    assert held[-1].changes == 2
    assert [tick.gpus[0].result.workload.raw_class for tick in found] == [NAMES[reading] for reading in readings]


def test_changes_say_which_device() -> None:
    found = run([sample(0.0, IDLE, IDLE, interval=15.0), sample(15.0, IDLE, BUSY, interval=15.0)])
    assert found[-1].changes == (ClassChange(OTHER, "idle", "tensor_heavy_compute", Unix(DAY + 15), "compute"),)


def test_after_a_gap_longer_than_the_hold_the_class_is_that_of_the_sample() -> None:
    found = run([sample(0.0, IDLE), sample(1.0, IDLE), sample(60.0, BUSY), sample(120.0, BUSY)])
    assert found[2].changes == (ClassChange(GPU, "idle", "tensor_heavy_compute", Unix(DAY + 60), "compute"),)
    assert found[3].changes == ()
    assert found[3].gpus[0].result.shown_class.since == DAY + 120  # what was in between nobody knows


def test_a_shorter_gap_neither_ends_what_is_held_nor_lets_a_flicker_through() -> None:
    clocks = [0.0, 0.1, 0.2, 1.0, 1.1, 1.2]
    readings = [IDLE, IDLE, IDLE, BUSY, IDLE, IDLE]
    found = run(sample(clock, reading, interval=0.1) for clock, reading in zip(clocks, readings, strict=True))
    assert {tick.gpus[0].result.shown_class.workload_class for tick in found} == {"idle"}
    assert found[-1].gpus[0].result.shown_class.since == DAY
    assert counted(found[-1], "observed_seconds") == pytest.approx(0.4)


def test_the_hold_is_configured() -> None:
    ticks = [sample(float(clock), BUSY if clock else IDLE) for clock in range(6)]
    found = run(ticks, ComputeSettings(workload=WorkloadSettings(hold=4.5)))
    assert [len(tick.changes) for tick in found] == [0, 0, 0, 0, 0, 1]
    assert [len(tick.changes) for tick in run(ticks, ComputeSettings(workload=WorkloadSettings(hold=0.0)))] == [
        0,
        1,
        0,
        0,
        0,
        0,
    ]


def test_time_is_counted_by_raw_class() -> None:
    readings = [IDLE, BUSY, IDLE, MEMORY, IDLE]
    found = run(sample(float(clock), reading) for clock, reading in enumerate(readings))[-1]
    assert found.gpus[0].result.shown_class.workload_class == "idle"
    assert [counted(found, "workload_class_seconds", NAMES[reading]) for reading in (IDLE, BUSY, MEMORY)] == [2, 1, 1]


@pytest.mark.slow
def test_a_square_wave_that_no_scraper_sees_is_counted() -> None:
    """0.3 s busy and 0.7 s idle at 10 Hz, looked at every 15 s: the average of the gauge can be anything."""
    level, ticks = 0.9, []
    for number in range(6001):
        reading = Reading(**activity(level if number % 10 in (1, 2, 3) else 0.0))
        ticks.append(sample(number * 0.1, reading, interval=0.1))
    scraped = run(ticks)[::150]
    for before, after in pairwise(scraped):
        busy = counted(after, "real_utilization_seconds") - counted(before, "real_utilization_seconds")
        seconds = counted(after, "observed_seconds") - counted(before, "observed_seconds")
        assert busy / seconds == pytest.approx(0.3 * level, rel=1e-9)
    assert {tick.gpus[0].result.real_utilization.ratio.value for tick in scraped} == {0.0}


steps = st.one_of(st.sampled_from([0.0, 1.0, 1.0, 1.0, 3.0, 3.5, -1.0, 600.0, -600.0]), st.floats(-5, 5))


@many
@given(st.lists(st.tuples(steps, st.sampled_from([(GPU,), (OTHER,), (GPU, OTHER)]), arbitrary(), arbitrary())))
def test_in_any_stream_no_counter_falls_or_counts_twice(
    stream: list[tuple[float, tuple[Device, ...], Reading, Reading]],
) -> None:
    computer, tracker, clock = ComputeLayer(GpuTable()), Tracker(GpuTable()), 1000.0
    last: dict[Entity, Tick] = {}
    covered = dict.fromkeys((GPU.entity, OTHER.entity), 0.0)
    for step, devices, *readings in stream:
        clock += step
        canonical = sample(clock, *readings[: len(devices)], devices=devices)
        tracks, tick = tracker.track(canonical).states, computer.compute(canonical)
        for position, device in enumerate(devices):
            entity = device.entity
            covered[entity] += tracks[position].decision.covered
            account, held = tick.gpus[position].result.counters, tick.gpus[position].result.shown_class
            observed = counted(tick, "observed_seconds", position=position)
            assert observed == pytest.approx(covered[entity], abs=1e-9)
            assert sum(account.value("workload_class_seconds", name) or 0.0 for name in WORKLOAD_CLASSES) == observed
            idle = sum(account.value("idle_seconds", kind) or 0.0 for kind in IDLE_KINDS)
            assert idle == pytest.approx(account.value("workload_class_seconds", "idle"), abs=1e-9)
            if entity in last:
                before = last[entity]
                at = [each.entity for each in before.devices].index(entity)
                old = before.gpus[at].result
                assert all(
                    new is not None and new >= known
                    for known, new in zip(old.counters.values, account.values, strict=True)
                    if known is not None
                )
                told = [change for change in tick.changes if change.device.entity == entity]
                assert held.changes - old.shown_class.changes == len(told)
                assert [(old.shown_class.workload_class, held.workload_class)] * len(told) == [
                    each[1:3] for each in told
                ]
                assert (held.workload_class != old.shown_class.workload_class) == bool(told)
            last[entity] = tick


def test_a_gpu_of_which_nothing_is_known_is_observed_all_the_same() -> None:
    found = run(sample(float(clock), NOTHING) for clock in range(3))[-1]
    assert counted(found, "workload_class_seconds", "unknown") == 2.0
    assert found.gpus[0].result.counters.value("real_utilization_seconds") is None


def test_a_lost_gpu_keeps_its_counters_and_is_shown_after_the_others() -> None:
    alive, beside = IDLE._replace(temperature_celsius=40.0), BUSY._replace(temperature_celsius=50.0)
    found = run(
        [sample(float(now), alive, beside) for now in range(4)] + [sample(float(now), alive) for now in (4, 5, 6)]
    )
    assert [len(missing_in(tick)) for tick in found] == [0, 0, 0, 0, 1, 1, 1]
    last = found[-1]
    assert (last.devices, dict(missing_in(last))) == ((GPU, OTHER), {1: DAY + 3.0})
    assert counted(last, "observed_seconds", position=1) == 3.0
    assert last.devices == found[-2].devices


def test_a_lost_gpu_that_is_forgotten_leaves_the_others_as_they_are() -> None:
    third = Device(Entity("gpu", "2", "GPU-2"))
    devices = [GPU, OTHER, third]
    readings = [each._replace(temperature_celsius=40.0) for each in (IDLE, BUSY, MEMORY)]
    computer = ComputeLayer(GpuTable())
    computer.compute(sample(0.0, *readings, devices=devices))
    for now in (1.0, 2.0):
        computer.compute(sample(now, readings[1], devices=[OTHER]))
    assert [track.device for track in computer.absent] == [GPU, third]
    removal, tick = computer.forget(computer.absent[0])
    assert removal.device is GPU
    assert tick is not None
    assert (tick.devices, list(missing_in(tick))) == ((OTHER, third), [1])
    assert [len(readings_of(tick)), len(results_of(tick))] == [2, 2]
    assert tick.gpus[0].reading.temperature_celsius == 40.0
    later = computer.compute(sample(3.0, readings[1], devices=[OTHER]))
    assert later.devices == (OTHER, third)


def test_a_gpu_that_is_forgotten_before_any_tick_has_lost_nothing() -> None:
    assert ComputeLayer(GpuTable()).absent == ()


def test_a_sample_that_the_source_repeats_has_the_results_of_new_settings() -> None:
    computer = ComputeLayer(GpuTable())
    first, second = (computer.compute(sample(clock, BUSY)).gpus[0].result for clock in (0.0, 1.0))
    assert second.real_utilization == first.real_utilization
    weights = replace(ComputeSettings().real_utilization, preset="mem")
    computer.table.configure(ComputeSettings(real_utilization=weights))
    third = computer.compute(sample(2.0, BUSY)).gpus[0].result
    assert third.real_utilization == result_of(BUSY, ComputeSettings(real_utilization=weights)).real_utilization
    assert third.real_utilization != second.real_utilization


def test_a_page_whose_first_values_change_soon_repeats_the_next_ones_for_longer() -> None:
    """It is collected each 30 s, and the first one was collected 27 s ago: the energy counter is not stuck."""
    layer = ComputeLayer()
    for clock in range(90):
        collected = (clock + 27) // 30 * 30
        joules, watts = 500.0 * min(collected, 30) + 50.0 * max(collected - 30, 0), 500.0 if collected <= 30 else 50.0
        reading = BUSY._replace(power_watts=watts, energy_joules_total=1e6 + joules)
        tick = layer.compute(sample(1000.0 + clock, reading, devices=[GPU]))
    assert counted(tick, "class_energy_joules", "tensor_heavy_compute") == 500.0 * 30 + 50.0 * 60
