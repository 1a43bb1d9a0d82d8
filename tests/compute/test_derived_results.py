from __future__ import annotations

import pytest

from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.layer import ComputeLayer
from pulsed.compute.settings import ComputeSettings, WorkloadSettings
from pulsed.model.vocabulary import NOTHING, Reading
from pulsed.translate.translator import Translator
from tests.compute.readings import INSTANCE, WHOLE, result_of
from tests.support.ticks import results_of
from tests.translate.build import page_tick


def test_pcie_is_unknown_on_a_whole_gpu_and_absent_from_an_instance() -> None:
    idle = Reading(
        sm_active_ratio=0.0,
        tensor_active_ratio=0.0,
        dram_active_ratio=0.0,
        graphics_engine_active_ratio=0.01,
        fp64_active_ratio=0.0,
    )
    results = [
        result_of(reading, device=device) for device, reading in ((WHOLE, NOTHING), (INSTANCE, idle), (WHOLE, idle))
    ]
    assert [result.workload.raw_class for result in results] == ["unknown", "idle", "unknown"]
    assert [result.real_utilization.ratio.value for result in results] == [None, 0.001, 0.001]


IDLE_PAGE = """\
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-0",modelName="NVIDIA H100 80GB HBM3",Hostname="n"} 0
DCGM_FI_DEV_MEM_COPY_UTIL{gpu="0",UUID="GPU-0",modelName="NVIDIA H100 80GB HBM3",Hostname="n"} 0
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3",Hostname="n"} 0
DCGM_FI_DEV_MEM_COPY_UTIL{gpu="1",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3",Hostname="n"} 2
"""


def test_bounds_that_are_one_number_are_the_value_whatever_the_coverage() -> None:
    """A page with NVML's time shares alone: an idle H100 was `? 0..0` and of unknown class."""
    tick = ComputeLayer(GpuTable()).compute(Translator().translate(page_tick(IDLE_PAGE)))
    idle, open_ended = results_of(tick)
    assert idle.real_utilization.ratio.value == idle.real_utilization.ratio.low == 0.0
    assert idle.real_utilization.ratio.high == pytest.approx(0.005)  # whole percents
    assert idle.real_utilization.coverage == 0.1
    assert (idle.workload.raw_class, idle.shown_class.workload_class) == ("idle", "idle")
    assert open_ended.real_utilization.ratio.value is None
    assert open_ended.workload.candidates == ("idle", "io_or_data_loading")


def test_traffic_needs_a_kernel_or_device_memory() -> None:
    still = Reading(
        sm_active_ratio=0.0,
        tensor_active_ratio=0.0,
        dram_active_ratio=0.0,
        graphics_engine_active_ratio=0.0,
        fp64_active_ratio=0.0,
    )
    assert result_of(still).workload.raw_class == "idle"
    for name in ("dram_active_ratio", "graphics_engine_active_ratio"):
        touched = still._replace(**{name: 0.001})
        assert result_of(touched).workload.candidates == ("idle", "io_or_data_loading")
    measured = still._replace(pcie_transmit_bytes_per_second=2e9)
    assert result_of(measured).workload.raw_class == "io_or_data_loading"
    kempnerpulse = ComputeSettings(workload=WorkloadSettings("kempnerpulse"))
    assert result_of(still, kempnerpulse).workload.candidates == ("idle", "io_or_data_loading")
