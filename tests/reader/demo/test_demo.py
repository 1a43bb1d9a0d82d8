from __future__ import annotations

import math
import socket
from collections import Counter
from itertools import pairwise
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.errors import ConfigError
from pulsed.reader.demo.scenes import SCENES, Activity, Noise, Wobble, failing_cooling, failing_memory
from pulsed.reader.demo.simulated_gpu import BLANK, RunningIntegral, demo_layout, settled
from pulsed.reader.demo.source import DemoSource, Node
from pulsed.reader.source import Source
from tests.support.sources import FakeClock, cancel_read, turns_during

NODE = Node()
LAYOUT = demo_layout(NODE.labels())
POSITIONS = {
    (series.name.removeprefix("DCGM_FI_"), int(dict(series.labels)["gpu"])): position
    for position, series in enumerate(LAYOUT.series)
}
GPUS = range(8)
TRAINING, INFERENCE, HPC, LOADER, PEER, FORGOTTEN, OVERHEATING, FAILING = GPUS
STORY = 1440
"""Seconds after which all stories stand where they began."""

PIPES = ("PROF_PIPE_TENSOR_ACTIVE", "PROF_PIPE_FP64_ACTIVE", "PROF_PIPE_FP32_ACTIVE", "PROF_PIPE_FP16_ACTIVE")
RATIOS = (
    "PROF_GR_ENGINE_ACTIVE",
    "PROF_SM_ACTIVE",
    "PROF_SM_OCCUPANCY",
    *PIPES,
    "PROF_PIPE_TENSOR_IMMA_ACTIVE",
    "PROF_PIPE_TENSOR_HMMA_ACTIVE",
    "PROF_PIPE_TENSOR_DFMA_ACTIVE",
    "PROF_PIPE_INT_ACTIVE",
    "PROF_DRAM_ACTIVE",
    "DEV_FB_USED_PERCENT",
)


class Page:
    """One tick, asked by field name and GPU."""

    def __init__(self, values: list[float]) -> None:
        self.values = values

    def __call__(self, name: str, gpu: int) -> float:
        return self.values[POSITIONS[name, gpu]]


def pages(seed: int, count: int, interval: float = 1.0) -> list[Page]:
    node = Node(seed)
    return [Page(node.sample(number * interval)) for number in range(count)]


@pytest.fixture(scope="module")
def story() -> list[Page]:
    return pages(0, 2 * STORY)


def paced(time: FakeClock, interval: float = 1.0, start: float | None = None) -> DemoSource:
    return DemoSource(0, interval, start=start, clock=time.clock, sleep=time.sleep, wall=time.wall)


def workload_class(page: Page, gpu: int) -> str:
    """The design's table, written down a second time."""
    gr, sm, tensor, dram, fp64 = (
        100.0 * page(name, gpu)
        for name in (
            "PROF_GR_ENGINE_ACTIVE",
            "PROF_SM_ACTIVE",
            "PROF_PIPE_TENSOR_ACTIVE",
            "PROF_DRAM_ACTIVE",
            "PROF_PIPE_FP64_ACTIVE",
        )
    )
    io = max(page("PROF_PCIE_TX_BYTES", gpu), page("PROF_PCIE_RX_BYTES", gpu)) >= 1e9
    real = 0.35 * sm + 0.35 * tensor + 0.20 * dram + 0.10 * gr
    rules = {
        "idle": real < 5 and gr < 5 and dram < 5 and not io,
        "tensor_heavy_compute": tensor >= 50 and sm >= 60,
        "tensor_compute": tensor >= 15 and sm >= 40,
        "fp64_hpc_compute": fp64 >= 20 and sm >= 50,
        "io_or_data_loading": io and sm < 30,
        "memory_bound": dram >= 50 and sm < 50,
        "compute_heavy": sm >= 80,
        "compute_active": sm >= 50,
        "memory_active": dram >= 40,
        "busy_low_sm_use": gr >= 40 and sm < 25,
        "low_utilization": gr < 15 and sm < 15 and dram < 15,
        "mixed_or_moderate": True,
    }
    return next(name for name, matches in rules.items() if matches)


