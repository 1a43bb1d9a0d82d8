"""NVML's calls for a GPU, and DCGM's metrics with the same meaning: one row per call, values in DCGM's units.

PCIe throughput is not among them: that call takes 20 ms per direction.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Protocol

from pulsed.reader.nvml.field_values import FAST, RARE, SECOND, SLOW, SPACED
from pulsed.reader.nvml.library import CORRUPTED_INFOROM
from pulsed.reader.nvml.native_call import BoundCall, Handle, NativeCall, Numbers

_MEBIBYTE = 1048576.0


class Bindable(Protocol):
    """A call, prepared for a device by `bind`."""

    def bind(self, nvml: ModuleType, handle: Handle) -> BoundCall:
        """Prepare the call for a device. Raises `NVMLError` if the driver does not have the function."""


@dataclass(frozen=True, slots=True, eq=False)
class DriverCall:
    """A call and what it fills.

    Attributes:
        every: how often, seconds; see `field_values.FAST`.
        names: DCGM's metrics, in the order of the numbers.
        calls: the call, then what older drivers have instead.
        backup: only called while the first name has no value, of a field or of an earlier row.
        instance: whether MIG instances answer it, too.
    """

    every: float
    names: tuple[str, ...]
    calls: tuple[Bindable, ...]
    backup: bool = False
    instance: bool = False


class InforomCall:
    """Whether the InfoROM is valid: the code of the call is the answer."""

    def bind(self, nvml: ModuleType, handle: Handle) -> BoundCall:
        """Prepare the call for a device."""
        return partial(_inforom, nvml, handle)


def _inforom(nvml: ModuleType, handle: Handle) -> Numbers:
    try:
        nvml.nvmlDeviceValidateInforom(handle)
    except nvml.NVMLError as error:
        if error.value != CORRUPTED_INFOROM:
            raise
        return (0.0,)
    return (1.0,)


@dataclass(frozen=True, slots=True)
class FabricCall:
    """State and health of the NVLink fabric, by a version of its structure."""

    version: str

    def bind(self, nvml: ModuleType, handle: Handle) -> BoundCall:
        """Prepare the call for a device."""
        return partial(_fabric, self.version, nvml, handle)


def _fabric(version: str, nvml: ModuleType, handle: Handle) -> Numbers:
    fabric = getattr(nvml, f"c_nvmlGpuFabricInfo_{version}_t")()
    fabric.version = getattr(nvml, f"nvmlGpuFabricInfo_{version}")
    nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(fabric))
    is_failed = fabric.state == nvml.NVML_GPU_FABRIC_STATE_COMPLETED and fabric.status != 0
    # DCGM: 3 is success, 4 failure; a registration without an end has no error code.
    status = 4 if is_failed else fabric.state
    done = fabric.state == nvml.NVML_GPU_FABRIC_STATE_COMPLETED
    return (status, fabric.status if done else None, fabric.healthMask, getattr(fabric, "healthSummary", None))


def _of(function: str, *arguments: int) -> NativeCall:
    """Return a call that fills one number."""
    return NativeCall(f"nvmlDeviceGet{function}", arguments=arguments)


def _first_of_two(function: str) -> NativeCall:
    return NativeCall(f"nvmlDeviceGet{function}", "II", pointers=(0, 4), order=(0,), divide=1.0)


def _sram_errors(corrected: int, lifetime: int) -> NativeCall:
    return NativeCall("nvmlDeviceGetMemoryErrorCounter", "Q", (corrected, lifetime, 7))  # 7: NVML_MEMORY_LOCATION_SRAM


def _call(every: float, names: str, *calls: Bindable, backup: bool = False, instance: bool = False) -> DriverCall:
    return DriverCall(every, tuple(f"DCGM_FI_DEV_{name}" for name in names.split()), calls, backup, instance)


CALLS: tuple[DriverCall, ...] = (
    _call(
        FAST,
        "FB_TOTAL FB_FREE FB_USED FB_RESERVED",
        # total, reserved, free, used
        NativeCall("nvmlDeviceGetMemoryInfo_v2", "8xQQQQ", version=2, order=(0, 2, 3, 1), divide=_MEBIBYTE),
        # total, free, used; the memory in use contains the reserved one
        NativeCall("nvmlDeviceGetMemoryInfo", "QQQ", divide=_MEBIBYTE),
        instance=True,
    ),
    _call(FAST, "SM_CLOCK", _of("ClockInfo", 1)),
    _call(SECOND, "MEM_CLOCK", _of("ClockInfo", 2)),
    _call(SECOND, "VIDEO_CLOCK", _of("ClockInfo", 3)),
    _call(
        FAST,
        "CLOCKS_EVENT_REASONS",
        NativeCall("nvmlDeviceGetCurrentClocksEventReasons", "Q"),
        NativeCall("nvmlDeviceGetCurrentClocksThrottleReasons", "Q"),
    ),
    _call(SECOND, "GPU_TEMP", NativeCall("nvmlDeviceGetTemperatureV", "8xi", version=1), _of("Temperature", 0)),
    _call(SPACED, "POWER_USAGE", NativeCall("nvmlDeviceGetPowerUsage", divide=1000.0), backup=True),
    _call(SPACED, "TOTAL_ENERGY_CONSUMPTION", NativeCall("nvmlDeviceGetTotalEnergyConsumption", "Q"), backup=True),
    _call(SECOND, "GPU_UTIL MEM_COPY_UTIL", NativeCall("nvmlDeviceGetUtilizationRates", "II")),
    _call(SECOND, "ENC_UTIL", _first_of_two("EncoderUtilization")),
    _call(SECOND, "DEC_UTIL", _first_of_two("DecoderUtilization")),
    _call(SECOND, "PSTATE", _of("PerformanceState")),
    _call(SLOW, "ENFORCED_POWER_LIMIT", NativeCall("nvmlDeviceGetEnforcedPowerLimit", divide=1000.0), backup=True),
    _call(SLOW, "PCIE_LINK_GEN", _of("CurrPcieLinkGeneration")),
    _call(SLOW, "PCIE_LINK_WIDTH", _of("CurrPcieLinkWidth")),
    _call(SLOW, "FAN_SPEED", _of("FanSpeed")),
    _call(SLOW, "GPU_TEMP_LIMIT", NativeCall("nvmlDeviceGetMarginTemperature", "4xi", version=1)),
    _call(SLOW, "MIG_MODE", _first_of_two("MigMode")),
    _call(SLOW, "PERSISTENCE_MODE", _of("PersistenceMode")),
    _call(SLOW, "APP_SM_CLOCK", _of("ApplicationsClock", 1)),
    _call(SLOW, "APP_MEM_CLOCK", _of("ApplicationsClock", 2)),
    _call(
        SLOW,
        "BAR1_TOTAL BAR1_FREE BAR1_USED",
        NativeCall("nvmlDeviceGetBAR1MemoryInfo", "QQQ", divide=_MEBIBYTE),
        instance=True,
    ),
    _call(RARE, "MAX_SM_CLOCK", _of("MaxClockInfo", 1)),
    _call(RARE, "MAX_MEM_CLOCK", _of("MaxClockInfo", 2)),
    _call(RARE, "MAX_VIDEO_CLOCK", _of("MaxClockInfo", 3)),
    _call(RARE, "SHUTDOWN_TEMP", _of("TemperatureThreshold", 0)),
    _call(RARE, "SLOWDOWN_TEMP", _of("TemperatureThreshold", 1)),
    _call(RARE, "MEM_MAX_OP_TEMP", _of("TemperatureThreshold", 2)),
    _call(RARE, "GPU_MAX_OP_TEMP", _of("TemperatureThreshold", 3)),
    _call(RARE, "PCIE_MAX_LINK_GEN", _of("MaxPcieLinkGeneration")),
    _call(RARE, "PCIE_MAX_LINK_WIDTH", _of("MaxPcieLinkWidth")),
    _call(RARE, "INFOROM_CONFIG_VALID", InforomCall()),
    _call(RARE, "MEMORY_UNREPAIRABLE_FLAG", NativeCall("nvmlDeviceGetUnrepairableMemoryFlag_v1", "4xI", version=1)),
    _call(
        RARE,
        "BANKS_REMAP_ROWS_AVAIL_MAX BANKS_REMAP_ROWS_AVAIL_HIGH BANKS_REMAP_ROWS_AVAIL_PARTIAL "
        "BANKS_REMAP_ROWS_AVAIL_LOW BANKS_REMAP_ROWS_AVAIL_NONE",
        NativeCall("nvmlDeviceGetRowRemapperHistogram", "IIIII"),
    ),
    _call(RARE, "ECC_SBE_VOL_SRM", _sram_errors(0, 0)),
    _call(RARE, "ECC_DBE_VOL_SRM", _sram_errors(1, 0)),
    _call(RARE, "ECC_SBE_AGG_SRM", _sram_errors(0, 1)),
    _call(RARE, "ECC_DBE_AGG_SRM", _sram_errors(1, 1)),
    _call(RARE, "THRESHOLD_SRM", NativeCall("nvmlDeviceGetSramEccErrorStatus", "96xI4x", version=1)),
    _call(
        RARE,
        "FABRIC_MANAGER_STATUS FABRIC_MANAGER_ERROR_CODE FABRIC_HEALTH_MASK FABRIC_HEALTH_SUMMARY",
        FabricCall("v3"),
        FabricCall("v2"),
    ),
)
"""Every call but those for field values and profiling counters."""
