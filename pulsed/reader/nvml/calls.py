"""What NVML has of a GPU, and DCGM's metrics with the same meaning: calls, field values and profiling counters.

PCIe throughput is not among them: that call takes 20 ms per direction.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

from pulsed.reader.nvml.library import CORRUPTED_INFOROM, FUNCTION_NOT_FOUND, Handle, call

EVERY = FAST, SECOND, SLOW, RARE = 0.0, 1.0, 10.0, 60.0
"""How often something is read, seconds; 0: with every read of the driver. SLOW is the configured slow interval."""

_MEBIBYTE = 1048576.0

Numbers = Sequence[float | None]

Call = Callable[[ModuleType, Handle], Numbers]
"""A call for a device. Raises `NVMLError`."""


@dataclass(frozen=True, slots=True, eq=False)
class DriverCall:
    """A call and what it fills.

    Attributes:
        every: how often, seconds; see `EVERY`.
        names: DCGM's metrics, in the order of the numbers.
        calls: the call, then what older drivers have instead, which may have fewer numbers.
        is_backup: only called while the first name has no value, of a field or of an earlier row.
        of_instance: whether MIG instances also answer it.
    """

    every: float
    names: tuple[str, ...]
    calls: tuple[Call, ...]
    is_backup: bool = False
    of_instance: bool = False


def _get(function: str, *arguments: int, parts: str = "", divide: float | None = None) -> Call:
    """Return a call of nvidia-ml-py.

    Args:
        function: its name after `nvmlDeviceGet`.
        arguments: those after the handle.
        parts: the members that count if the result is a structure; of a list, it is the first number.
        divide: NVML's unit divided by the unit of DCGM's metric.
    """
    name, members = f"nvmlDeviceGet{function}", parts.split()

    def read(nvml: ModuleType, handle: Handle) -> Numbers:
        result = call(nvml, name, handle, *arguments)
        if members:
            numbers = [getattr(result, part) for part in members]
        else:
            numbers = [float(result[0])] if isinstance(result, list) else [result]
        return numbers if divide is None else [number / divide for number in numbers]

    return read


def _sram_threshold(nvml: ModuleType, handle: Handle) -> Numbers:
    status = structure(nvml, "nvmlEccSramErrorStatus_v1")
    call(nvml, "nvmlDeviceGetSramEccErrorStatus", handle, ctypes.byref(status))
    return (status.bThresholdExceeded,)


def _fabric(version: str) -> Call:
    """Return the call for state and health of the NVLink fabric with a version of its structure."""

    def read(nvml: ModuleType, handle: Handle) -> Numbers:
        fabric = structure(nvml, f"nvmlGpuFabricInfo_{version}")
        call(nvml, "nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(fabric))
        is_complete = fabric.state == nvml.NVML_GPU_FABRIC_STATE_COMPLETED
        # DCGM: 3 is success, 4 failure; a registration without an end has no error code.
        state = 4 if is_complete and fabric.status != 0 else fabric.state
        status = fabric.status if is_complete else None
        return (state, status, fabric.healthMask, getattr(fabric, "healthSummary", None))

    return read


def structure(nvml: ModuleType, name: str) -> Any:
    """Return a new structure of nvidia-ml-py, with its version. Raises `NVMLError` if this release lacks it."""
    kind = getattr(nvml, f"c_{name}_t", None)
    if kind is None:
        raise nvml.NVMLError(FUNCTION_NOT_FOUND)
    instance = kind()
    instance.version = getattr(nvml, name)
    return instance


def _inforom(nvml: ModuleType, handle: Handle) -> Numbers:
    """Return whether the InfoROM is valid: the error of the call is the answer."""
    try:
        nvml.nvmlDeviceValidateInforom(handle)
    except nvml.NVMLError as error:
        if error.value != CORRUPTED_INFOROM:
            raise
        return (0.0,)
    return (1.0,)


def _row(every: float, names: str, *calls: Call, is_backup: bool = False, of_instance: bool = False) -> DriverCall:
    return DriverCall(every, tuple(f"DCGM_FI_DEV_{name}" for name in names.split()), calls, is_backup, of_instance)


MEMORY_V2 = 0x2000028
"""`nvmlMemory_v2`: the version whose memory in use does not contain the reserved one."""

CALLS: tuple[DriverCall, ...] = (
    _row(
        FAST,
        "FB_TOTAL FB_FREE FB_USED FB_RESERVED",
        _get("MemoryInfo", MEMORY_V2, parts="total free used reserved", divide=_MEBIBYTE),
        _get("MemoryInfo", parts="total free used", divide=_MEBIBYTE),
        of_instance=True,
    ),
    _row(FAST, "SM_CLOCK", _get("ClockInfo", 1)),
    _row(SECOND, "MEM_CLOCK", _get("ClockInfo", 2)),
    _row(SECOND, "VIDEO_CLOCK", _get("ClockInfo", 3)),
    _row(FAST, "CLOCKS_EVENT_REASONS", _get("CurrentClocksEventReasons"), _get("CurrentClocksThrottleReasons")),
    _row(SECOND, "GPU_TEMP", _get("TemperatureV", 0), _get("Temperature", 0)),
    _row(FAST, "POWER_USAGE", _get("PowerUsage", divide=1000.0), is_backup=True),
    _row(FAST, "TOTAL_ENERGY_CONSUMPTION", _get("TotalEnergyConsumption"), is_backup=True),
    _row(SECOND, "GPU_UTIL MEM_COPY_UTIL", _get("UtilizationRates", parts="gpu memory")),
    _row(SECOND, "ENC_UTIL", _get("EncoderUtilization")),
    _row(SECOND, "DEC_UTIL", _get("DecoderUtilization")),
    _row(SECOND, "PSTATE", _get("PerformanceState")),
    _row(SLOW, "ENFORCED_POWER_LIMIT", _get("EnforcedPowerLimit", divide=1000.0), is_backup=True),
    _row(SLOW, "PCIE_LINK_GEN", _get("CurrPcieLinkGeneration")),
    _row(SLOW, "PCIE_LINK_WIDTH", _get("CurrPcieLinkWidth")),
    _row(SLOW, "FAN_SPEED", _get("FanSpeed")),
    _row(SLOW, "GPU_TEMP_LIMIT", _get("MarginTemperature")),
    _row(SLOW, "MIG_MODE", _get("MigMode")),
    _row(SLOW, "PERSISTENCE_MODE", _get("PersistenceMode")),
    _row(SLOW, "APP_SM_CLOCK", _get("ApplicationsClock", 1), _get("ApplicationsClock", 0)),
    _row(SLOW, "APP_MEM_CLOCK", _get("ApplicationsClock", 2)),
    _row(
        SLOW,
        "BAR1_TOTAL BAR1_FREE BAR1_USED",
        _get("BAR1MemoryInfo", parts="bar1Total bar1Free bar1Used", divide=_MEBIBYTE),
        of_instance=True,
    ),
    _row(RARE, "MAX_SM_CLOCK", _get("MaxClockInfo", 1)),
    _row(RARE, "MAX_MEM_CLOCK", _get("MaxClockInfo", 2)),
    _row(RARE, "MAX_VIDEO_CLOCK", _get("MaxClockInfo", 3)),
    _row(RARE, "SHUTDOWN_TEMP", _get("TemperatureThreshold", 0)),
    _row(RARE, "SLOWDOWN_TEMP", _get("TemperatureThreshold", 1)),
    _row(RARE, "MEM_MAX_OP_TEMP", _get("TemperatureThreshold", 2)),
    _row(RARE, "GPU_MAX_OP_TEMP", _get("TemperatureThreshold", 3)),
    _row(RARE, "PCIE_MAX_LINK_GEN", _get("MaxPcieLinkGeneration")),
    _row(RARE, "PCIE_MAX_LINK_WIDTH", _get("MaxPcieLinkWidth")),
    _row(RARE, "INFOROM_CONFIG_VALID", _inforom),
    _row(SLOW, "MEMORY_UNREPAIRABLE_FLAG", _get("UnrepairableMemoryFlag_v1")),
    _row(
        RARE,
        " ".join(f"BANKS_REMAP_ROWS_AVAIL_{level}" for level in ("MAX", "HIGH", "PARTIAL", "LOW", "NONE")),
        _get("RowRemapperHistogram", parts="max high partial low none"),
    ),
    _row(RARE, "ECC_SBE_VOL_SRM", _get("MemoryErrorCounter", 0, 0, 7)),  # 7: NVML_MEMORY_LOCATION_SRAM
    _row(RARE, "ECC_DBE_VOL_SRM", _get("MemoryErrorCounter", 1, 0, 7)),
    _row(RARE, "ECC_SBE_AGG_SRM", _get("MemoryErrorCounter", 0, 1, 7)),
    _row(RARE, "ECC_DBE_AGG_SRM", _get("MemoryErrorCounter", 1, 1, 7)),
    _row(SLOW, "THRESHOLD_SRM", _sram_threshold),
    _row(
        SLOW,
        "FABRIC_MANAGER_STATUS FABRIC_MANAGER_ERROR_CODE FABRIC_HEALTH_MASK FABRIC_HEALTH_SUMMARY",
        _fabric("v3"),
        _fabric("v2"),
    ),
)
"""Every call except field values and profiling counters."""

ALL_LINKS = 0xFFFFFFFF

_UNSIGNED_INT = 1
"""`NVML_VALUE_TYPE_UNSIGNED_INT`."""


class FieldValue(NamedTuple):
    """A field id of NVML; many are read in one call.

    Attributes:
        name: DCGM's metric with the same meaning.
        divide: NVML's unit by that metric's.
        type: `nvmlValueType_t`; None: as the driver states.
    """

    id: int
    name: str
    every: float
    divide: float = 1.0
    scope: int = 0
    type: int | None = None


FIELD_VALUES: tuple[FieldValue, ...] = (
    FieldValue(82, "DCGM_FI_DEV_MEMORY_TEMP", FAST, type=_UNSIGNED_INT),  # driver 545 states double
    FieldValue(83, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", FAST),
    FieldValue(185, "DCGM_FI_DEV_POWER_USAGE", FAST, 1000.0),
    FieldValue(186, "DCGM_FI_DEV_POWER_USAGE_INSTANT", FAST, 1000.0),
    FieldValue(202, "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", FAST, scope=ALL_LINKS),
    FieldValue(204, "DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES", FAST, scope=ALL_LINKS),
    FieldValue(138, "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", FAST, 1 / 1024, ALL_LINKS),
    FieldValue(139, "DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES", FAST, 1 / 1024, ALL_LINKS),
    FieldValue(74, "DCGM_FI_DEV_POWER_VIOLATION", FAST),
    FieldValue(75, "DCGM_FI_DEV_THERMAL_VIOLATION", FAST),
    FieldValue(76, "DCGM_FI_DEV_SYNC_BOOST_VIOLATION", SLOW),
    FieldValue(77, "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", SLOW),
    FieldValue(78, "DCGM_FI_DEV_LOW_UTIL_VIOLATION", SLOW),
    FieldValue(79, "DCGM_FI_DEV_RELIABILITY_VIOLATION", SLOW),
    FieldValue(80, "DCGM_FI_DEV_TOTAL_APP_CLOCKS_VIOLATION", SLOW),
    FieldValue(81, "DCGM_FI_DEV_TOTAL_BASE_CLOCKS_VIOLATION", SLOW),
    FieldValue(74, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", SLOW),
    FieldValue(76, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS", SLOW),
    FieldValue(269, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", SLOW),
    FieldValue(270, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", SLOW),
    FieldValue(271, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", SLOW),
    FieldValue(187, "DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN", SLOW, 1000.0),
    FieldValue(188, "DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX", SLOW, 1000.0),
    FieldValue(189, "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF", SLOW, 1000.0),
    FieldValue(190, "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", SLOW, 1000.0),
    FieldValue(192, "DCGM_FI_DEV_POWER_MGMT_LIMIT", SLOW, 1000.0),
    FieldValue(1, "DCGM_FI_DEV_ECC_CURRENT", SLOW),
    FieldValue(2, "DCGM_FI_DEV_ECC_PENDING", SLOW),
    FieldValue(3, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", SLOW),
    FieldValue(4, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", SLOW),
    FieldValue(5, "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", SLOW),
    FieldValue(6, "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", SLOW),
    FieldValue(142, "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", SLOW),
    FieldValue(143, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", SLOW),
    FieldValue(144, "DCGM_FI_DEV_ROW_REMAP_PENDING", SLOW),
    FieldValue(145, "DCGM_FI_DEV_ROW_REMAP_FAILURE", SLOW),
    FieldValue(230, "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", SLOW),
    FieldValue(94, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", SLOW),
    FieldValue(173, "DCGM_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS", SLOW),
    FieldValue(38, "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", SLOW),
    FieldValue(45, "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", SLOW),
    FieldValue(52, "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", SLOW),
    FieldValue(59, "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", SLOW),
    FieldValue(208, "DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS", SLOW, scope=ALL_LINKS),
    FieldValue(213, "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS", SLOW, scope=ALL_LINKS),
    FieldValue(214, "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS", SLOW, scope=ALL_LINKS),
    FieldValue(221, "DCGM_FI_DEV_NVLINK_COUNT_RX_SYMBOL_ERRORS", SLOW, scope=ALL_LINKS),
    FieldValue(29, "DCGM_FI_DEV_RETIRED_SBE", RARE),
    FieldValue(30, "DCGM_FI_DEV_RETIRED_DBE", RARE),
    FieldValue(31, "DCGM_FI_DEV_RETIRED_PENDING", RARE),
)
"""Of several rows with the same name, the first that has a value counts."""


class GpmMetric(NamedTuple):
    """A metric of GPM.

    Attributes:
        name: DCGM's metric with the same meaning.
        divide: GPM's unit, percent or MiB/s, by that metric's.
        of_instance: whether it exists for a MIG instance.
    """

    id: int
    name: str
    divide: float = 100.0
    of_instance: bool = True


def _engines(first: int, engine: str, count: int) -> tuple[GpmMetric, ...]:
    return tuple(
        GpmMetric(first + number, f"DCGM_FI_PROF_{engine}{number}_ACTIVE", of_instance=False) for number in range(count)
    )


GPM_METRICS: tuple[GpmMetric, ...] = (
    GpmMetric(1, "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
    GpmMetric(2, "DCGM_FI_PROF_SM_ACTIVE"),
    GpmMetric(3, "DCGM_FI_PROF_SM_OCCUPANCY"),
    GpmMetric(4, "DCGM_FI_PROF_PIPE_INT_ACTIVE"),
    GpmMetric(5, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
    GpmMetric(6, "DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE"),
    GpmMetric(7, "DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE"),
    GpmMetric(9, "DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE"),
    GpmMetric(10, "DCGM_FI_PROF_DRAM_ACTIVE"),
    GpmMetric(11, "DCGM_FI_PROF_PIPE_FP64_ACTIVE"),
    GpmMetric(12, "DCGM_FI_PROF_PIPE_FP32_ACTIVE"),
    GpmMetric(13, "DCGM_FI_PROF_PIPE_FP16_ACTIVE"),
    GpmMetric(20, "DCGM_FI_PROF_PCIE_TX_BYTES", 1 / _MEBIBYTE, of_instance=False),
    GpmMetric(21, "DCGM_FI_PROF_PCIE_RX_BYTES", 1 / _MEBIBYTE, of_instance=False),
    *_engines(30, "NVDEC", 8),
    *_engines(40, "NVJPG", 8),
    *_engines(50, "NVOFA", 2),
    GpmMetric(60, "DCGM_FI_PROF_NVLINK_RX_BYTES", 1 / _MEBIBYTE, of_instance=False),
    GpmMetric(61, "DCGM_FI_PROF_NVLINK_TX_BYTES", 1 / _MEBIBYTE, of_instance=False),
    GpmMetric(100, "DCGM_FI_PROF_C2C_TX_ALL_BYTES", 1 / _MEBIBYTE, of_instance=False),
    GpmMetric(101, "DCGM_FI_PROF_C2C_RX_ALL_BYTES", 1 / _MEBIBYTE, of_instance=False),
    GpmMetric(160, "DCGM_FI_PROF_HOSTMEM_CACHE_HIT", 1.0, of_instance=False),
    GpmMetric(161, "DCGM_FI_PROF_HOSTMEM_CACHE_MISS", 1.0, of_instance=False),
    GpmMetric(162, "DCGM_FI_PROF_PEERMEM_CACHE_HIT", 1.0, of_instance=False),
    GpmMetric(163, "DCGM_FI_PROF_PEERMEM_CACHE_MISS", 1.0, of_instance=False),
)
"""Profiling counters, of Hopper and newer."""
