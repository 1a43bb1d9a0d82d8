"""Whether a GPU is used: any engine works, in three values over the bounds of the inputs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest

from pulsed.compute.activity import MEDIA, PERCENT_ROUNDING
from pulsed.compute.class_table import ClassThresholds
from pulsed.compute.classifier import has_other_work
from pulsed.compute.derived_results import Deriver, result_of
from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.layer import ComputeLayer
from pulsed.compute.products import PCIE_BYTES_PER_SECOND, memory_bandwidth_of
from pulsed.compute.settings import ComputeSettings, WorkloadSettings
from pulsed.model.gpu import Device, Entity
from pulsed.model.owner import Owner, Owners, Ownership
from pulsed.model.raw_tick import DECIMALS, Layout
from pulsed.model.result import Workload
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import CLASSES, POSITION, Reading
from pulsed.reader.exposition.parser import PageParser, decimals_of
from tests.compute.streams import IDLE, OTHER, activity, counted, sample
from tests.support.ticks import results_of

H100 = Device(Entity("gpu", "0", "GPU-0"), model="NVIDIA H100 80GB HBM3")
L4 = replace(H100, model="NVIDIA L4")
KEMPNERPULSE = ComputeSettings(workload=WorkloadSettings("kempnerpulse"))
STILL = IDLE._replace(memory_utilization_ratio=0.0)
TRANSCODING = STILL._replace(encoder_utilization_ratio=0.85, decoder_utilization_ratio=0.6, memory_used_bytes=4e9)
PCIE = ("pcie_transmit_bytes_per_second", "pcie_receive_bytes_per_second")
POD: Owners = (Owner("pod", "video/transcoder-0/main"),)


def workload(reading: Reading, settings: ComputeSettings | None = None, device: Device = H100) -> Workload:
    return result_of(device, reading, settings or ComputeSettings()).workload


@pytest.mark.parametrize(
    ("changes", "name", "used"),
    [
        ({}, "idle", False),
        ({"encoder_utilization_ratio": 0.049, "nvofa0_active_ratio": 0.04}, "idle", False),
        *(({name: 0.05}, "low_utilization", True) for name in MEDIA),
        ({"nvlink_transmit_bytes_per_second": 0.9e9}, "idle", False),
        ({"nvlink_transmit_bytes_per_second": 1e9}, "idle", True),
        ({"nvlink_receive_bytes_per_second": 20e9}, "idle", True),
        ({"nvlink_bandwidth_bytes_per_second": 2e9}, "idle", True),
        ({PCIE[0]: 1e9}, "io_or_data_loading", True),
        ({"graphics_engine_active_ratio": 0.05}, "low_utilization", True),
        ({PCIE[0]: None, "graphics_engine_active_ratio": 0.01}, "unknown", None),
        ({PCIE[0]: None, "graphics_engine_active_ratio": 0.01, "nvdec0_active_ratio": 0.5}, "unknown", True),
        ({"sm_active_ratio": None, "graphics_engine_active_ratio": 0.9}, "unknown", True),
    ],
)
def test_a_gpu_is_used_when_any_engine_works(changes: dict[str, float | None], name: str, used: bool | None) -> None:
    found = workload(STILL._replace(**changes))
    assert (found.raw_class, found.used) == (name, used)


def test_links_that_are_not_measured_are_no_work_at_any_threshold() -> None:
    thresholds = replace(ClassThresholds(), io_bytes_per_second=0.5)
    reading = STILL._replace(**dict.fromkeys(PCIE, 0.0))
    assert not has_other_work(H100, reading, thresholds)
    assert has_other_work(H100, reading._replace(nvlink_receive_bytes_per_second=1.0), thresholds)


def test_used_is_the_same_in_both_profiles_though_the_class_is_not() -> None:
    found = workload(TRANSCODING, KEMPNERPULSE)
    assert (found.raw_class, found.used) == ("idle", True)


class Watched:
    """A GPU whose samples of 10 s go through the layer."""

    def __init__(self, device: Device, reading: Reading, owners: Owners | None, layout: Layout | None = None) -> None:
        self.layer, self.device, self.reading, self.owners = ComputeLayer(GpuTable()), device, reading, owners
        self.layout = layout
        self.tick = self.after(0)

    def after(self, ticks: int) -> Tick:
        first = getattr(self, "clock", 0.0)
        for at in range(ticks + 1):
            self.clock = first + 10.0 * at
            reading = self.reading._replace(power_watts=60.0 + at % 2, temperature_celsius=40.0 + at % 2)
            given = sample(self.clock, reading, devices=(self.device, OTHER), interval=10.0)
            given.gpus[0].ownership = Ownership(self.owners)
            if self.layout is not None:
                given = replace(given, raw=replace(given.raw, layout=self.layout))
            self.tick = self.layer.compute(given)
        return self.tick


class Idle(NamedTuple):
    """Idle seconds and joules of a GPU after two hours, by kind, and its class."""

    reading: Reading
    owners: Owners | None
    kinds: dict[str, float]
    name: str


@pytest.mark.parametrize(
    "case",
    [
        Idle(TRANSCODING, POD, {}, "low_utilization"),
        Idle(STILL._replace(nvlink_receive_bytes_per_second=5e9), POD, {}, "idle"),
        Idle(STILL, POD, {"held": 7200.0}, "idle"),
        Idle(STILL, (), {"free": 7200.0}, "idle"),
        Idle(STILL._replace(memory_used_bytes=40e9), (), {"held": 7200.0}, "idle"),
        Idle(STILL._replace(memory_used_bytes=None), (), {"free": 7200.0}, "idle"),
        Idle(STILL._replace(memory_used_bytes=None), None, {"unknown": 7200.0}, "idle"),
    ],
    ids=["transcodes", "copies over NVLink", "idle pod", "free", "leaked", "memory unknown", "all unknown"],
)
def test_idle_time_is_that_in_which_the_gpu_is_not_used(case: Idle) -> None:
    watched = Watched(L4, case.reading, case.owners)
    tick = watched.after(720)
    assert {kind: value for kind in ("free", "held", "unknown") if (value := counted(tick, "idle_seconds", kind))} == (
        case.kinds
    )
    assert bool(sum(counted(tick, "idle_energy_joules", kind) for kind in ("free", "held", "unknown"))) == bool(
        case.kinds
    )
    result = tick.gpus[0].result
    assert result.shown_class.workload_class == case.name
    assert result.shown_class.used is not bool(case.kinds)
    kind = next(iter(case.kinds), "busy")
    assert result.use == ("idle" if kind == "unknown" else kind)


def test_a_held_gpu_whose_newest_sample_works_is_not_called_idle_but_held() -> None:
    result = Watched(L4, STILL, POD).after(20).gpus[0].result
    assert result.use == "held"
    assert result._replace(workload=workload(TRANSCODING)).use == "idle"


def test_any_instance_may_be_the_one_that_transcodes() -> None:
    """DCGM measures the media engines of a board as a whole."""
    parts = [Device(Entity("mig", "0", "GPU-0", str(at), "1g.10gb"), model=H100.model) for at in range(2)]
    still, works = Reading(**activity(0.0), memory_used_bytes=1e9), Reading(**activity(0.9))
    for board, used in ((TRANSCODING, [True, None, True]), (STILL, [False, False, True])):
        layer = ComputeLayer(GpuTable())
        for clock in range(4):
            given = sample(clock, board, still, works, devices=(H100, *parts))
            for row in given.gpus[1:]:
                row.ownership = Ownership(POD)
            tick = layer.compute(given)
        assert [result.workload.used for result in results_of(tick)] == used
        assert counted(tick, "idle_seconds", "held", position=1) == (3.0 if used[1] is False else 0.0)


# Printed numbers


@pytest.mark.parametrize(
    ("model", "hidden"),
    [("NVIDIA H100 80GB HBM3", 1.0e9), ("NVIDIA A100-SXM4-80GB", 1.0e9), ("Tesla T4", 0.0), ("Something Else", 1.0e9)],
)
def test_a_printed_zero_hides_traffic_of_half_its_last_digit(model: str, hidden: float) -> None:
    """Three decimals of DRAM activity: 1.67 GB/s of an H100."""
    device, reading = replace(H100, model=model), IDLE._replace(**dict.fromkeys(PCIE))
    for dialect, is_open in (("dmon", hidden > 0.0), ("exporter", False)):
        tick = Watched(device, reading, None, Layout(dialect, ())).tick  # type: ignore[arg-type]
        assert tick.gpus[0].result.workload.candidates == (("idle", "io_or_data_loading") if is_open else ())
        assert tick.gpus[0].result.workload.used is (None if is_open else False)


def test_whole_percents_of_the_driver_alone_still_show_an_idle_gpu() -> None:
    reading = Reading(gpu_utilization_ratio=0.0, memory_utilization_ratio=0.0)
    assert workload(reading).raw_class == "idle"
    assert workload(reading._replace(memory_utilization_ratio=0.01)).used is None


@pytest.mark.parametrize(
    ("numbers", "decimals"),
    [
        (("0.000", "0.001"), 3),
        (("0.0000", "0.5000"), 4),
        (("0.0000", "0.5"), None),
        (("0.000000", "0.123456"), None),
        (("0", "1"), None),
        (("0.0", "0.5"), None),
        (("0.123456789", "0"), None),
    ],
)
def test_the_decimals_of_a_page_are_those_that_it_prints(numbers: Sequence[str], decimals: int | None) -> None:
    page = "".join(f'DCGM_FI_PROF_DRAM_ACTIVE{{gpu="{at}"}} {number}\n' for at, number in enumerate(numbers))
    assert decimals_of(page) == decimals
    layout = PageParser().parse(page.encode()).layout
    assert layout.decimals == decimals
    assert layout.rounding == pytest.approx(0.5 * 10.0 ** -(decimals or DECIMALS["exporter"]))


def random_truth(chance: random.Random) -> Reading:
    """A GPU with little or much activity, exact, as physics has it."""
    scale = chance.choice([1e-4, 1e-3, 0.05, 1.0])
    engine, dram = (chance.choice([0.0, chance.random() * scale]) for _ in range(2))
    sm = engine * chance.random()
    most = min(dram * memory_bandwidth_of(H100.model) + engine * PCIE_BYTES_PER_SECOND, PCIE_BYTES_PER_SECOND)
    return Reading(
        graphics_engine_active_ratio=engine,
        sm_active_ratio=sm,
        tensor_active_ratio=sm * chance.choice([0.0, chance.random()]),
        fp64_active_ratio=sm * chance.choice([0.0, chance.random()]),
        dram_active_ratio=dram,
        gpu_utilization_ratio=engine + (1.0 - engine) * chance.choice([0.0, chance.random()]),
        memory_utilization_ratio=max(min(dram + most / PCIE_BYTES_PER_SECOND, 1.0), dram),
        **{name: most * chance.choice([0.0, 1.0, chance.random()]) for name in PCIE},
    )


def printed(reading: Reading, decimals: int) -> Reading:
    """What a source prints: percents of the driver are whole."""
    digits = {f"{name}_utilization_ratio": 2 for name in ("gpu", "memory")}
    return reading._replace(
        **{
            name: round(value, digits.get(name, decimals))
            for name, at in POSITION.items()
            if name.endswith("_ratio") and (value := reading[at]) is not None
        }
    )


TICKS = 2_400


@pytest.mark.parametrize("decimals", [3, 6])
def test_hiding_inputs_of_printed_ticks_never_leads_to_another_class(decimals: int) -> None:
    chance, deriver, rounding = random.Random(17), Deriver(ComputeSettings()), 0.5 * 10.0**-decimals
    names = [name for name in random_truth(chance)._fields if getattr(random_truth(chance), name) is not None]
    open_ones = 0
    for _ in range(TICKS):
        shown = printed(random_truth(chance), decimals)
        whole = deriver.derive(H100, shown, deriver.bounds(shown), rounding)
        part = shown._replace(**dict.fromkeys(chance.sample(names, chance.randrange(1, len(names)))))
        utilization, found, _ = deriver.derive(H100, part, deriver.bounds(part), rounding)
        assert whole[1].raw_class in (found.candidates or (found.raw_class,)), (shown, part)
        assert found.used in (None, whole[1].used)
        assert utilization.ratio.low - 1e-9 <= whole[0].ratio.low <= utilization.ratio.high + 1e-9, (shown, part)
        open_ones += found.raw_class not in CLASSES
    assert 0 < open_ones < TICKS


def test_half_a_percent_is_what_a_whole_one_hides() -> None:
    assert pytest.approx(0.5 / 100) == PERCENT_ROUNDING