def is_profiled(page: Page, gpu: int) -> bool:
    return page("PROF_SM_ACTIVE", gpu) == BLANK


def shares(story: list[Page], gpu: int) -> dict[str, float]:
    counts = Counter(workload_class(page, gpu) for page in story if not is_profiled(page, gpu))
    return {name: count / counts.total() for name, count in counts.items()}


# The page


def test_every_series_says_that_it_is_a_demo() -> None:
    assert LAYOUT.dialect == "exporter"
    for series in LAYOUT.series:
        labels = dict(series.labels)
        assert series.name.startswith(("DCGM_FI_DEV_", "DCGM_FI_PROF_"))
        assert labels["Hostname"] == "demo"
        assert labels["modelName"] == "NVIDIA H100 80GB HBM3 (demo)"
        assert labels["UUID"] == f"GPU-de300000-0000-4000-8000-{int(labels['gpu']):012d}"
        assert labels["device"] == f"nvidia{labels['gpu']}"
        if "pod" in labels:  # not a Slurm job
            assert labels["pod"].startswith("demo-")
            assert labels["namespace"] == "demo"
            assert labels["container"].isalpha()


def test_every_gpu_has_every_field_once() -> None:
    assert len(POSITIONS) == len(GPUS) * len(LAYOUT.help)
    assert len(LAYOUT.series) == sum(scene.rows for scene in SCENES) * len(LAYOUT.help)
    assert set(LAYOUT.help) == set(LAYOUT.types) == {series.name for series in LAYOUT.series}
    assert len(Node(0).sample(0.0)) == len(LAYOUT.series)
    buses = {dict(series.labels)["pci_bus_id"] for series in LAYOUT.series}
    assert len(buses) == len(GPUS)


def owners(t: float, node: Node = NODE) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {gpu: [] for gpu in GPUS}
    for labels in map(dict, node.labels(t)):
        if owner := labels.get("hpc_job") or labels.get("pod"):
            found[int(labels["gpu"])].append(owner)
    return found


def test_gpus_have_owners_and_one_is_shared() -> None:
    found = owners(0.0)
    assert [gpu for gpu in GPUS if not found[gpu]] == [OVERHEATING]
    assert [gpu for gpu in GPUS if len(found[gpu]) > 1] == [INFERENCE]
    assert [gpu for gpu in GPUS if found[gpu] == ["4711"]] == [TRAINING, PEER, FAILING]


@pytest.mark.slow
def test_jobs_and_pods_come_and_go_with_their_work(story: list[Page]) -> None:
    for gpu, turn in ((HPC, 480), (LOADER, 240)):
        names = [tuple(owners(float(t))[gpu]) for t in range(2 * turn)]
        assert len(set(names)) == 3
        assert names.count(()) == 20
        for name, page in zip(names, story, strict=False):
            assert (page("PROF_GR_ENGINE_ACTIVE", gpu) == 0.0) == (name == ())
    assert owners(500.0)[HPC] == ["4712_2"]
    assert owners(0.0, Node(1))[LOADER] != owners(0.0)[LOADER]


async def test_the_layout_changes_with_the_owners() -> None:
    source = DemoSource(pace=False)
    ticks = [await source.read() for _ in range(481)]
    changes = [at for at in range(1, 481) if ticks[at].layout is not ticks[at - 1].layout]
    assert changes == [230, 240, 470, 480]
    assert all(len(tick.values) == len(tick.layout.series) for tick in ticks)


# The same for the same seed


async def test_two_sources_with_one_seed_agree_tick_by_tick() -> None:
    one, other = (DemoSource(7, pace=False, start=5.0) for _ in range(2))
    for _ in range(200):
        left, right = await one.read(), await other.read()
        assert left.values == right.values
        assert (left.time, left.clock) == (right.time, right.clock)


