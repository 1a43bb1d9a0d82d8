"""Counters that are 0 although nothing measures them: no ceilings, no idle time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pulsed.compute.layer import ComputeLayer
from pulsed.compute.product_parts import has_profiling, has_quantity
from pulsed.model.gpu import Device, Entity
from pulsed.model.health import CheckState
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import QUANTITIES, WORKLOAD_CLASSES, Reading
from tests.compute.streams import counted, sample
from tests.support.ticks import anomalies_of

CARD = Reading(
    graphics_engine_active_ratio=0.35,
    sm_active_ratio=0.15,
    tensor_active_ratio=0.03,
    dram_active_ratio=0.08,
    gpu_utilization_ratio=0.4,
    power_watts=125.0,
    pcie_transmit_bytes_per_second=0.0,
    pcie_receive_bytes_per_second=0.0,
)
SPARK = Reading(
    gpu_utilization_ratio=0.9,
    memory_utilization_ratio=0.0,
    memory_temperature_celsius=0.0,
    nvlink_bandwidth_bytes_per_second=0.0,
    power_watts=36.0,
    sm_clock_hertz=2.5e9,
)


def last_tick(model: str, readings: Sequence[Reading], interval: float = 30.0) -> Tick:
    """The result of the last of some samples, some seconds apart."""
    layer, device = ComputeLayer(), Device(Entity("gpu", "0", "GPU-0"), model)
    for number, reading in enumerate(readings):
        changing = reading._replace(energy_joules_total=1e6 + 1e3 * number)
        tick = layer.compute(sample(interval * number, changing, devices=(device,), interval=interval))
    return tick


def test_traffic_of_a_working_gpu_that_was_never_counted_is_unknown() -> None:
    dead = last_tick("NVIDIA L40S", [CARD] * 8)
    absent = CARD._replace(pcie_transmit_bytes_per_second=None, pcie_receive_bytes_per_second=None)
    expected = last_tick("NVIDIA L40S", [absent] * 8).gpus[0].result
    assert anomalies_of(dead) == {0: ("pcie_dead",)}
    assert dead.gpus[0].result.workload == expected.workload
    assert dead.gpus[0].result.workload.raw_class == "unknown"


def test_traffic_is_unknown_after_ten_seconds_and_three_samples() -> None:
    assert anomalies_of(last_tick("NVIDIA L40S", [CARD] * 2, 5.0)) == {}
    assert anomalies_of(last_tick("NVIDIA L40S", [CARD] * 3, 5.0)) == {0: ("pcie_dead",)}
    assert anomalies_of(last_tick("NVIDIA L40S", [CARD] * 3, 4.9)) == {}


@pytest.mark.parametrize(
    "readings",
    [
        [CARD._replace(pcie_receive_bytes_per_second=1e6), *[CARD] * 8],
        [CARD._replace(graphics_engine_active_ratio=0.0, gpu_utilization_ratio=0.0, sm_active_ratio=0.0)] * 8,
        [CARD._replace(dram_active_ratio=0.002)] * 8,
        [CARD._replace(c2c_receive_bytes_per_second=1e9)] * 8,
    ],
    ids=["it was counted once", "idle", "kernels spin", "superchip"],
)
def test_traffic_of_0_counts_otherwise(readings: list[Reading]) -> None:
    assert last_tick("NVIDIA L40S", readings).gpus[0].reading.pcie_transmit_bytes_per_second == 0.0


@pytest.mark.parametrize("model", ["NVIDIA GB10", "NVIDIA Thor"])
def test_unified_memory_has_no_memory_counters(model: str) -> None:
    tick = last_tick(model, [SPARK] * 3)
    reading, bounds = tick.gpus[0].reading, tick.gpus[0].result.real_utilization
    assert (reading.memory_utilization_ratio, reading.memory_temperature_celsius) == (None, None)
    assert reading.nvlink_bandwidth_bytes_per_second is None
    assert anomalies_of(tick) == {}
    assert "memory_active" in tick.gpus[0].result.workload.candidates
    assert bounds.ratio.high == pytest.approx(0.9 + 0.005 + 0.05, abs=0.06), "DRAM may be active all the time"
    device = Device(Entity("gpu", "0", "GPU-0"), model)
    assert not has_profiling(device)
    assert not has_quantity(device, "memory_used_bytes")
    assert not has_quantity(device, "ecc_dbe_volatile_total")


def test_a_utilization_of_0_is_no_idle_gpu_while_power_rises() -> None:
    rests = SPARK._replace(gpu_utilization_ratio=0.0, power_watts=10.0, sm_clock_hertz=2.4e9)
    works = SPARK._replace(gpu_utilization_ratio=0.0, power_watts=37.0)
    assert last_tick("NVIDIA GB10", [rests] * 5).gpus[0].result.real_utilization.ratio.high < 1.0
    tick = last_tick("NVIDIA GB10", [*[rests] * 5, *[works] * 5])
    assert anomalies_of(tick) == {0: ("utilization_dead",)}
    assert tick.gpus[0].result.workload.used is None
    assert tick.gpus[0].result.real_utilization.ratio.high == 1.0


@pytest.mark.parametrize(
    ("rest", "work", "is_dead"),  # watts and GHz
    [
        *[((20.0, 2.0), (30.0, 2.0), True), ((20.0, 2.0), (29.9, 2.0), False)],
        *[((40.0, 2.0), (60.0, 2.0), True), ((40.0, 2.0), (59.9, 2.0), False)],
        *[((10.0, 2.0), (20.0, 2.0), True), ((10.0, 2.0), (19.9, 2.0), False)],
        *[((20.0, 2.0), (40.0, 2.2), True), ((20.0, 2.0), (40.0, 2.21), False)],
        *[((20.0, 2.0), (40.0, 1.8), True), ((20.0, 2.0), (40.0, 1.79), False)],
    ],
)
def test_work_has_half_as_much_power_again_and_10_w_more_at_the_same_clock(
    rest: tuple[float, float], work: tuple[float, float], is_dead: bool
) -> None:
    rests, works = [
        SPARK._replace(gpu_utilization_ratio=0.0, power_watts=watts, sm_clock_hertz=gigahertz * 1e9)
        for watts, gigahertz in (rest, work)
    ]
    assert anomalies_of(last_tick("NVIDIA GB10", [rests, works])) == ({0: ("utilization_dead",)} if is_dead else {})
    counted = SPARK._replace(gpu_utilization_ratio=0.01, power_watts=1e3)
    assert anomalies_of(last_tick("NVIDIA GB10", [counted, rests, works])) == {}, "it was counted once"


@pytest.mark.parametrize(
    ("engine", "dram", "is_dead"), [(0.05, 0.02, True), (0.049, 0.02, False), (0.05, 0.019, False)]
)
def test_a_gpu_that_works_has_5_percent_of_engine_and_2_percent_of_memory_activity(
    engine: float, dram: float, is_dead: bool
) -> None:
    profiled = CARD._replace(graphics_engine_active_ratio=engine, dram_active_ratio=dram)
    unprofiled = Reading(
        gpu_utilization_ratio=engine,
        memory_utilization_ratio=dram,
        pcie_transmit_bytes_per_second=0.0,
        pcie_receive_bytes_per_second=0.0,
    )
    for reading in (profiled, unprofiled):
        assert anomalies_of(last_tick("NVIDIA L40S", [reading] * 8)) == ({0: ("pcie_dead",)} if is_dead else {})


IDLE = Reading(
    gpu_utilization_ratio=0.0,
    memory_utilization_ratio=0.0,
    sm_clock_hertz=139e6,
    power_watts=7.5,
    pcie_transmit_bytes_per_second=4.2e9,
    pcie_receive_bytes_per_second=4.4e9,
)
CARD_NAME = "NVIDIA L40S"


def test_gigabytes_over_pcie_of_an_idle_gpu_are_missing_after_a_minute() -> None:
    assert anomalies_of(last_tick(CARD_NAME, [IDLE] * 4, 15.0)) == {}
    tick = last_tick(CARD_NAME, [IDLE] * 5, 15.0)
    assert anomalies_of(tick) == {0: ("traffic_of_idle",)}
    assert tick.gpus[0].result.workload.raw_class == "idle"


@pytest.mark.parametrize("rate", ["nvlink_transmit_bytes_per_second", "c2c_receive_bytes_per_second"])
def test_other_links_of_an_idle_gpu(rate: str) -> None:
    quiet = IDLE._replace(pcie_transmit_bytes_per_second=None, pcie_receive_bytes_per_second=None)
    assert anomalies_of(last_tick("NVIDIA GH200 480GB", [quiet._replace(**{rate: 5e9})] * 8, 15.0)) == {
        0: ("traffic_of_idle",)
    }


@pytest.mark.parametrize(
    "change",
    [
        {"gpu_utilization_ratio": 0.01},
        {"memory_utilization_ratio": 0.02},  # another device writes its memory
        {"memory_utilization_ratio": None},
        {"dram_active_ratio": 0.01},
        {"sm_clock_hertz": 1.4e9},
        {"sm_clock_hertz": None},
        {"sm_clock_hertz": 5e8, "sm_clock_max_hertz": 1e9},
        {"pcie_transmit_bytes_per_second": 5e8, "pcie_receive_bytes_per_second": 5e8},
    ],
)
def test_traffic_that_may_be_real_stays(change: dict[str, float | None]) -> None:
    assert anomalies_of(last_tick(CARD_NAME, [IDLE._replace(**change)] * 8, 15.0)) == {}


@pytest.mark.parametrize(("size", "expected"), [(80e6, {0: ("memory_size_absurd",)}), (5e8, {}), (0.0, {})])
def test_memory_in_another_unit_is_missing(size: float, expected: dict[int, tuple[str, ...]]) -> None:
    tick = last_tick(CARD_NAME, [Reading(memory_bytes=size, memory_used_bytes=0.0)] * 2, 15.0)
    assert anomalies_of(tick) == expected
    assert (tick.gpus[0].reading.memory_bytes is None) is bool(expected)


ZEROS = Reading(
    gpu_utilization_ratio=0.4,
    power_watts=125.0,
    fan_speed_ratio=0.0,
    ecc_mode=0.0,
    ecc_dbe_volatile_total=0.0,
    row_remap_failure=0.0,
    retired_pages_pending=0.0,
    nvlink_bandwidth_bytes_per_second=0.0,
    nvlink_symbol_errors_total=0.0,
    c2c_crc_errors_total=0.0,
    temperature_margin_celsius=0.0,
    power_smoothing_lifetime_remaining_ratio=0.0,
    encoder_utilization_ratio=0.0,
)


@pytest.mark.parametrize(
    ("model", "measured"),
    [
        ("NVIDIA GeForce RTX 4090", "fan temperature_margin"),
        ("NVIDIA A100-SXM4-80GB", "ecc row_remap nvlink_bandwidth"),
        ("NVIDIA H100 80GB HBM3", "ecc row_remap nvlink_bandwidth temperature_margin"),
        ("NVIDIA GB300", "ecc row_remap nvlink c2c temperature_margin power_smoothing"),
        ("NVIDIA L4", "ecc row_remap temperature_margin"),
        ("Tesla V100-SXM2-16GB", "ecc retired nvlink_bandwidth"),
        ("NVIDIA GB10", ""),
        ("a model of next year", "fan ecc row_remap retired nvlink"),
    ],
)
def test_a_0_of_a_part_that_a_product_lacks_is_missing(model: str, measured: str) -> None:
    tick = last_tick(model, [ZEROS] * 2)
    parts = ("fan", "ecc", "row_remap", "retired", "nvlink", "c2c", "temperature_margin", "power_smoothing")
    zeros = {name for name in QUANTITIES if name.startswith(parts) and getattr(ZEROS, name) == 0.0}
    present = {name for name in zeros if getattr(tick.gpus[0].reading, name) == 0.0}
    assert present == {name for name in zeros if name.startswith(tuple(measured.split()) or "-")}
    assert tick.gpus[0].reading.encoder_utilization_ratio == 0.0
    assert anomalies_of(tick) == {}
    assert checks_of(tick)["smoothing_wear"].state == ("crit" if "power_smoothing" in measured else "unknown")


def checks_of(tick: Tick) -> dict[str, CheckState]:
    """The checks of the first GPU, by id."""
    health = tick.gpus[0].result.health
    assert health is not None
    return {check.id: check for check in health.checks}


def test_a_0_is_measured_once_its_part_had_another_value() -> None:
    worn = ZEROS._replace(power_smoothing_lifetime_remaining_ratio=0.4)
    assert checks_of(last_tick("NVIDIA H200", [worn, ZEROS]))["smoothing_wear"].state == "crit"
    on = ZEROS._replace(ecc_mode=1.0)
    checks = checks_of(last_tick("NVIDIA GeForce RTX 4090", [on, on]))
    assert checks["ecc_uncorrectable"].state == "ok", "its memory runs with ECC, which consumer boards hardly have"
    checks = checks_of(last_tick("NVIDIA GeForce RTX 4090", [ZEROS, ZEROS]))
    assert (checks["ecc_uncorrectable"].state, checks["ecc_uncorrectable"].applies) == ("unknown", False)


def test_an_activity_of_0_on_a_product_without_a_profiler_is_no_idle_gpu() -> None:
    relayed = Reading(
        graphics_engine_active_ratio=0.0, sm_active_ratio=0.0, dram_active_ratio=0.0, gpu_utilization_ratio=0.6
    )
    result = last_tick("NVIDIA GeForce RTX 3090", [relayed]).gpus[0].result
    assert result.real_utilization.ratio.high > 0.5
    assert last_tick("NVIDIA A100-SXM4-80GB", [relayed]).gpus[0].result.real_utilization.ratio.high < 0.5


def test_the_parts_of_one_gpu_prove_nothing_of_another() -> None:
    layer = ComputeLayer()
    devices = [Device(Entity("gpu", str(number), f"GPU-{number}"), "NVIDIA L40S") for number in range(2)]
    linked = ZEROS._replace(nvlink_bandwidth_bytes_per_second=1e9)
    for clock, first in enumerate((linked, ZEROS)):
        tick = layer.compute(sample(float(clock), first, ZEROS, devices=devices))
    assert [row.reading.nvlink_bandwidth_bytes_per_second for row in tick.gpus] == [0.0, None]


def energies(joules_per_second: float, *, watts: float = 400.0, samples: int = 4) -> list[Reading]:
    return [
        Reading(power_watts=watts, energy_joules_total=1e6 + 15.0 * joules_per_second * number)
        for number in range(samples)
    ]


@pytest.mark.parametrize(
    ("joules_per_second", "is_absurd"),
    [(400.0, False), (0.4, True), (4e5, True), (60.0, False), (1.9, True), (0.0, False)],
)
def test_energy_in_another_unit_is_missing_before_any_of_it_counts(joules_per_second: float, is_absurd: bool) -> None:
    layer = ComputeLayer()
    for number, reading in enumerate(energies(joules_per_second)):
        tick = layer.compute(sample(15.0 * number, reading, interval=15.0))
        is_missing = tick.gpus[0].reading.energy_joules_total is None
        assert is_missing == (is_absurd and number > 0)
    if is_absurd:
        assert anomalies_of(tick) == {0: ("energy_absurd",)}
        joules = sum(counted(tick, "class_energy_joules", name) for name in WORKLOAD_CLASSES)
        assert joules == pytest.approx(400.0 * 45.0), "by power"


def test_a_job_between_two_samples_of_an_idle_gpu_has_energy() -> None:
    tick = last_tick("NVIDIA GeForce RTX 4090", [IDLE, IDLE], 30.0)
    assert anomalies_of(tick) == {}, "33 W in the mean, at 7.5 W"
