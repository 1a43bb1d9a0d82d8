"""Processors of superchips: rows of dcgm-exporter's pages beside those of GPUs."""

from __future__ import annotations

import pytest

from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.host import CpuReading
from pulsed.model.raw_tick import RawTick
from pulsed.reader.exposition.parser import PageParser

GPU = 'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0",modelName="NVIDIA GB200",Hostname="n1"} 40\n'
BLANK = 9223372036854775794


def cpus(rows: str) -> tuple[CpuReading, ...]:
    read = PageParser().parse((GPU + rows).encode())
    raw = RawTick("t", Unix(1767225600.0), Monotonic(0.0), 15.0, read.layout, read.values, read.rejected)
    return Pipeline(GpuTable(), "here").process(raw).cpus


@pytest.mark.parametrize(
    ("temperature", "power", "host"),
    [
        ("CPU_TEMP_CURRENT", "CPU_POWER_UTIL_CURRENT", 'Hostname="n1"'),
        ("CPU_TEMP_CELSIUS", "CPU_POWER_WATTS", 'hostname="n1",cpu_serial="7"'),
    ],
)
def test_both_spellings_of_every_field(temperature: str, power: str, host: str) -> None:
    found = cpus(
        f'DCGM_FI_DEV_{temperature}{{cpu="0",{host}}} 61\n'
        f'DCGM_FI_DEV_{power}{{cpu="0",{host}}} 142.5\n'
        f'DCGM_FI_DEV_SYSIO_POWER_UTIL_CURRENT{{cpu="0",{host}}} 30\n'
        f'DCGM_FI_DEV_MODULE_POWER_UTIL_CURRENT{{cpu="1",{host}}} 2300\n'
    )
    assert found == (
        CpuReading("n1", "0", temperature_celsius=61.0, power_watts=142.5, io_power_watts=30.0),
        CpuReading("n1", "1", module_power_watts=2300.0),
    )


def test_blank_values_cores_and_rows_without_a_host() -> None:
    assert cpus(f'DCGM_FI_DEV_CPU_POWER_UTIL_CURRENT{{cpu="0"}} {BLANK}\n') == ()
    for watts, is_known in ((0, True), (100_000, True), (100_001, False), (-1, False)):
        assert bool(cpus(f'DCGM_FI_DEV_CPU_POWER_WATTS{{cpu="0"}} {watts}\n')) is is_known
    assert cpus('DCGM_FI_DEV_CPU_TEMP_CURRENT{cpucore="3",cpu="0"} 60\n') == ()
    assert cpus('DCGM_FI_DEV_CPU_POWER_LIMIT{cpu="0"} 250\n') == (CpuReading("here", "0", power_limit_watts=250.0),)