def test_another_seed_draws_other_noise_for_every_gpu() -> None:
    one, other = Page(Node(1).sample(50.5)), Page(Node(2).sample(50.5))
    for gpu in GPUS:
        assert one("DEV_POWER_USAGE", gpu) != other("DEV_POWER_USAGE", gpu)


def test_an_instant_does_not_depend_on_what_was_read_before() -> None:
    walked = Node(3)
    for second in range(100):
        walked.sample(float(second))
    assert walked.sample(100.0) == Node(3).sample(100.0)


async def test_a_tick_is_its_instant_at_any_interval() -> None:
    node = Node(0)
    for interval in (0.1, 1.0, 15.0):
        source = DemoSource(0, interval, pace=False)
        for number in range(20):
            assert (await source.read()).values == node.sample(number * interval)


@pytest.mark.slow
@pytest.mark.parametrize("interval", [0.5, 5.0, 15.0])
def test_other_intervals_tell_the_same_story(story: list[Page], interval: float) -> None:
    seen = pages(0, round(STORY / interval), interval)
    for gpu in GPUS:
        expected, found = shares(story, gpu), shares(seen, gpu)
        usual = max(expected, key=expected.__getitem__)
        assert found[usual] == pytest.approx(expected[usual], abs=0.12)


# Physics


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "interval"), [(0, 1.0), (1, 0.37)])
def test_physics_holds_at_every_tick(seed: int, interval: float) -> None:
    for page in pages(seed, 1500, interval):
        for gpu in GPUS:
            if not is_profiled(page, gpu):
                for name in RATIOS:
                    assert 0.0 <= page(name, gpu) <= 1.0
                sm = page("PROF_SM_ACTIVE", gpu)
                assert page("PROF_GR_ENGINE_ACTIVE", gpu) >= sm
                assert sm >= max(page(name, gpu) for name in (*PIPES, "PROF_SM_OCCUPANCY"))
                assert 100.0 >= page("DEV_GPU_UTIL", gpu) >= 100.0 * page("PROF_GR_ENGINE_ACTIVE", gpu)
                assert 100.0 >= page("DEV_MEM_COPY_UTIL", gpu) >= 100.0 * page("PROF_DRAM_ACTIVE", gpu)
                tensor = page("PROF_PIPE_TENSOR_HMMA_ACTIVE", gpu) + page("PROF_PIPE_TENSOR_IMMA_ACTIVE", gpu)
                assert tensor == pytest.approx(page("PROF_PIPE_TENSOR_ACTIVE", gpu), abs=2e-6)
            memory = [page(f"DEV_FB_{part}", gpu) for part in ("USED", "FREE", "RESERVED")]
            assert min(memory) >= 0.0
            assert sum(memory) == page("DEV_FB_TOTAL", gpu) == 81559.0
            assert 110.0 <= page("DEV_POWER_USAGE", gpu) <= page("DEV_ENFORCED_POWER_LIMIT", gpu) == 700.0
            assert 0.0 < page("DEV_SM_CLOCK", gpu) <= page("DEV_MAX_SM_CLOCK", gpu)
            assert 27.0 <= page("DEV_GPU_TEMP", gpu) < page("DEV_SHUTDOWN_TEMP", gpu)
            assert page("DEV_GPU_TEMP_LIMIT", gpu) == page("DEV_GPU_MAX_OP_TEMP", gpu) - page("DEV_GPU_TEMP", gpu)


def test_counts_megabytes_and_megahertz_are_whole_numbers_as_dcgm_has_them(story: list[Page]) -> None:
    fractional = {*RATIOS, "DEV_POWER_USAGE"}
    for page in story[::97]:
        for (name, _), position in POSITIONS.items():
            assert name in fractional or page.values[position].is_integer()


