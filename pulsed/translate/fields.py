"""DCGM's fields as sources of quantities: one row per field and quantity that it fills.

The only module with DCGM's names. A new DCGM field is one row here. Sources: `dcgm_fields.h` up to DCGM 4.6 for
ids, names, short names and units; NVIDIA's field reference for DCGM 4.7's base-unit fields (ids from 1600 on), whose
columns in dmon are not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pulsed.model.vocabulary import QUANTITIES
from pulsed.translate.units import (
    B_PER_SECOND,
    BYTES,
    CELSIUS,
    CELSIUS_MARGIN,
    CODE,
    COUNT,
    FAN_PERCENT,
    FAN_RATIO,
    HERTZ,
    JOULES,
    KB_PER_SECOND,
    MB_PER_SECOND,
    MEBIBYTES,
    MEGAHERTZ,
    MILLIJOULES,
    NANOSECONDS,
    PERCENT,
    PERCENT_DOUBLE,
    PSTATE,
    RATIO,
    SECONDS,
    WATTS,
    Unit,
)

Level = Literal["board", "instance", "vgpu"]
"""What a field is about when a GPU is split: the whole board (DCGM then answers with the board's value on each MIG
instance), the instance itself, or the vGPU. On a GPU that is not split all are the same."""

INSTANCE: Level = "instance"
VGPU: Level = "vgpu"

FIRST_BASE_UNIT_ID = 1600
"""Fields from here on exist since DCGM 4.7 and are in base units."""


@dataclass(frozen=True, slots=True)
class DcgmField:
    """A DCGM field as the source of a quantity.

    Attributes:
        unit: what DCGM counts it in; a value in that unit's range.
        short: its column in `dcgmi dmon`; empty when not known.
        names: its metric names on a dcgm-exporter page, the classic one first, then those of DCGM 4.6 and of the
            exporter's 1.x compatibility file.
        level: what it is about when the GPU is split.
    """

    id: int
    quantity: str
    unit: Unit
    short: str
    names: tuple[str, ...]
    level: Level

    def __str__(self) -> str:
        """Name the field for a person: `1004 PROF_PIPE_TENSOR_ACTIVE`."""
        return f"{self.id} {self.names[0].removeprefix('DCGM_FI_')}"


_PROF_IDS = range(1001, 1100)

# Names in dcgm-exporter's etc/1.x-compatibility-metrics.csv.
_NAMES_OF_1X: Mapping[str, int] = {
    "dcgm_sm_clock": 100,
    "dcgm_memory_clock": 101,
    "dcgm_memory_temp": 140,
    "dcgm_gpu_temp": 150,
    "dcgm_power_usage": 155,
    "dcgm_total_energy_consumption": 156,
    "dcgm_pcie_replay_counter": 202,
    "dcgm_gpu_utilization": 203,
    "dcgm_mem_copy_utilization": 204,
    "dcgm_enc_utilization": 206,
    "dcgm_dec_utilization": 207,
    "dcgm_xid_errors": 230,
    "dcgm_fb_free": 251,
    "dcgm_fb_used": 252,
    "dcgm_nvlink_bandwidth_total": 449,
    "dcgm_fi_prof_gr_engine_active": 1001,
    "dcgm_fi_prof_pipe_tensor_active": 1004,
    "dcgm_fi_prof_dram_active": 1005,
    "dcgm_fi_prof_pcie_tx_bytes": 1009,
    "dcgm_fi_prof_pcie_rx_bytes": 1010,
    "dcgm_fi_prof_sm_active": 1002,
    "dcgm_fi_prof_sm_occupancy": 1003,
    "dcgm_ecc_sbe_volatile_total": 310,
    "dcgm_ecc_dbe_volatile_total": 311,
    "dcgm_ecc_sbe_aggregate_total": 312,
    "dcgm_ecc_dbe_aggregate_total": 313,
    "dcgm_retired_pages_sbe": 390,
    "dcgm_retired_pages_dbe": 391,
    "dcgm_retired_pages_pending": 392,
    "dcgm_nvlink_flit_crc_error_count_total": 409,
    "dcgm_nvlink_data_crc_error_count_total": 419,
    "dcgm_nvlink_replay_error_count_total": 429,
    "dcgm_nvlink_recovery_error_count_total": 439,
    "dcgm_power_violation": 240,
    "dcgm_thermal_violation": 241,
    "dcgm_sync_boost_violation": 242,
    "dcgm_board_limit_violation": 243,
    "dcgm_low_util_violation": 244,
    "dcgm_reliability_violation": 245,
}


def _f(id_: int, quantity: str, unit: Unit, short: str, names: str, level: Level = "board") -> DcgmField:
    """Make a row; `names` without their prefix, which is `DCGM_FI_PROF_` or `DCGM_FI_DEV_`."""
    prefix = "DCGM_FI_PROF_" if id_ in _PROF_IDS else "DCGM_FI_DEV_"
    spellings = [prefix + name for name in names.split()]
    spellings += [name for name, number in _NAMES_OF_1X.items() if number == id_]
    return DcgmField(id_, quantity, unit, short, tuple(spellings), level)


def _engines(first: int, engine: str, count: int) -> Iterator[DcgmField]:
    """Yield the rows of an engine of which a GPU has several."""
    for n in range(count):
        short = f"{engine.upper()}{n}"
        names = f"{short}_ACTIVE {engine.upper()}_UTIL_{n}_RATIO"
        yield _f(first + n, f"{engine}{n}_active_ratio", RATIO, short, names)


# 0 where there is no such thing: memory without a sensor (T4, L4, RTX, vGPU guests), a limit that is not set, a link
# that is not up (DCGM itself does not guard its generation), a size that is not known.
SENSOR_CELSIUS = LIMIT_CELSIUS = CELSIUS.not_zero()
LIMIT_WATTS = WATTS.not_zero()
LIMIT_HERTZ = HERTZ.not_zero()
LIMIT_MEGAHERTZ = MEGAHERTZ.not_zero()
SIZE_BYTES = BYTES.not_zero()
SIZE_MEBIBYTES = MEBIBYTES.not_zero()
LINK = CODE.not_zero()
BIT_ERROR_RATIO = RATIO.not_zero()
"""dmon prints three decimals and dcgm-exporter, before 4.8.3, six: their 0 is any rate that links have."""


FIELDS: tuple[DcgmField, ...] = (
    # activity
    _f(1001, "graphics_engine_active_ratio", RATIO, "GRACT", "GR_ENGINE_ACTIVE GR_ENGINE_UTIL_RATIO", INSTANCE),
    _f(1002, "sm_active_ratio", RATIO, "SMACT", "SM_ACTIVE SM_UTIL_RATIO", INSTANCE),
    _f(1003, "sm_occupancy_ratio", RATIO, "SMOCC", "SM_OCCUPANCY SM_OCCUPANCY_RATIO", INSTANCE),
    _f(1004, "tensor_active_ratio", RATIO, "TENSO", "PIPE_TENSOR_ACTIVE TENSOR_UTIL_RATIO", INSTANCE),
    _f(1014, "tensor_hmma_active_ratio", RATIO, "THMMA", "PIPE_TENSOR_HMMA_ACTIVE HMMA_UTIL_RATIO", INSTANCE),
    _f(1013, "tensor_imma_active_ratio", RATIO, "TIMMA", "PIPE_TENSOR_IMMA_ACTIVE IMMA_UTIL_RATIO", INSTANCE),
    _f(1015, "tensor_dfma_active_ratio", RATIO, "TDFMA", "PIPE_TENSOR_DFMA_ACTIVE DFMA_UTIL_RATIO", INSTANCE),
    _f(1006, "fp64_active_ratio", RATIO, "FP64A", "PIPE_FP64_ACTIVE FP64_UTIL_RATIO", INSTANCE),
    _f(1007, "fp32_active_ratio", RATIO, "FP32A", "PIPE_FP32_ACTIVE FP32_UTIL_RATIO", INSTANCE),
    _f(1008, "fp16_active_ratio", RATIO, "FP16A", "PIPE_FP16_ACTIVE FP16_UTIL_RATIO", INSTANCE),
    _f(1016, "integer_active_ratio", RATIO, "INTAC", "PIPE_INT_ACTIVE INT_UTIL_RATIO", INSTANCE),
    _f(1005, "dram_active_ratio", RATIO, "DRAMA", "DRAM_ACTIVE DRAM_UTIL_RATIO", INSTANCE),
    _f(203, "gpu_utilization_ratio", PERCENT, "GPUTL", "GPU_UTIL"),
    _f(1613, "gpu_utilization_ratio", RATIO, "", "GPU_UTIL_RATIO"),
    _f(204, "memory_utilization_ratio", PERCENT, "MCUTL", "MEM_COPY_UTIL"),
    _f(1614, "memory_utilization_ratio", RATIO, "", "MEMORY_UTIL_RATIO"),
    _f(206, "encoder_utilization_ratio", PERCENT, "ECUTL", "ENC_UTIL"),
    _f(1615, "encoder_utilization_ratio", RATIO, "", "ENC_UTIL_RATIO"),
    _f(207, "decoder_utilization_ratio", PERCENT, "DCUTL", "DEC_UTIL"),
    _f(1616, "decoder_utilization_ratio", RATIO, "", "DEC_UTIL_RATIO"),
    *_engines(1017, "nvdec", 8),
    *_engines(1025, "nvjpg", 8),
    *_engines(1033, "nvofa", 2),
    _f(1080, "hostmem_cache_hit_ratio", PERCENT, "HMCACHEHT", "HOSTMEM_CACHE_HIT"),
    _f(1081, "hostmem_cache_miss_ratio", PERCENT, "HMCACHEMS", "HOSTMEM_CACHE_MISS"),
    _f(1082, "peermem_cache_hit_ratio", PERCENT, "PMCACHEHT", "PEERMEM_CACHE_HIT"),
    _f(1083, "peermem_cache_miss_ratio", PERCENT, "PMCACHEMS", "PEERMEM_CACHE_MISS"),
    # traffic
    _f(1009, "pcie_transmit_bytes_per_second", B_PER_SECOND, "PCITX", "PCIE_TX_BYTES"),
    _f(200, "pcie_transmit_bytes_per_second", KB_PER_SECOND, "TXTPT", "PCIE_TX_THROUGHPUT"),
    _f(1010, "pcie_receive_bytes_per_second", B_PER_SECOND, "PCIRX", "PCIE_RX_BYTES"),
    _f(201, "pcie_receive_bytes_per_second", KB_PER_SECOND, "RXTPT", "PCIE_RX_THROUGHPUT"),
    _f(1011, "nvlink_transmit_bytes_per_second", B_PER_SECOND, "NVLTX", "NVLINK_TX_BYTES"),
    _f(
        843,
        "nvlink_transmit_bytes_per_second",
        MB_PER_SECOND,
        "NTXBWLT",
        "NVLINK_TX_BANDWIDTH_TOTAL NVLINK_TX_THROUGHPUT_TOTAL",
    ),
    _f(1012, "nvlink_receive_bytes_per_second", B_PER_SECOND, "NVLRX", "NVLINK_RX_BYTES"),
    _f(
        897,
        "nvlink_receive_bytes_per_second",
        MB_PER_SECOND,
        "NRXBWLT",
        "NVLINK_RX_BANDWIDTH_TOTAL NVLINK_RX_THROUGHPUT_TOTAL",
    ),
    _f(1648, "nvlink_bandwidth_bytes_per_second", B_PER_SECOND, "", "NVLINK_THROUGHPUT_BYTES_PER_SECOND"),
    _f(
        449,
        "nvlink_bandwidth_bytes_per_second",
        MB_PER_SECOND,
        "NBWLT",
        "NVLINK_BANDWIDTH_TOTAL NVLINK_THROUGHPUT_TOTAL",
    ),
    _f(1076, "c2c_transmit_bytes_per_second", B_PER_SECOND, "C2CTXAB", "C2C_TX_ALL_BYTES"),
    _f(1077, "c2c_transmit_bytes_per_second", B_PER_SECOND, "C2CTXDB", "C2C_TX_DATA_BYTES"),
    _f(1078, "c2c_receive_bytes_per_second", B_PER_SECOND, "C2CRXAB", "C2C_RX_ALL_BYTES"),
    _f(1079, "c2c_receive_bytes_per_second", B_PER_SECOND, "C2CRXDB", "C2C_RX_DATA_BYTES"),
    _f(1091, "pcie_transmit_bytes_total", BYTES, "PCICTX", "PCIE_TX_BYTES_TOTAL"),
    _f(1092, "pcie_receive_bytes_total", BYTES, "PCICRX", "PCIE_RX_BYTES_TOTAL"),
    _f(1201, "nvlink_transmit_bytes_total", BYTES, "NLXMITB", "NVLINK_COUNT_TX_BYTES NVLINK_TX_BYTES_TOTAL"),
    _f(1203, "nvlink_receive_bytes_total", BYTES, "NLRCVB", "NVLINK_COUNT_RX_BYTES NVLINK_RX_BYTES_TOTAL"),
    # memory
    _f(250, "memory_bytes", SIZE_MEBIBYTES, "FBTTL", "FB_TOTAL", INSTANCE),
    _f(1625, "memory_bytes", SIZE_BYTES, "", "FB_CAPACITY_BYTES", INSTANCE),
    _f(252, "memory_used_bytes", MEBIBYTES, "FBUSD", "FB_USED", INSTANCE),
    _f(1627, "memory_used_bytes", BYTES, "", "FB_USED_BYTES", INSTANCE),
    _f(251, "memory_free_bytes", MEBIBYTES, "FBFRE", "FB_FREE", INSTANCE),
    _f(1626, "memory_free_bytes", BYTES, "", "FB_FREE_BYTES", INSTANCE),
    _f(253, "memory_reserved_bytes", MEBIBYTES, "FBRSV", "FB_RESERVED", INSTANCE),
    _f(1628, "memory_reserved_bytes", BYTES, "", "FB_RESERVED_BYTES", INSTANCE),
    _f(254, "memory_used_ratio", RATIO, "FBUSP", "FB_USED_PERCENT FB_USED_RATIO", INSTANCE),
    _f(90, "bar1_memory_bytes", SIZE_MEBIBYTES, "B1TTL", "BAR1_TOTAL", INSTANCE),
    _f(1600, "bar1_memory_bytes", SIZE_BYTES, "", "BAR1_CAPACITY_BYTES", INSTANCE),
    _f(92, "bar1_memory_used_bytes", MEBIBYTES, "B1USE", "BAR1_USED", INSTANCE),
    _f(1601, "bar1_memory_used_bytes", BYTES, "", "BAR1_USED_BYTES", INSTANCE),
    _f(93, "bar1_memory_free_bytes", MEBIBYTES, "B1FRE", "BAR1_FREE", INSTANCE),
    _f(1602, "bar1_memory_free_bytes", BYTES, "", "BAR1_FREE_BYTES", INSTANCE),
    _f(525, "vgpu_memory_used_bytes", MEBIBYTES, "VMUSG", "VGPU_MEMORY_USAGE", VGPU),
    _f(1649, "vgpu_memory_used_bytes", BYTES, "", "VGPU_FB_USED_BYTES", VGPU),
    # power, heat, clocks
    _f(155, "power_watts", WATTS, "POWER", "POWER_USAGE BOARD_POWER_WATTS"),
    _f(157, "power_instant_watts", WATTS, "POWINST", "POWER_USAGE_INSTANT BOARD_POWER_RAW_WATTS"),
    _f(164, "power_limit_watts", LIMIT_WATTS, "EPLMT", "ENFORCED_POWER_LIMIT BOARD_POWER_LIMIT_ENFORCED_WATTS"),
    _f(160, "power_limit_watts", LIMIT_WATTS, "PMLMT", "POWER_MGMT_LIMIT BOARD_POWER_LIMIT_REQUESTED_WATTS"),
    _f(160, "power_limit_requested_watts", LIMIT_WATTS, "PMLMT", "POWER_MGMT_LIMIT BOARD_POWER_LIMIT_REQUESTED_WATTS"),
    _f(161, "power_limit_min_watts", LIMIT_WATTS, "PMMIN", "POWER_MGMT_LIMIT_MIN BOARD_POWER_LIMIT_MIN_WATTS"),
    _f(162, "power_limit_max_watts", LIMIT_WATTS, "PMMAX", "POWER_MGMT_LIMIT_MAX BOARD_POWER_LIMIT_MAX_WATTS"),
    _f(163, "power_limit_default_watts", LIMIT_WATTS, "PMDEF", "POWER_MGMT_LIMIT_DEF BOARD_POWER_LIMIT_DEFAULT_WATTS"),
    _f(156, "energy_joules_total", MILLIJOULES, "TOTEC", "TOTAL_ENERGY_CONSUMPTION"),
    _f(1611, "energy_joules_total", JOULES, "", "GPU_ENERGY_JOULES_TOTAL"),
    _f(150, "temperature_celsius", CELSIUS, "TMPTR", "GPU_TEMP GPU_TEMP_CELSIUS"),
    _f(140, "memory_temperature_celsius", SENSOR_CELSIUS, "MMTMP", "MEMORY_TEMP MEMORY_TEMP_CELSIUS"),
    _f(153, "temperature_margin_celsius", CELSIUS_MARGIN, "GTLIMIT", "GPU_TEMP_LIMIT GPU_TEMP_MARGIN_CELSIUS"),
    _f(152, "max_operating_temperature_celsius", LIMIT_CELSIUS, "GGMOT", "GPU_MAX_OP_TEMP GPU_MAX_OP_TEMP_CELSIUS"),
    _f(
        151,
        "memory_max_operating_temperature_celsius",
        LIMIT_CELSIUS,
        "GMMOT",
        "MEM_MAX_OP_TEMP MEMORY_MAX_OP_TEMP_CELSIUS",
    ),
    _f(158, "slowdown_temperature_celsius", LIMIT_CELSIUS, "SDTMP", "SLOWDOWN_TEMP GPU_TEMP_SLOWDOWN_CELSIUS"),
    _f(159, "shutdown_temperature_celsius", LIMIT_CELSIUS, "SHTMP", "SHUTDOWN_TEMP GPU_TEMP_SHUTDOWN_CELSIUS"),
    _f(191, "fan_speed_ratio", FAN_PERCENT, "FANSP", "FAN_SPEED"),
    _f(1612, "fan_speed_ratio", FAN_RATIO, "", "FAN_SPEED_RATIO"),
    _f(100, "sm_clock_hertz", MEGAHERTZ, "SMCLK", "SM_CLOCK"),
    _f(1603, "sm_clock_hertz", HERTZ, "", "SM_CLOCK_HERTZ"),
    _f(113, "sm_clock_max_hertz", LIMIT_MEGAHERTZ, "SMMAX", "MAX_SM_CLOCK"),
    _f(1608, "sm_clock_max_hertz", LIMIT_HERTZ, "", "SM_MAX_CLOCK_HERTZ"),
    _f(101, "memory_clock_hertz", MEGAHERTZ, "MMCLK", "MEM_CLOCK"),
    _f(1604, "memory_clock_hertz", HERTZ, "", "MEMORY_CLOCK_HERTZ"),
    _f(114, "memory_clock_max_hertz", LIMIT_MEGAHERTZ, "MMMAX", "MAX_MEM_CLOCK"),
    _f(1609, "memory_clock_max_hertz", LIMIT_HERTZ, "", "MEMORY_MAX_CLOCK_HERTZ"),
    _f(102, "video_clock_hertz", MEGAHERTZ, "VICLK", "VIDEO_CLOCK"),
    _f(1605, "video_clock_hertz", HERTZ, "", "VIDEO_CLOCK_HERTZ"),
    _f(115, "video_clock_max_hertz", LIMIT_MEGAHERTZ, "VIMAX", "MAX_VIDEO_CLOCK"),
    _f(1610, "video_clock_max_hertz", LIMIT_HERTZ, "", "VIDEO_MAX_CLOCK_HERTZ"),
    _f(110, "application_sm_clock_hertz", MEGAHERTZ, "SACLK", "APP_SM_CLOCK"),
    _f(1606, "application_sm_clock_hertz", HERTZ, "", "SM_APP_CLOCK_HERTZ"),
    _f(111, "application_memory_clock_hertz", MEGAHERTZ, "MACLK", "APP_MEM_CLOCK"),
    _f(1607, "application_memory_clock_hertz", HERTZ, "", "MEMORY_APP_CLOCK_HERTZ"),
    _f(112, "clocks_event_reasons", CODE, "DVCCTR", "CLOCKS_EVENT_REASONS CLOCK_THROTTLE_REASONS"),
    _f(190, "performance_state", PSTATE, "PSTAT", "PSTATE GPU_PSTATE"),
    # errors
    _f(230, "xid_last_code", CODE, "XIDER", "XID_ERRORS XID_ERROR"),
    _f(202, "pcie_replays_total", COUNT, "RPCTR", "PCIE_REPLAY_COUNTER PCIE_REPLAY_TOTAL"),
    _f(
        1501,
        "pcie_correctable_errors_total",
        COUNT,
        "PCIECOER",
        "PCIE_COUNT_CORRECTABLE_ERRORS PCIE_CORRECTABLE_ERROR_TOTAL",
    ),
    _f(237, "pcie_link_generation", LINK, "PCILG", "PCIE_LINK_GEN"),
    _f(235, "pcie_link_generation_max", LINK, "PCIMG", "PCIE_MAX_LINK_GEN"),
    _f(238, "pcie_link_width", LINK, "PCILW", "PCIE_LINK_WIDTH"),
    _f(236, "pcie_link_width_max", LINK, "PCIMW", "PCIE_MAX_LINK_WIDTH"),
    _f(300, "ecc_mode", CODE, "ECCUR", "ECC_CURRENT ECC_MODE"),
    _f(301, "ecc_mode_pending", CODE, "ECPEN", "ECC_PENDING"),
    _f(310, "ecc_sbe_volatile_total", COUNT, "ESVTL", "ECC_SBE_VOL_TOTAL"),
    _f(311, "ecc_dbe_volatile_total", COUNT, "EDVTL", "ECC_DBE_VOL_TOTAL"),
    _f(312, "ecc_sbe_aggregate_total", COUNT, "ESATL", "ECC_SBE_AGG_TOTAL"),
    _f(313, "ecc_dbe_aggregate_total", COUNT, "EDATL", "ECC_DBE_AGG_TOTAL"),
    _f(342, "ecc_sram_sbe_volatile_total", COUNT, "ESVSRM", "ECC_SBE_VOL_SRM"),
    _f(343, "ecc_sram_dbe_volatile_total", COUNT, "EDVSRM", "ECC_DBE_VOL_SRM"),
    _f(344, "ecc_sram_sbe_aggregate_total", COUNT, "ESDSRM", "ECC_SBE_AGG_SRM"),
    _f(345, "ecc_sram_dbe_aggregate_total", COUNT, "EDDSRM", "ECC_DBE_AGG_SRM"),
    _f(346, "ecc_sram_threshold_exceeded", CODE, "ECCTHRSRM", "THRESHOLD_SRM SRAM_EXCEEDED"),
    _f(
        393,
        "remapped_rows_uncorrectable_total",
        COUNT,
        "URMPS",
        "UNCORRECTABLE_REMAPPED_ROWS ROW_REMAP_UNCORRECTABLE_TOTAL",
    ),
    _f(394, "remapped_rows_correctable_total", COUNT, "CRMPS", "CORRECTABLE_REMAPPED_ROWS ROW_REMAP_CORRECTABLE_TOTAL"),
    _f(395, "row_remap_failure", CODE, "RRF", "ROW_REMAP_FAILURE ROW_REMAP_FAILED"),
    _f(396, "row_remap_pending", CODE, "RRP", "ROW_REMAP_PENDING"),
    _f(385, "remap_banks_max_spares", COUNT, "RRAM", "BANKS_REMAP_ROWS_AVAIL_MAX BANK_REMAP_AVAIL_MAX"),
    _f(386, "remap_banks_high_spares", COUNT, "RRAH", "BANKS_REMAP_ROWS_AVAIL_HIGH BANK_REMAP_AVAIL_HIGH"),
    _f(387, "remap_banks_partial_spares", COUNT, "RRAP", "BANKS_REMAP_ROWS_AVAIL_PARTIAL BANK_REMAP_AVAIL_PARTIAL"),
    _f(388, "remap_banks_low_spares", COUNT, "RRAL", "BANKS_REMAP_ROWS_AVAIL_LOW BANK_REMAP_AVAIL_LOW"),
    _f(389, "remap_banks_no_spares", COUNT, "RRAN", "BANKS_REMAP_ROWS_AVAIL_NONE BANK_REMAP_AVAIL_NONE"),
    _f(390, "retired_pages_sbe_total", COUNT, "RPSBE", "RETIRED_SBE PAGE_RETIRED_SBE_TOTAL"),
    _f(391, "retired_pages_dbe_total", COUNT, "RPDBE", "RETIRED_DBE PAGE_RETIRED_DBE_TOTAL"),
    _f(392, "retired_pages_pending", CODE, "RPPEN", "RETIRED_PENDING PAGE_RETIRED_PENDING"),
    _f(1507, "memory_unrepairable", CODE, "MEMUNR", "MEMORY_UNREPAIRABLE_FLAG MEMORY_UNREPAIRABLE"),
    _f(1523, "recovery_action", CODE, "GPURECOV", "GET_GPU_RECOVERY_ACTION GPU_RECOVERY_ACTION"),
    _f(84, "inforom_valid", CODE, "ICVLD", "INFOROM_CONFIG_VALID INFOROM_VALID"),
    _f(240, "power_violation_seconds_total", NANOSECONDS, "PVIOL", "POWER_VIOLATION"),
    _f(1617, "power_violation_seconds_total", SECONDS, "", "GPU_POWER_THROTTLE_SECONDS_TOTAL"),
    _f(241, "thermal_violation_seconds_total", NANOSECONDS, "TVIOL", "THERMAL_VIOLATION"),
    _f(1618, "thermal_violation_seconds_total", SECONDS, "", "GPU_THERMAL_THROTTLE_SECONDS_TOTAL"),
    _f(242, "sync_boost_violation_seconds_total", NANOSECONDS, "SBVIO", "SYNC_BOOST_VIOLATION"),
    _f(1619, "sync_boost_violation_seconds_total", SECONDS, "", "GPU_SYNC_BOOST_THROTTLE_SECONDS_TOTAL"),
    _f(243, "board_limit_violation_seconds_total", NANOSECONDS, "BLVIO", "BOARD_LIMIT_VIOLATION"),
    _f(1620, "board_limit_violation_seconds_total", SECONDS, "", "GPU_LIMIT_THROTTLE_SECONDS_TOTAL"),
    _f(244, "low_utilization_violation_seconds_total", NANOSECONDS, "LUVIO", "LOW_UTIL_VIOLATION"),
    _f(1621, "low_utilization_violation_seconds_total", SECONDS, "", "GPU_LOW_UTIL_THROTTLE_SECONDS_TOTAL"),
    _f(245, "reliability_violation_seconds_total", NANOSECONDS, "RVIOL", "RELIABILITY_VIOLATION"),
    _f(1622, "reliability_violation_seconds_total", SECONDS, "", "GPU_RELIABILITY_THROTTLE_SECONDS_TOTAL"),
    _f(246, "application_clocks_violation_seconds_total", NANOSECONDS, "TAPCV", "TOTAL_APP_CLOCKS_VIOLATION"),
    _f(1623, "application_clocks_violation_seconds_total", SECONDS, "", "GPU_APP_THROTTLE_SECONDS_TOTAL"),
    _f(247, "base_clocks_violation_seconds_total", NANOSECONDS, "TAPBC", "TOTAL_BASE_CLOCKS_VIOLATION"),
    _f(1624, "base_clocks_violation_seconds_total", SECONDS, "", "GPU_BASE_THROTTLE_SECONDS_TOTAL"),
    _f(1420, "power_cap_slowdown_seconds_total", NANOSECONDS, "CLKPCNS", "CLOCKS_EVENT_REASON_SW_POWER_CAP_NS"),
    _f(1421, "sync_boost_slowdown_seconds_total", NANOSECONDS, "CLKBSTNS", "CLOCKS_EVENT_REASON_SYNC_BOOST_NS"),
    _f(
        1422,
        "software_thermal_slowdown_seconds_total",
        NANOSECONDS,
        "CLKSWTHNS",
        "CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS",
    ),
    _f(
        1423,
        "hardware_thermal_slowdown_seconds_total",
        NANOSECONDS,
        "CLKHWTHNS",
        "CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS",
    ),
    _f(
        1424,
        "power_brake_slowdown_seconds_total",
        NANOSECONDS,
        "CLKEPBSNS",
        "CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS",
    ),
    _f(497, "nvlink_crc_errors_total", COUNT, "NLCRC", "NVLINK_ERROR_DL_CRC NVLINK_CRC_ERROR_TOTAL"),
    _f(
        409,
        "nvlink_crc_flit_errors_total",
        COUNT,
        "NFELT",
        "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL NVLINK_CRC_FLIT_ERROR_TOTAL",
    ),
    _f(
        419,
        "nvlink_crc_data_errors_total",
        COUNT,
        "NDELT",
        "NVLINK_CRC_DATA_ERROR_COUNT_TOTAL NVLINK_CRC_DATA_ERROR_TOTAL",
    ),
    _f(429, "nvlink_replay_errors_total", COUNT, "NRELT", "NVLINK_REPLAY_ERROR_COUNT_TOTAL NVLINK_REPLAY_ERROR_TOTAL"),
    _f(499, "nvlink_replay_errors_total", COUNT, "NLREP", "NVLINK_ERROR_DL_REPLAY NVLINK_REPLAY_TOTAL"),
    _f(
        439,
        "nvlink_recovery_errors_total",
        COUNT,
        "NRCLT",
        "NVLINK_RECOVERY_ERROR_COUNT_TOTAL NVLINK_RECOVERY_ERROR_TOTAL",
    ),
    _f(498, "nvlink_recovery_errors_total", COUNT, "NLREC", "NVLINK_ERROR_DL_RECOVERY NVLINK_RECOVERY_TOTAL"),
    _f(1206, "nvlink_receive_errors_total", COUNT, "NLRCVE", "NVLINK_COUNT_RX_ERRORS NVLINK_RX_ERROR_TOTAL"),
    _f(
        1214,
        "nvlink_symbol_errors_total",
        COUNT,
        "NLSYME",
        "NVLINK_COUNT_RX_SYMBOL_ERRORS NVLINK_RX_SYMBOL_ERROR_TOTAL",
    ),
    _f(
        1213,
        "nvlink_link_recoveries_total",
        COUNT,
        "NLLR",
        "NVLINK_COUNT_LINK_RECOVERY_EVENTS NVLINK_RECOVERY_EVENT_TOTAL",
    ),
    _f(
        1211,
        "nvlink_link_recoveries_successful_total",
        COUNT,
        "NLLRS",
        "NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS NVLINK_RECOVERY_SUCCESSFUL_TOTAL",
    ),
    _f(
        1212,
        "nvlink_link_recoveries_failed_total",
        COUNT,
        "NLLRF",
        "NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS NVLINK_RECOVERY_FAILED_TOTAL",
    ),
    _f(
        1216,
        "nvlink_symbol_bit_error_ratio",
        BIT_ERROR_RATIO,
        "NLSYMBF",
        "NVLINK_COUNT_SYMBOL_BER_FLOAT NVLINK_SYMBOL_BER_RATIO",
    ),
    _f(
        1218,
        "nvlink_effective_bit_error_ratio",
        BIT_ERROR_RATIO,
        "NLEFBF",
        "NVLINK_COUNT_EFFECTIVE_BER_FLOAT NVLINK_EFFECTIVE_BER_RATIO",
    ),
    # state
    _f(170, "fabric_manager_status", CODE, "FMSTA", "FABRIC_MANAGER_STATUS"),
    _f(171, "fabric_manager_error_code", CODE, "FMFRC", "FABRIC_MANAGER_ERROR_CODE FABRIC_MANAGER_ERROR"),
    _f(174, "fabric_health_mask", CODE, "FMHMSK", "FABRIC_HEALTH_MASK"),
    _f(175, "fabric_health_summary", CODE, "FMHSUM", "FABRIC_HEALTH_SUMMARY"),
    _f(
        1432,
        "power_smoothing_lifetime_remaining_ratio",
        PERCENT_DOUBLE,
        "PSMHCPLR",
        "PWR_SMOOTHING_HW_CIRCUITRY_PERCENT_LIFETIME_REMAINING",
    ),
    _f(66, "persistence_mode", CODE, "PMMOD", "PERSISTENCE_MODE GPU_PERSISTENCE_MODE"),
    _f(67, "mig_mode", CODE, "MGMOD", "MIG_MODE"),
    _f(94, "gpm_supported", CODE, "GPMSPT", "GPM_SUPPORT"),
    _f(74, "confidential_compute_mode", CODE, "CCMOD", "CC_MODE"),
    _f(526, "vgpu_license_status", CODE, "VLCST", "VGPU_LICENSE_STATUS", VGPU),
)
"""All of them. Where several fill one quantity, the first that has a value does."""

AMBIGUOUS_NAME = "DCGM_FI_DEV_GPU_UTIL_RATIO"
"""In DCGM 4.6 another name of field 203, in percent; from 4.7 on field 1613, a ratio."""

IDENTITY: Mapping[str, str] = {"DVNAM": "model", "UUID#": "uuid", "PCBID": "pci_bus_id", "DRVER": "driver_version"}
"""Columns of dmon with text, fields 50, 54, 57 and 1, and the attribute of a device that they fill."""

DERIVED: Mapping[str, str] = {
    "memory_bytes": "memory_used_bytes + memory_free_bytes + memory_reserved_bytes",
    "memory_used_ratio": "memory_used_bytes / memory_bytes",
    "nvlink_crc_errors_total": "nvlink_crc_flit_errors_total + nvlink_crc_data_errors_total",
}
"""Quantities that Translate computes where no field has them (the ratio: where both inputs are present)."""


def _index(key_values: list[tuple[str, DcgmField]]) -> Mapping[str, tuple[DcgmField, ...]]:
    index: dict[str, tuple[DcgmField, ...]] = {}
    for key, field in key_values:
        index[key] = (*index.get(key, ()), field)
    return index


BY_NAME: Mapping[str, tuple[DcgmField, ...]] = _index([(name, field) for field in FIELDS for name in field.names])
"""By metric name of an exporter's page; several when the field fills several quantities."""

BY_SHORT: Mapping[str, tuple[DcgmField, ...]] = _index([(field.short, field) for field in FIELDS if field.short])
"""By column of dmon; several when the field fills several quantities."""

_BY_QUANTITY = _index([(field.quantity, field) for field in FIELDS])


def sources(quantity: str) -> tuple[DcgmField, ...]:
    """Return the fields that fill a quantity, the preferred one first; none if it is only derived. Raises `KeyError`.

    >>> [str(field) for field in sources("power_limit_watts")]
    ['164 DEV_ENFORCED_POWER_LIMIT', '160 DEV_POWER_MGMT_LIMIT']
    """
    if quantity not in QUANTITIES:
        raise KeyError(quantity)
    return _BY_QUANTITY.get(quantity, ())
