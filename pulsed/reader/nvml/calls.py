"""NVML's calls for a GPU, and DCGM's metrics with the same meaning: one row per call, values in DCGM's units.

PCIe throughput is not among them: that call takes 20 ms per direction.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from pulsed.reader.nvml.field_values import FAST, RARE, SECOND, SLOW
from pulsed.reader.nvml.library import CORRUPTED_INFOROM

Handle = Any
"""A device handle of NVML, opaque."""

Read = Callable[[ModuleType, Handle], Sequence[float | None]]
"""Call NVML for a device; return the numbers in the order of the row's names. Raises `NVMLError`."""

_MEBIBYTE = 1048576.0


@dataclass(frozen=True, slots=True, eq=False)
class DriverCall:
    """A call and what it fills.

    Attributes:
        every: how often, seconds; see `field_values.FAST`.
        names: DCGM's metrics, in the order of the numbers.
        reads: the call, then what older drivers have instead.
        backup: only called while the first name has no value, of a field or of an earlier row.
        instance: whether MIG instances answer it, too.
    """

    every: float
    names: tuple[str, ...]
    reads: tuple[Read, ...]
    backup: bool = False
    instance: bool = False


def _memory(nvml: ModuleType, handle: Handle) -> Sequence[float | None]:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2)
    return [number / _MEBIBYTE for number in (memory.total, memory.free, memory.used, memory.reserved)]


def _memory_v1(nvml: ModuleType, handle: Handle) -> Sequence[float | None]:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)  # here, the memory in use contains the reserved one
    return [memory.total / _MEBIBYTE, memory.free / _MEBIBYTE, memory.used / _MEBIBYTE, None]


def _bar1(nvml: ModuleType, handle: Handle) -> Sequence[float | None]:
    memory = nvml.nvmlDeviceGetBAR1MemoryInfo(handle)
    return [number / _MEBIBYTE for number in (memory.bar1Total, memory.bar1Used, memory.bar1Free)]


def _utilization(nvml: ModuleType, handle: Handle) -> Sequence[float | None]:
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    return (rates.gpu, rates.memory)


def _inforom(nvml: ModuleType, handle: Handle) -> Sequence[float | None]:
    try:
        nvml.nvmlDeviceValidateInforom(handle)
    except nvml.NVMLError as error:
        if error.value != CORRUPTED_INFOROM:
            raise
        return (0.0,)
    return (1.0,)


def _spare_rows(nvml: ModuleType, handle: Handle) -> Sequence[float | None]:
    banks = nvml.nvmlDeviceGetRowRemapperHistogram(handle)
    return (banks.max, banks.high, banks.partial, banks.low, banks.none)


def _sram_errors(corrected: int, lifetime: int, nvml: ModuleType, handle: Handle) -> Sequence[float | None]:
    return (nvml.nvmlDeviceGetMemoryErrorCounter(handle, corrected, lifetime, nvml.NVML_MEMORY_LOCATION_SRAM),)


def _sram_threshold(nvml: ModuleType, handle: Handle) -> Sequence[float | None]:
    status = nvml.c_nvmlEccSramErrorStatus_v1_t()
    nvml.nvmlDeviceGetSramEccErrorStatus(handle, ctypes.byref(status))
    return (status.bThresholdExceeded,)


def _fabric(version: str, nvml: ModuleType, handle: Handle) -> Sequence[float | None]:
    fabric = getattr(nvml, f"c_nvmlGpuFabricInfo_{version}_t")()
    fabric.version = getattr(nvml, f"nvmlGpuFabricInfo_{version}")
    nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(fabric))
    is_failed = fabric.state == nvml.NVML_GPU_FABRIC_STATE_COMPLETED and fabric.status != 0
    # DCGM: 3 is success, 4 failure; a registration without an end has no error code.
    status = 4 if is_failed else fabric.state
    done = fabric.state == nvml.NVML_GPU_FABRIC_STATE_COMPLETED
    return (status, fabric.status if done else None, fabric.healthMask, getattr(fabric, "healthSummary", None))


def _one(function: str, *arguments: int) -> Read:
    """Return a read of a function that returns one number."""

    def read(nvml: ModuleType, handle: Handle) -> Sequence[float | None]:
        return (getattr(nvml, function)(handle, *arguments),)

    return read


def _first(function: str) -> Read:
    """Return a read of a function whose first result counts."""

    def read(nvml: ModuleType, handle: Handle) -> Sequence[float | None]:
        return getattr(nvml, function)(handle)[:1]  # type: ignore[no-any-return]

    return read


def _milliwatts(nvml: ModuleType, handle: Handle) -> Sequence[float | None]:
    return (nvml.nvmlDeviceGetPowerUsage(handle) / 1000.0,)


def _limit_milliwatts(nvml: ModuleType, handle: Handle) -> Sequence[float | None]:
    return (nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000.0,)


def _call(every: float, names: str, *reads: Read, backup: bool = False, instance: bool = False) -> DriverCall:
    return DriverCall(every, tuple(f"DCGM_FI_DEV_{name}" for name in names.split()), reads, backup, instance)