def test_energy_is_the_integral_of_power(story: list[Page]) -> None:
    for gpu in GPUS:
        for page, after in pairwise(story):
            joules = (after("DEV_TOTAL_ENERGY_CONSUMPTION", gpu) - page("DEV_TOTAL_ENERGY_CONSUMPTION", gpu)) / 1e3
            if joules > 0.0:
                watts = (page("DEV_POWER_USAGE", gpu) + after("DEV_POWER_USAGE", gpu)) / 2.0
                assert joules == pytest.approx(watts, abs=0.01)


def test_counters_only_fall_where_the_failing_gpu_is_reset(story: list[Page]) -> None:
    counters = [name.removeprefix("DCGM_FI_") for name, kind in LAYOUT.types.items() if kind == "counter"]
    assert "DEV_TOTAL_ENERGY_CONSUMPTION" in counters
    for second, (page, after) in enumerate(pairwise(story), start=1):
        for gpu in GPUS:
            if gpu == FAILING and second % 480 == 0:
                assert after("DEV_TOTAL_ENERGY_CONSUMPTION", gpu) == 0.0
                continue
            for name in counters:
                assert after(name, gpu) >= page(name, gpu)


def test_power_follows_what_the_gpu_does(story: list[Page]) -> None:
    mean = [sum(page("DEV_POWER_USAGE", gpu) for page in story) / len(story) for gpu in GPUS]
    assert 113.0 < mean[FORGOTTEN] < 117.0
    assert mean[FORGOTTEN] < mean[LOADER] < mean[HPC] < mean[TRAINING]
    assert mean[FAILING] < 0.8 * mean[PEER]


def test_the_die_warms_up_slowly(story: list[Page]) -> None:
    for gpu in GPUS:
        steps = [abs(after("DEV_GPU_TEMP", gpu) - page("DEV_GPU_TEMP", gpu)) for page, after in pairwise(story)]
        assert max(steps) <= 2.0


def test_a_power_cap_lowers_clocks_and_is_counted(story: list[Page]) -> None:
    capped = [page for page in story if int(page("DEV_CLOCKS_EVENT_REASONS", TRAINING)) & 0x4]
    assert 0.01 < len(capped) / len(story) < 0.3
    assert all(page("DEV_POWER_USAGE", TRAINING) == 700.0 for page in capped)
    assert any(page("DEV_SM_CLOCK", TRAINING) < 1980.0 for page in capped)
    grown = story[-1]("DEV_POWER_VIOLATION", TRAINING) - story[0]("DEV_POWER_VIOLATION", TRAINING)
    assert grown / 1e9 == pytest.approx(len(capped), abs=3.0)


@given(
    st.fixed_dictionaries(
        {
            name: st.floats(-1.0, 3.0) if name.endswith(("_ACTIVE", "_OCCUPANCY")) else st.floats(-1e9, 1e12)
            for name in SCENES[TRAINING].activity(0.0, Wobble(0.0, 0.0, 0.0))
        }
    )
)
def test_any_activity_is_settled_into_a_possible_one(wanted: Activity) -> None:
    found = settled(wanted)
    sm = found["PROF_SM_ACTIVE"]
    assert 1.0 >= found["PROF_GR_ENGINE_ACTIVE"] >= sm
    assert sm >= max(found[name] for name in (*PIPES, "PROF_PIPE_INT_ACTIVE", "PROF_SM_OCCUPANCY"))
    assert min(found.values()) >= 0.0
    assert found["PROF_PIPE_TENSOR_IMMA_ACTIVE"] <= found["PROF_PIPE_TENSOR_ACTIVE"]


def test_an_integral_continues_over_its_period_and_before_zero() -> None:
    integral = RunningIntegral.from_rates([1.0, 3.0, 2.0, 0.0])
    assert [integral.at(float(t)) for t in range(6)] == [0.0, 2.0, 4.5, 5.5, 6.0, 8.0]
    assert integral.at(0.5) == 1.0
    assert integral.at(-1.0) == -0.5
    assert integral.at(4e6) == 6e6


