"""Inputs that are blank, repeated or frozen, as captures and pages through the whole pipeline."""

from __future__ import annotations

import pytest

from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.plausibility_rules import ACTIVITY, RATES
from pulsed.compute.settings import ComputeSettings, WorkloadSettings
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import RawTick
from pulsed.model.result import Result
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import WORKLOAD_CLASSES
from pulsed.reader.exposition.parser import PageParser
from tests.support.nightly import nightly_after
from tests.support.ticks import anomalies_of, results_of

START = 1767225600.0

JOB = {
    "DCGM_FI_DEV_GPU_TEMP": 61.0,
    "DCGM_FI_DEV_GPU_UTIL": 100.0,
    "DCGM_FI_DEV_FB_USED": 60000.0,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.97,
    "DCGM_FI_PROF_SM_ACTIVE": 0.81,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.42,
    "DCGM_FI_PROF_DRAM_ACTIVE": 0.38,
    "DCGM_FI_PROF_SM_OCCUPANCY": 0.3,
    "DCGM_FI_PROF_PCIE_TX_BYTES": 3e8,
    "DCGM_FI_PROF_PCIE_RX_BYTES": 4e8,
}
"""Pages of a training job; power and energy are added."""

HUNG = {
    **JOB,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 1.0,
    **{name: 0.0 for name in JOB if "_PROF_" in name and "GR_ENGINE" not in name},
}
"""All kernels wait for each other: the engine is active, and nothing else is."""

SPINNING = {
    **HUNG,
    "DCGM_FI_PROF_SM_ACTIVE": 0.121,
    "DCGM_FI_PROF_SM_OCCUPANCY": 0.031,
    "DCGM_FI_PROF_DRAM_ACTIVE": 0.002,
}
"""The same with communication kernels that poll memory."""


class Node:
    """A node whose page is read every so often."""

    def __init__(self, interval: float = 1.0, gpus: int = 1, settings: ComputeSettings | None = None) -> None:
        self.interval, self.gpus = interval, gpus
        self.parser, self.pipeline = PageParser(), Pipeline(GpuTable(settings), "node")
        self.polls = 0
        self.joules = [1e6] * gpus
        self.last: Tick | None = None

    def page(self, values: dict[str, float], watts: float) -> dict[str, float]:
        """Values of a GPU that is measured anew: power has noise, and energy grows."""
        self.joules[0] += watts * self.interval
        noisy = watts + self.polls % 7 / 10
        return {
            **values,
            "DCGM_FI_DEV_POWER_USAGE": noisy,
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": round(self.joules[0] * 1000),
        }

    def poll(self, *pages: dict[str, float]) -> Result:
        """Read a page with these values by GPU; return the result of the first GPU."""
        moment = self.polls * self.interval
        self.polls += 1
        text = "".join(
            f'{name}{{gpu="{gpu}",UUID="GPU-{gpu}",modelName="NVIDIA H100 80GB HBM3"}} {values[name]!r}\n'
            for name in dict.fromkeys(name for values in pages for name in values)
            for gpu, values in enumerate(pages)
            if name in values
        )
        read = self.parser.parse(text.encode())
        raw = RawTick(
            "test", Unix(START + moment), Monotonic(moment), self.interval, read.layout, read.values, read.rejected
        )
        self.last = self.pipeline.process(raw)
        return self.last.gpus[0].result


# --- a hung job is work, not an implausible input


@pytest.mark.parametrize("interval", nightly_after(2, [30.0, 15.0, 1.0]))
@pytest.mark.parametrize("hung", [HUNG, SPINNING], ids=["hung", "spinning"])
@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_hung_job_stays_busy_whatever_power_it_had_before(hung: dict[str, float], late: int, interval: float) -> None:
    node = Node(interval)
    for number in range(30):
        node.poll(node.page({**JOB, "DCGM_FI_PROF_SM_ACTIVE": 0.8 + number / 1000}, 620.0))
    for number in range(max(60, round(1000 / interval))):
        result = node.poll(node.page(hung, 620.0 if number < late else 210.0))
        assert node.last is not None
        assert dict(anomalies_of(node.last)) == {}
        assert result.workload.raw_class == "busy_low_sm_use"
    assert result.shown_class.workload_class == "busy_low_sm_use"


def test_a_profile_that_freezes_while_the_job_ends_is_found() -> None:
    node = Node()
    for _ in range(200):
        node.poll(node.page(SPINNING, 620.0))
    for _ in range(200):
        node.poll(node.page({**SPINNING, "DCGM_FI_DEV_GPU_UTIL": 0.0}, 80.0))
    assert node.last is not None
    assert anomalies_of(node.last) == {0: ("profiling_frozen",)}
    assert {getattr(node.last.gpus[0].reading, name) for name in (*ACTIVITY, *RATES)} == {None}


def test_a_reload_keeps_a_proven_stuck_profiler() -> None:
    stuck = {**JOB, **{name: 0.0 for name in JOB if "_PROF_" in name}}
    node = Node()
    for _ in range(20):
        node.poll(node.page(stuck, 620.0))
    assert node.last is not None
    assert anomalies_of(node.last) == {0: ("profiling_stuck_at_zero",)}
    node.pipeline.computer.table.configure(ComputeSettings(workload=WorkloadSettings(hold=3.0)))
    for _ in range(5):
        assert node.poll(node.page(stuck, 620.0)).workload.raw_class == "unknown"
        assert anomalies_of(node.last) == {0: ("profiling_stuck_at_zero",)}