CALLS: tuple[DriverCall, ...] = (
    _call(FAST, "FB_TOTAL FB_FREE FB_USED FB_RESERVED", _memory, _memory_v1, instance=True),
    _call(FAST, "SM_CLOCK", _one("nvmlDeviceGetClockInfo", 1)),
    _call(FAST, "MEM_CLOCK", _one("nvmlDeviceGetClockInfo", 2)),
    _call(SECOND, "VIDEO_CLOCK", _one("nvmlDeviceGetClockInfo", 3)),
    _call(
        FAST,
        "CLOCKS_EVENT_REASONS",
        _one("nvmlDeviceGetCurrentClocksEventReasons"),
        _one("nvmlDeviceGetCurrentClocksThrottleReasons"),
    ),
    _call(FAST, "GPU_TEMP", _one("nvmlDeviceGetTemperatureV", 0), _one("nvmlDeviceGetTemperature", 0)),
    _call(FAST, "POWER_USAGE", _milliwatts, backup=True),
    _call(FAST, "TOTAL_ENERGY_CONSUMPTION", _one("nvmlDeviceGetTotalEnergyConsumption"), backup=True),
    _call(SECOND, "GPU_UTIL MEM_COPY_UTIL", _utilization),
    _call(SECOND, "ENC_UTIL", _first("nvmlDeviceGetEncoderUtilization")),
    _call(SECOND, "DEC_UTIL", _first("nvmlDeviceGetDecoderUtilization")),
    _call(SECOND, "PSTATE", _one("nvmlDeviceGetPerformanceState")),
    _call(SLOW, "ENFORCED_POWER_LIMIT", _limit_milliwatts, backup=True),
    _call(SLOW, "PCIE_LINK_GEN", _one("nvmlDeviceGetCurrPcieLinkGeneration")),
    _call(SLOW, "PCIE_LINK_WIDTH", _one("nvmlDeviceGetCurrPcieLinkWidth")),
    _call(SLOW, "FAN_SPEED", _one("nvmlDeviceGetFanSpeed")),
    _call(SLOW, "GPU_TEMP_LIMIT", _one("nvmlDeviceGetMarginTemperature")),
    _call(SLOW, "MIG_MODE", _first("nvmlDeviceGetMigMode")),
    _call(SLOW, "PERSISTENCE_MODE", _one("nvmlDeviceGetPersistenceMode")),
    _call(SLOW, "APP_SM_CLOCK", _one("nvmlDeviceGetApplicationsClock", 1)),
    _call(SLOW, "APP_MEM_CLOCK", _one("nvmlDeviceGetApplicationsClock", 2)),
    _call(SLOW, "BAR1_TOTAL BAR1_USED BAR1_FREE", _bar1, instance=True),
    _call(RARE, "MAX_SM_CLOCK", _one("nvmlDeviceGetMaxClockInfo", 1)),
    _call(RARE, "MAX_MEM_CLOCK", _one("nvmlDeviceGetMaxClockInfo", 2)),
    _call(RARE, "MAX_VIDEO_CLOCK", _one("nvmlDeviceGetMaxClockInfo", 3)),
    _call(RARE, "SHUTDOWN_TEMP", _one("nvmlDeviceGetTemperatureThreshold", 0)),
    _call(RARE, "SLOWDOWN_TEMP", _one("nvmlDeviceGetTemperatureThreshold", 1)),
    _call(RARE, "MEM_MAX_OP_TEMP", _one("nvmlDeviceGetTemperatureThreshold", 2)),
    _call(RARE, "GPU_MAX_OP_TEMP", _one("nvmlDeviceGetTemperatureThreshold", 3)),
    _call(RARE, "PCIE_MAX_LINK_GEN", _one("nvmlDeviceGetMaxPcieLinkGeneration")),
    _call(RARE, "PCIE_MAX_LINK_WIDTH", _one("nvmlDeviceGetMaxPcieLinkWidth")),
    _call(RARE, "INFOROM_CONFIG_VALID", _inforom),
    _call(RARE, "MEMORY_UNREPAIRABLE_FLAG", _one("nvmlDeviceGetUnrepairableMemoryFlag_v1")),
    _call(
        RARE,
        "BANKS_REMAP_ROWS_AVAIL_MAX BANKS_REMAP_ROWS_AVAIL_HIGH BANKS_REMAP_ROWS_AVAIL_PARTIAL "
        "BANKS_REMAP_ROWS_AVAIL_LOW BANKS_REMAP_ROWS_AVAIL_NONE",
        _spare_rows,
    ),
    _call(RARE, "ECC_SBE_VOL_SRM", partial(_sram_errors, 0, 0)),
    _call(RARE, "ECC_DBE_VOL_SRM", partial(_sram_errors, 1, 0)),
    _call(RARE, "ECC_SBE_AGG_SRM", partial(_sram_errors, 0, 1)),
    _call(RARE, "ECC_DBE_AGG_SRM", partial(_sram_errors, 1, 1)),
    _call(RARE, "THRESHOLD_SRM", _sram_threshold),
    _call(
        RARE,
        "FABRIC_MANAGER_STATUS FABRIC_MANAGER_ERROR_CODE FABRIC_HEALTH_MASK FABRIC_HEALTH_SUMMARY",
        partial(_fabric, "v3"),
        partial(_fabric, "v2"),
    ),
)
"""Every call but those for field values and profiling counters."""