@given(st.floats(0.0, 1e6))
def test_noise_is_bounded_periodic_and_smooth(t: float) -> None:
    noise = Noise.drawn("test", 100.0, 5.0)
    assert -1.0 <= noise.at(t) <= 1.0
    assert noise.at(t + 100.0) == pytest.approx(noise.at(t), abs=1e-6)
    assert abs(noise.at(t + 0.01) - noise.at(t)) < 0.01


# Each GPU's story


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpu", "usual", "at_least"),
    [
        (TRAINING, "tensor_heavy_compute", 0.75),
        (HPC, "fp64_hpc_compute", 0.97),
        (LOADER, "io_or_data_loading", 0.95),
        (PEER, "tensor_heavy_compute", 0.75),
        (FORGOTTEN, "idle", 1.0),
        (OVERHEATING, "compute_heavy", 0.7),
        (FAILING, "compute_active", 0.7),
    ],
)
@pytest.mark.parametrize("seed", [0, 11])
def test_a_gpu_mostly_does_what_it_stands_for(seed: int, gpu: int, usual: str, at_least: float) -> None:
    assert shares(pages(seed, STORY // 3), gpu)[usual] >= at_least


def test_training_pauses_for_checkpoints_and_for_its_loader(story: list[Page]) -> None:
    waiting = [page for page in story if workload_class(page, TRAINING) == "io_or_data_loading"]
    assert 0.05 < len(waiting) / len(story) < 0.25
    directions = {page("PROF_PCIE_TX_BYTES", TRAINING) > page("PROF_PCIE_RX_BYTES", TRAINING) for page in waiting}
    assert directions == {True, False}


def test_inference_alternates_between_prompts_answers_and_silence(story: list[Page]) -> None:
    found = shares(story, INFERENCE)
    assert found["tensor_compute"] > 0.1
    assert found["memory_bound"] > 0.3
    assert found["idle"] > 0.2


def test_a_profiler_takes_the_counters_of_the_solver_for_two_minutes_of_eight(story: list[Page]) -> None:
    profiling = [name for name, _ in POSITIONS if name.startswith("PROF_")]
    for second, page in enumerate(story):
        is_blank = 180 <= second % 480 < 300
        assert {page(name, HPC) == BLANK for name in profiling} == {is_blank}
        assert page("DEV_GPU_UTIL", HPC) <= 100.0
        assert [name for name, gpu in POSITIONS if gpu != HPC and page(name, gpu) == BLANK] == []


def test_the_forgotten_gpu_is_exactly_idle_but_held(story: list[Page]) -> None:
    for page in story:
        assert {page(name, FORGOTTEN) for name in RATIOS[:-1]} == {0.0}
        assert page("DEV_GPU_UTIL", FORGOTTEN) == 0.0
        assert page("DEV_FB_USED", FORGOTTEN) == 40 * 1024
        assert int(page("DEV_CLOCKS_EVENT_REASONS", FORGOTTEN)) == 0x1
    assert len({page("DEV_POWER_USAGE", FORGOTTEN) for page in story}) > 100


def temperature_band(page: Page) -> str:
    margin = page("DEV_GPU_TEMP_LIMIT", OVERHEATING)
    offset = page("DEV_GPU_MAX_OP_TEMP", OVERHEATING) - page("DEV_SLOWDOWN_TEMP", OVERHEATING)
    return "crit" if margin <= offset else "hot" if margin <= 0 else "warn" if margin <= 5 else "normal"


def test_the_overheating_gpu_visits_every_band_and_returns(story: list[Page]) -> None:
    bands = [temperature_band(page) for page in story[:721]]
    visited = [band for band, before in zip(bands, ["", *bands], strict=False) if band != before]
    once = ["normal", "warn", "hot", "crit", "hot", "warn"]
    assert visited == [*once, *once, "normal"]
    # The checks want 10 to 30 s of a condition before they believe it.
    assert min(bands[:230].count(band) for band in ("normal", "warn", "hot")) >= 30
    assert bands[:360].count("crit") >= 40


def test_heat_lowers_clocks_names_the_reason_and_is_counted(story: list[Page]) -> None:
    expected = {"normal": 0, "warn": 0, "hot": 0x20, "crit": 0x68}
    for page in story:
        reasons = int(page("DEV_CLOCKS_EVENT_REASONS", OVERHEATING))
        assert reasons & 0x68 == expected[temperature_band(page)]
        clock = page("DEV_SM_CLOCK", OVERHEATING)
        assert (clock < 1980.0) == bool(reasons & 0x20)
        if reasons & 0x40:
            assert clock <= 1980.0 / 2.0
    held = sum(bool(int(page("DEV_CLOCKS_EVENT_REASONS", OVERHEATING)) & 0x60) for page in story)
    assert story[-1]("DEV_THERMAL_VIOLATION", OVERHEATING) / 1e9 == pytest.approx(held, abs=3.0)
    assert all(story[-1]("DEV_THERMAL_VIOLATION", gpu) == 0.0 for gpu in GPUS if gpu != OVERHEATING)


def test_cooling_repeats_and_never_reaches_shutdown() -> None:
    temperatures = [failing_cooling(t / 4.0) for t in range(4 * 720)]
    assert temperatures[: 4 * 360] == temperatures[4 * 360 :]
    assert max(temperatures) < 95.0
    assert failing_cooling(360.0) == failing_cooling(0.0) == 62.0


def test_the_failing_memory_goes_from_corrected_errors_to_a_reset(story: list[Page]) -> None:
    for cycle in range(3):
        one = story[cycle * 480 : (cycle + 1) * 480]
        xids = [page("DEV_XID_ERRORS", FAILING) for page in one]
        assert [code for code, before in zip(xids, [-1.0, *xids], strict=False) if code != before] == [0, 63, 94, 48]
        corrected = [page("DEV_ECC_SBE_VOL_TOTAL", FAILING) for page in one]
        assert corrected[0] == 0.0
        assert corrected[-1] > 300.0
        for page, code in zip(one, xids, strict=True):
            assert page("DEV_ROW_REMAP_PENDING", FAILING) == (code != 0.0)
            assert page("DEV_ECC_DBE_VOL_TOTAL", FAILING) == {0.0: 0, 63.0: 0, 94.0: 1, 48.0: 2}[code]
            assert page("DEV_GET_GPU_RECOVERY_ACTION", FAILING) == (code == 48.0)


def test_a_reset_keeps_what_belongs_to_the_board(story: list[Page]) -> None:
    before, after = story[479], story[480]
    for name in ("ECC_SBE_AGG_TOTAL", "ECC_DBE_AGG_TOTAL", "UNCORRECTABLE_REMAPPED_ROWS", "CORRECTABLE_REMAPPED_ROWS"):
        assert after(f"DEV_{name}", FAILING) >= before(f"DEV_{name}", FAILING) > 0.0
    for name in ("ECC_SBE_VOL_TOTAL", "ECC_DBE_VOL_TOTAL", "ROW_REMAP_PENDING", "XID_ERRORS"):
        assert after(f"DEV_{name}", FAILING) == 0.0 < before(f"DEV_{name}", FAILING)


def test_remapped_rows_never_reach_the_limit_however_long_the_demo_runs() -> None:
    assert max(failing_memory(480.0 * cycle + 479.0)["DEV_UNCORRECTABLE_REMAPPED_ROWS"] for cycle in range(2000)) < 512


def test_all_other_gpus_are_free_of_errors(story: list[Page]) -> None:
    for page in story[::10]:
        for gpu in set(GPUS) - {FAILING}:
            for name in ("XID_ERRORS", "ECC_SBE_VOL_TOTAL", "ECC_DBE_AGG_TOTAL", "ROW_REMAP_PENDING"):
                assert page(f"DEV_{name}", gpu) == 0.0


# The source


async def test_it_is_a_source_called_demo() -> None:
    source: Source = DemoSource(pace=False)
    assert (source.kind, source.target, source.interval) == ("demo", "demo", 1.0)
    tick = await source.read()
    assert (tick.target, tick.interval, dict(tick.rejected)) == ("demo", 1.0, {})
    await source.close()
    await source.close()


async def test_every_tick_carries_the_same_layout_object() -> None:
    source = DemoSource(pace=False)
    layouts = {id((await source.read()).layout) for _ in range(50)}
    assert len(layouts) == 1


async def test_the_first_tick_comes_at_once_and_the_others_at_their_time() -> None:
    time = FakeClock(1000.0)
    source = paced(time, 0.5)
    ticks = [await source.read() for _ in range(4)]
    assert time.slept == [0.0, 0.5, 0.5, 0.5]
    assert [tick.clock for tick in ticks] == [1000.0, 1000.5, 1001.0, 1001.5]
    assert [tick.time for tick in ticks] == [1_700_001_000.0 + 0.5 * number for number in range(4)]


async def test_the_time_a_reader_takes_is_not_added_to_the_interval() -> None:
    time = FakeClock(1000.0)
    source = paced(time)
    await source.read()
    time.now += 0.25
    await source.read()
    assert time.slept == [0.0, 0.75]


async def test_a_late_reader_gets_the_tick_that_is_due_and_no_burst() -> None:
    time = FakeClock(1000.0)
    source = paced(time)
    await source.read()
    time.now += 10.25
    late, following = await source.read(), await source.read()
    assert time.slept == [0.0, 0.0, 0.75]
    assert (late.clock, following.clock) == (1010.0, 1011.0)
    assert late.values == Node(0).sample(10.0)
    assert late.time == 1_700_001_010.0


async def test_a_given_start_stamps_every_tick() -> None:
    ticks = [await source.read() for source in [paced(FakeClock(1000.0), 2.0, start=100.0)] for _ in range(3)]
    assert [tick.time for tick in ticks] == [100.0, 102.0, 104.0]


async def test_without_pace_nothing_is_waited_for_and_time_still_passes() -> None:
    time = FakeClock(1000.0)
    source = DemoSource(0, 15.0, pace=False, clock=time.clock, sleep=time.sleep, wall=time.wall)
    ticks = [await source.read() for _ in range(3)]
    assert time.slept == [0.0, 0.0, 0.0]
    assert [tick.clock for tick in ticks] == [0.0, 15.0, 30.0]
    assert [tick.time - ticks[0].time for tick in ticks] == [0.0, 15.0, 30.0]


async def test_a_cancelled_wait_loses_no_tick() -> None:
    time = FakeClock(1000.0)
    source = paced(time)
    await source.read()
    await cancel_read(source, time)
    assert (await source.read()).clock == 1001.0


async def test_other_tasks_get_their_turn_between_two_ticks() -> None:
    _, turns = await turns_during(DemoSource(pace=False), 20)
    assert turns >= 19


async def test_it_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("the demo opened a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert len((await DemoSource(pace=False).read()).values) == len(LAYOUT.series)


@pytest.mark.parametrize("interval", [0.0, -1.0, math.inf, math.nan])
def test_an_impossible_interval_is_refused(interval: float) -> None:
    with pytest.raises(ConfigError, match=r"source\.interval"):
        DemoSource(0, interval)


def test_there_is_one_scene_per_gpu_with_whole_knots_of_noise() -> None:
    assert len(SCENES) == len(GPUS)
    assert all(scene.period % 20.0 == 0.0 for scene in SCENES)