# --- without fresh inputs nothing is ok

STATIC = {
    "DCGM_FI_DEV_POWER_MGMT_LIMIT": 700.0,
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": 0.0,
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0.0,
    "DCGM_FI_DEV_ROW_REMAP_PENDING": 0.0,
    "DCGM_FI_DEV_XID_ERRORS": 0.0,
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 0.0,
    "DCGM_FI_DEV_VGPU_LICENSE_STATUS": 0.0,
}
"""What a driver answers from its memory, also of a GPU that hangs."""

DEFAULT_PAGE = {name: value for name, value in JOB.items() if "SM_" not in name}
"""What dcgm-exporter shows by default: two activity values are neither 0 nor 1."""


def states(node: Node, check: str = "") -> list[str]:
    assert node.last is not None
    healths = [result.health for result in results_of(node.last)]
    return [health.check(check).state if check else health.state for health in healths]


@pytest.mark.parametrize("interval", [1.0, 15.0, 30.0])
def test_vital_fields_blank_on_every_gpu_are_unknown(interval: float) -> None:
    node = Node(interval)
    for _ in range(20):
        node.poll({**node.page(JOB, 600.0), **STATIC}, {**node.page(JOB, 600.0), **STATIC})
    assert states(node) == ["ok", "ok"]
    silent = 0.0
    while silent < 300.0:
        silent += interval
        node.poll(STATIC, STATIC)
        assert states(node) == (["ok"] * 2 if silent <= max(10.0, 3 * interval) else ["unknown"] * 2)
    assert states(node, "telemetry") == ["warn", "warn"]
    assert states(node, "gpu_lost") == ["ok", "ok"]
    node.poll(STATIC, {**STATIC, "DCGM_FI_DEV_ROW_REMAP_FAILURE": 1.0})
    assert states(node) == ["unknown", "crit"]
    node.poll({**node.page(JOB, 600.0), **STATIC}, {**node.page(JOB, 600.0), **STATIC})
    assert states(node) == ["ok", "ok"]


@pytest.mark.slow
@pytest.mark.parametrize("interval", [1.0, 15.0, 60.0])
@pytest.mark.parametrize("values", [DEFAULT_PAGE, JOB, HUNG], ids=["default", "all", "hung"])
def test_a_node_that_is_frozen_for_long_is_unknown(values: dict[str, float], interval: float) -> None:
    node = Node(interval)
    frozen = {**node.page(values, 600.0), **STATIC}
    for number in range(max(40, round(1200.0 / interval))):
        node.poll(frozen, frozen)
        assert states(node) == (["ok"] * 2 if number < 300.0 / interval else ["unknown"] * 2)
    assert states(node, "telemetry") == ["warn", "warn"]
    assert states(node, "gpu_lost") == ["ok", "ok"]
    assert node.last is not None
    assert anomalies_of(node.last) == {0: ("values_frozen",), 1: ("values_frozen",)}
    assert node.last.gpus[0].result.workload.raw_class == "unknown"


def test_a_frozen_gpu_among_live_ones_raises_telemetry() -> None:
    node = Node(15.0)
    frozen = {**node.page(DEFAULT_PAGE, 600.0), **STATIC}
    for _ in range(400):
        node.poll(frozen, {**node.page(DEFAULT_PAGE, 600.0), **STATIC})
    assert states(node) == ["unknown", "ok"]
    assert states(node, "telemetry") == ["warn", "ok"]
    assert states(node, "gpu_lost") == ["ok", "ok"]
    assert node.last is not None
    remedy = node.last.gpus[0].result.health.check("telemetry").remedy
    assert remedy.startswith("Readings are stale: check the host engine or the exporter")
    assert remedy.partition("if it hangs, ")[2].startswith("drain")  # not before
    assert "drain" not in remedy.partition("if it hangs, ")[0]


def test_an_idle_gpu_may_repeat_its_page() -> None:
    idle = {**dict.fromkeys(DEFAULT_PAGE, 0.0), "DCGM_FI_DEV_GPU_TEMP": 31.0, "DCGM_FI_DEV_POWER_USAGE": 61.0}
    node = Node(15.0)
    for _ in range(400):
        node.poll({**idle, **STATIC})
        assert states(node) == ["ok"]


# --- an energy counter that stands still is not zero joules


@pytest.mark.parametrize("stuck_at", [0.0, 319159391.0])
@pytest.mark.parametrize("interval", [1.0, 15.0])
def test_energy_of_a_stuck_counter_comes_from_power(stuck_at: float, interval: float) -> None:
    node = Node(interval)
    for number in range(200):
        values = {**node.page(JOB, 300.0), "DCGM_FI_PROF_SM_ACTIVE": 0.8 + number % 9 / 1000}
        result = node.poll({**values, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": stuck_at})
    joules = sum(result.counters.value("class_energy_joules", name) or 0.0 for name in WORKLOAD_CLASSES)
    assert joules == pytest.approx(300.3 * 199 * interval, rel=1e-3)
    assert result.counters.value("energy_unknown_seconds") == 0.0
