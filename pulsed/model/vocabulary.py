"""The canonical vocabulary: every quantity of a GPU, declared once.

A field of `Reading` is at the same time the record's attribute, the suffix of the metric `pulsed_gpu_<name>`, the key
in JSON and the column in CSV. Units are in the name, always base units: ratios 0..1, bytes, seconds, hertz, watts,
joules, degrees Celsius. None means that the source has no value; it is never replaced by 0.

Adding a quantity is one entry here and a row in `pulsed/translate/fields.tsv`, which lists its sources. This module
must not contain any source's names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, get_type_hints

Value = float | None
"""A reading in base units, or None: missing."""

Group = Literal["activity", "traffic", "memory", "power", "errors", "state"]
"""A chapter of the documentation."""

_Activity = Annotated[Value, "activity"]
_Traffic = Annotated[Value, "traffic"]
_Memory = Annotated[Value, "memory"]
_Power = Annotated[Value, "power"]
_Errors = Annotated[Value, "errors"]
_State = Annotated[Value, "state"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """The chapter of the documentation that a field of `Reading` belongs to, and its line for HELP."""

    group: Group
    meaning: str


class Reading(NamedTuple):
    """One sample of one GPU, MIG instance or vGPU, in base units.

    Each field is a quantity: its name with its unit, its group, and its line for HELP and documentation, without a
    full stop.
    """

    graphics_engine_active_ratio: Annotated[
        _Activity, "Share of time with any part of the graphics or compute engine busy"
    ] = None
    sm_active_ratio: Annotated[_Activity, "Share of time with a warp on an SM, averaged over the SMs"] = None
    sm_occupancy_ratio: Annotated[_Activity, "Warps resident on the SMs as a share of their maximum"] = None
    tensor_active_ratio: Annotated[_Activity, "Share of cycles with a tensor pipe busy"] = None
    tensor_hmma_active_ratio: Annotated[
        _Activity, "Share of cycles with half precision (HMMA) work in a tensor pipe"
    ] = None
    tensor_imma_active_ratio: Annotated[_Activity, "Share of cycles with integer (IMMA) work in a tensor pipe"] = None
    tensor_dfma_active_ratio: Annotated[
        _Activity, "Share of cycles with double precision (DFMA) work in a tensor pipe"
    ] = None
    fp64_active_ratio: Annotated[_Activity, "Share of cycles with the FP64 pipe busy"] = None
    fp32_active_ratio: Annotated[_Activity, "Share of cycles with the FP32 pipe busy"] = None
    fp16_active_ratio: Annotated[_Activity, "Share of cycles with the FP16 pipe busy"] = None
    integer_active_ratio: Annotated[_Activity, "Share of cycles with the integer pipe busy"] = None
    dram_active_ratio: Annotated[
        _Activity, "Share of cycles in which device memory sent or received data; reaches about 0.8"
    ] = None
    gpu_utilization_ratio: Annotated[
        _Activity,
        "Share of time in which at least one kernel ran, however small (what nvidia-smi calls GPU utilization)",
    ] = None
    memory_utilization_ratio: Annotated[
        _Activity, "Share of time in which device memory was read or written (NVML's time share, not bandwidth)"
    ] = None
    encoder_utilization_ratio: Annotated[_Activity, "Share of time with the video encoder busy"] = None
    decoder_utilization_ratio: Annotated[_Activity, "Share of time with the video decoder busy"] = None
    nvdec0_active_ratio: Annotated[_Activity, "Share of time with video decoder 0 busy"] = None
    nvdec1_active_ratio: Annotated[_Activity, "Share of time with video decoder 1 busy"] = None
    nvdec2_active_ratio: Annotated[_Activity, "Share of time with video decoder 2 busy"] = None
    nvdec3_active_ratio: Annotated[_Activity, "Share of time with video decoder 3 busy"] = None
    nvdec4_active_ratio: Annotated[_Activity, "Share of time with video decoder 4 busy"] = None
    nvdec5_active_ratio: Annotated[_Activity, "Share of time with video decoder 5 busy"] = None
    nvdec6_active_ratio: Annotated[_Activity, "Share of time with video decoder 6 busy"] = None
    nvdec7_active_ratio: Annotated[_Activity, "Share of time with video decoder 7 busy"] = None
    nvjpg0_active_ratio: Annotated[_Activity, "Share of time with JPEG engine 0 busy"] = None
    nvjpg1_active_ratio: Annotated[_Activity, "Share of time with JPEG engine 1 busy"] = None
    nvjpg2_active_ratio: Annotated[_Activity, "Share of time with JPEG engine 2 busy"] = None
    nvjpg3_active_ratio: Annotated[_Activity, "Share of time with JPEG engine 3 busy"] = None
    nvjpg4_active_ratio: Annotated[_Activity, "Share of time with JPEG engine 4 busy"] = None
    nvjpg5_active_ratio: Annotated[_Activity, "Share of time with JPEG engine 5 busy"] = None
    nvjpg6_active_ratio: Annotated[_Activity, "Share of time with JPEG engine 6 busy"] = None
    nvjpg7_active_ratio: Annotated[_Activity, "Share of time with JPEG engine 7 busy"] = None
    nvofa0_active_ratio: Annotated[_Activity, "Share of time with optical flow engine 0 busy"] = None
    nvofa1_active_ratio: Annotated[_Activity, "Share of time with optical flow engine 1 busy"] = None
    hostmem_cache_hit_ratio: Annotated[_Activity, "Share of host memory accesses that hit the cache"] = None
    hostmem_cache_miss_ratio: Annotated[_Activity, "Share of host memory accesses that missed the cache"] = None
    peermem_cache_hit_ratio: Annotated[_Activity, "Share of peer memory accesses that hit the cache"] = None
    peermem_cache_miss_ratio: Annotated[_Activity, "Share of peer memory accesses that missed the cache"] = None
    sm_elapsed_cycles_total: Annotated[_Activity, "SM cycles since driver load"] = None
    sm_active_cycles_total: Annotated[_Activity, "SM cycles with a warp on an SM"] = None
    tensor_active_cycles_total: Annotated[_Activity, "SM cycles with any tensor pipe busy"] = None
    tensor_dmma_active_cycles_total: Annotated[
        _Activity, "SM cycles with double precision (DMMA) work in a tensor pipe"
    ] = None
    tensor_hmma_active_cycles_total: Annotated[
        _Activity, "SM cycles with half precision (HMMA) work in a tensor pipe"
    ] = None
    tensor_imma_active_cycles_total: Annotated[_Activity, "SM cycles with integer (IMMA) work in a tensor pipe"] = None
    tensor_dfma_active_cycles_total: Annotated[
        _Activity, "SM cycles with double precision (DFMA) work in a tensor pipe"
    ] = None
    integer_active_cycles_total: Annotated[_Activity, "SM cycles with the integer pipe busy"] = None
    fp64_active_cycles_total: Annotated[_Activity, "SM cycles with the FP64 pipe busy"] = None
    fp32_active_cycles_total: Annotated[_Activity, "SM cycles with the FP32 pipe busy"] = None
    fp16_active_cycles_total: Annotated[_Activity, "SM cycles with the FP16 pipe busy"] = None
    pcie_transmit_bytes_per_second: Annotated[_Traffic, "Rate of data sent over PCIe, headers included"] = None
    pcie_receive_bytes_per_second: Annotated[_Traffic, "Rate of data received over PCIe, headers included"] = None
    nvlink_transmit_bytes_per_second: Annotated[_Traffic, "Rate of data sent over all NVLinks, headers excluded"] = None
    nvlink_receive_bytes_per_second: Annotated[_Traffic, "Rate of data received over all NVLinks, headers excluded"] = (
        None
    )
    nvlink_bandwidth_bytes_per_second: Annotated[
        _Traffic, "Rate of data over all NVLinks, both directions together"
    ] = None
    c2c_transmit_bytes_per_second: Annotated[_Traffic, "Rate of data sent over the chip-to-chip link"] = None
    c2c_receive_bytes_per_second: Annotated[_Traffic, "Rate of data received over the chip-to-chip link"] = None
    pcie_transmit_bytes_total: Annotated[_Traffic, "Data sent over PCIe, counted by the GPU"] = None
    pcie_receive_bytes_total: Annotated[_Traffic, "Data received over PCIe, counted by the GPU"] = None
    nvlink_transmit_bytes_total: Annotated[_Traffic, "Data sent over all NVLinks, counted by the GPU"] = None
    nvlink_receive_bytes_total: Annotated[_Traffic, "Data received over all NVLinks, counted by the GPU"] = None
    memory_bytes: Annotated[_Memory, "Size of device memory"] = None
    memory_used_bytes: Annotated[_Memory, "Device memory in use"] = None
    memory_free_bytes: Annotated[_Memory, "Device memory free"] = None
    memory_reserved_bytes: Annotated[_Memory, "Device memory that the driver and firmware keep"] = None
    memory_used_ratio: Annotated[_Memory, "Device memory in use over its size"] = None
    bar1_memory_bytes: Annotated[_Memory, "Size of the BAR1 window"] = None
    bar1_memory_used_bytes: Annotated[_Memory, "BAR1 window in use"] = None
    bar1_memory_free_bytes: Annotated[_Memory, "BAR1 window free"] = None
    vgpu_memory_used_bytes: Annotated[_Memory, "Device memory in use by the vGPU guest"] = None
    power_watts: Annotated[_Power, "Board power, averaged by the driver"] = None
    power_instant_watts: Annotated[_Power, "Board power at the moment of reading"] = None
    power_limit_watts: Annotated[_Power, "Power limit in force"] = None
    power_limit_requested_watts: Annotated[_Power, "Requested power limit"] = None
    power_limit_min_watts: Annotated[_Power, "Lowest power limit that can be set"] = None
    power_limit_max_watts: Annotated[_Power, "Highest power limit that can be set"] = None
    power_limit_default_watts: Annotated[_Power, "Power limit after a reset"] = None
    energy_joules_total: Annotated[_Power, "Energy used since driver load"] = None
    temperature_celsius: Annotated[_Power, "Temperature of the die"] = None
    memory_temperature_celsius: Annotated[_Power, "Temperature of device memory"] = None
    temperature_margin_celsius: Annotated[_Power, "Degrees left before the GPU reaches its own limit"] = None
    max_operating_temperature_celsius: Annotated[_Power, "Highest die temperature for normal operation"] = None
    memory_max_operating_temperature_celsius: Annotated[_Power, "Highest memory temperature for normal operation"] = (
        None
    )
    slowdown_temperature_celsius: Annotated[_Power, "Die temperature at which the GPU slows its clocks"] = None
    shutdown_temperature_celsius: Annotated[_Power, "Die temperature at which the GPU turns itself off"] = None
    fan_speed_ratio: Annotated[_Power, "Fan speed over its maximum"] = None
    sm_clock_hertz: Annotated[_Power, "SM clock"] = None
    sm_clock_max_hertz: Annotated[_Power, "Highest SM clock of this board"] = None
    memory_clock_hertz: Annotated[_Power, "Memory clock"] = None
    memory_clock_max_hertz: Annotated[_Power, "Highest memory clock of this board"] = None
    video_clock_hertz: Annotated[_Power, "Video encoder and decoder clock"] = None
    video_clock_max_hertz: Annotated[_Power, "Highest video clock of this board"] = None
    application_sm_clock_hertz: Annotated[_Power, "Requested SM clock"] = None
    application_memory_clock_hertz: Annotated[_Power, "Requested memory clock"] = None
    clocks_event_reasons: Annotated[_Power, "Reasons for the current clocks, as NVML's bit mask"] = None
    performance_state: Annotated[_Power, "P-state: 0 is the fastest, 15 the slowest"] = None
    xid_last_code: Annotated[_Errors, "Code of the last XID error since the source started; 0 without one"] = None
    pcie_replays_total: Annotated[_Errors, "PCIe packets sent again"] = None
    pcie_correctable_errors_total: Annotated[_Errors, "Correctable PCIe errors"] = None
    pcie_link_generation: Annotated[_Errors, "Current PCIe generation of the link"] = None
    pcie_link_generation_max: Annotated[_Errors, "Highest PCIe generation of GPU and slot"] = None
    pcie_link_width: Annotated[_Errors, "PCIe lanes in use"] = None
    pcie_link_width_max: Annotated[_Errors, "Maximum number of PCIe lanes of GPU and slot"] = None
    ecc_mode: Annotated[_Errors, "1 while ECC is on"] = None
    ecc_mode_pending: Annotated[_Errors, "1 if ECC will be on after the next reset"] = None
    ecc_sbe_volatile_total: Annotated[_Errors, "Corrected memory errors since driver load"] = None
    ecc_dbe_volatile_total: Annotated[_Errors, "Uncorrected memory errors since driver load"] = None
    ecc_sbe_aggregate_total: Annotated[_Errors, "Corrected memory errors over the life of the board"] = None
    ecc_dbe_aggregate_total: Annotated[_Errors, "Uncorrected memory errors over the life of the board"] = None
    ecc_sram_sbe_volatile_total: Annotated[_Errors, "Corrected SRAM errors since driver load"] = None
    ecc_sram_dbe_volatile_total: Annotated[_Errors, "Uncorrected SRAM errors since driver load"] = None
    ecc_sram_sbe_aggregate_total: Annotated[_Errors, "Corrected SRAM errors over the life of the board"] = None
    ecc_sram_dbe_aggregate_total: Annotated[_Errors, "Uncorrected SRAM errors over the life of the board"] = None
    ecc_sram_threshold_exceeded: Annotated[_Errors, "1 once uncorrected SRAM errors passed the board's limit"] = None
    remapped_rows_uncorrectable_total: Annotated[_Errors, "Memory rows replaced after uncorrectable errors"] = None
    remapped_rows_correctable_total: Annotated[_Errors, "Memory rows replaced after correctable errors"] = None
    row_remap_failure: Annotated[_Errors, "1 if a memory row could not be replaced"] = None
    row_remap_pending: Annotated[_Errors, "1 while a row replacement waits for a reset"] = None
    remap_banks_max_spares: Annotated[_Errors, "Memory banks with all spare rows left"] = None
    remap_banks_high_spares: Annotated[_Errors, "Memory banks with many spare rows left"] = None
    remap_banks_partial_spares: Annotated[_Errors, "Memory banks with some spare rows left"] = None
    remap_banks_low_spares: Annotated[_Errors, "Memory banks with few spare rows left"] = None
    remap_banks_no_spares: Annotated[_Errors, "Memory banks without a spare row"] = None
    retired_pages_sbe_total: Annotated[_Errors, "Memory pages retired after corrected errors"] = None
    retired_pages_dbe_total: Annotated[_Errors, "Memory pages retired after uncorrected errors"] = None
    retired_pages_pending: Annotated[_Errors, "1 while a page retirement waits for a reset"] = None
    memory_unrepairable: Annotated[_Errors, "1 if the board reports memory that it cannot repair"] = None
    recovery_action: Annotated[_Errors, "Recovery step that the driver requests; 0 none"] = None
    inforom_valid: Annotated[_Errors, "1 if the InfoROM's checksum is valid"] = None
    power_violation_seconds_total: Annotated[_Errors, "Time throttled by the power limit"] = None
    thermal_violation_seconds_total: Annotated[_Errors, "Time throttled by heat"] = None
    sync_boost_violation_seconds_total: Annotated[_Errors, "Time throttled by a sync boost group"] = None
    board_limit_violation_seconds_total: Annotated[_Errors, "Time throttled by the board's own limit"] = None
    low_utilization_violation_seconds_total: Annotated[_Errors, "Time throttled by low use"] = None
    reliability_violation_seconds_total: Annotated[_Errors, "Time throttled by the board's reliability limit"] = None
    application_clocks_violation_seconds_total: Annotated[_Errors, "Time below the application clocks"] = None
    base_clocks_violation_seconds_total: Annotated[_Errors, "Time below the base clocks"] = None
    power_cap_slowdown_seconds_total: Annotated[
        _Errors, "Time in which software lowered the clocks to hold the power cap"
    ] = None
    sync_boost_slowdown_seconds_total: Annotated[
        _Errors, "Time in which software lowered the clocks for a sync boost group"
    ] = None
    software_thermal_slowdown_seconds_total: Annotated[
        _Errors, "Time in which the driver lowered the clocks because of heat"
    ] = None
    hardware_thermal_slowdown_seconds_total: Annotated[
        _Errors, "Time in which the hardware cut the clocks because of heat"
    ] = None
    power_brake_slowdown_seconds_total: Annotated[_Errors, "Time in which an outside power brake cut the clocks"] = None
    nvlink_crc_errors_total: Annotated[_Errors, "NVLink CRC errors, flit and data together"] = None
    nvlink_crc_flit_errors_total: Annotated[_Errors, "NVLink flit CRC errors"] = None
    nvlink_crc_data_errors_total: Annotated[_Errors, "NVLink data CRC errors"] = None
    nvlink_replay_errors_total: Annotated[_Errors, "NVLink packets sent again"] = None
    nvlink_recovery_errors_total: Annotated[_Errors, "NVLink recoveries"] = None
    nvlink_receive_errors_total: Annotated[_Errors, "NVLink packets received with an error"] = None
    nvlink_symbol_errors_total: Annotated[_Errors, "NVLink symbol errors received"] = None
    nvlink_link_recoveries_total: Annotated[_Errors, "NVLink 5 link recoveries started"] = None
    nvlink_link_recoveries_successful_total: Annotated[_Errors, "NVLink 5 link recoveries that worked"] = None
    nvlink_link_recoveries_failed_total: Annotated[_Errors, "NVLink 5 link recoveries that failed"] = None
    nvlink_symbol_bit_error_ratio: Annotated[_Errors, "NVLink bit errors before correction over bits"] = None
    nvlink_effective_bit_error_ratio: Annotated[_Errors, "NVLink bit errors after correction over bits"] = None
    c2c_crc_errors_total: Annotated[_Errors, "CRC errors of the chip-to-chip link"] = None
    c2c_replay_errors_total: Annotated[_Errors, "Replays of the chip-to-chip link"] = None
    c2c_repeated_replay_errors_total: Annotated[
        _Errors, "Replays of the chip-to-chip link that follow another one at once"
    ] = None
    c2c_power_state: Annotated[_State, "Power state of the chip-to-chip link"] = None
    nvlink_transmit_waits_total: Annotated[_Errors, "Ticks in which an NVLink port had data to send but no credit"] = (
        None
    )
    imex_daemon_status: Annotated[_State, "State of the IMEX daemon of the node: 5 ready, 7 not available"] = None
    diag_memory_result: Annotated[
        _State,
        "Last result of the test memory of dcgmi diag: 0 passed, 1 skipped, 2 warned, 3 failed, 4 not run",
    ] = None
    diag_diagnostic_result: Annotated[
        _State,
        "Last result of the test diagnostic of dcgmi diag: 0 passed, 1 skipped, 2 warned, 3 failed, 4 not run",
    ] = None
    diag_pcie_result: Annotated[
        _State,
        "Last result of the test pcie of dcgmi diag: 0 passed, 1 skipped, 2 warned, 3 failed, 4 not run",
    ] = None
    diag_targeted_stress_result: Annotated[
        _State,
        "Last result of the test targeted_stress of dcgmi diag: 0 passed, 1 skipped, 2 warned, 3 failed, 4 not run",
    ] = None
    diag_targeted_power_result: Annotated[
        _State,
        "Last result of the test targeted_power of dcgmi diag: 0 passed, 1 skipped, 2 warned, 3 failed, 4 not run",
    ] = None
    diag_memory_bandwidth_result: Annotated[
        _State,
        "Last result of the test memory_bandwidth of dcgmi diag: 0 passed, 1 skipped, 2 warned, 3 failed, 4 not run",
    ] = None
    diag_memtest_result: Annotated[
        _State,
        "Last result of the test memtest of dcgmi diag: 0 passed, 1 skipped, 2 warned, 3 failed, 4 not run",
    ] = None
    diag_pulse_test_result: Annotated[
        _State,
        "Last result of the test pulse_test of dcgmi diag: 0 passed, 1 skipped, 2 warned, 3 failed, 4 not run",
    ] = None
    diag_eud_result: Annotated[
        _State,
        "Last result of the test eud of dcgmi diag: 0 passed, 1 skipped, 2 warned, 3 failed, 4 not run",
    ] = None
    diag_cpu_eud_result: Annotated[
        _State,
        "Last result of the test cpu_eud of dcgmi diag: 0 passed, 1 skipped, 2 warned, 3 failed, 4 not run",
    ] = None
    diag_software_result: Annotated[
        _State,
        "Last result of the test software of dcgmi diag: 0 passed, 1 skipped, 2 warned, 3 failed, 4 not run",
    ] = None
    diag_nvbandwidth_result: Annotated[
        _State,
        "Last result of the test nvbandwidth of dcgmi diag: 0 passed, 1 skipped, 2 warned, 3 failed, 4 not run",
    ] = None
    diag_nccl_tests_result: Annotated[
        _State,
        "Last result of the test nccl_tests of dcgmi diag: 0 passed, 1 skipped, 2 warned, 3 failed, 4 not run",
    ] = None
    fabric_manager_status: Annotated[_State, "State of the fabric manager: 3 is success, 0 not supported"] = None
    fabric_manager_error_code: Annotated[_State, "Error code of the fabric manager"] = None
    fabric_health_mask: Annotated[_State, "Faults of the NVLink fabric as NVML's bit mask"] = None
    fabric_health_summary: Annotated[
        _State, "Health of the NVLink fabric: 1 healthy, 2 unhealthy, 3 limited, 0 not supported"
    ] = None
    power_smoothing_lifetime_remaining_ratio: Annotated[_State, "Remaining life of the power smoothing circuit"] = None
    persistence_mode: Annotated[_State, "1 while the driver stays loaded without a client"] = None
    mig_mode: Annotated[_State, "1 while the GPU is split by MIG"] = None
    gpm_supported: Annotated[_State, "1 if the driver can read profiling counters itself (Hopper and newer)"] = None
    confidential_compute_mode: Annotated[_State, "1 while confidential computing is on"] = None
    vgpu_license_status: Annotated[_State, "1 if the vGPU guest is licensed"] = None


QUANTITIES: Mapping[str, Quantity] = {
    name: Quantity(*hint.__metadata__) for name, hint in get_type_hints(Reading, include_extras=True).items()
}
"""The quantities by name, in the order of `Reading`."""

POSITION: Mapping[str, int] = {name: position for position, name in enumerate(Reading._fields)}
"""Where a quantity stands in a `Reading`."""

NOTHING = Reading()
"""The reading of a GPU without any known value."""


def is_counter(name: str) -> bool:
    """Return whether the quantity is a counter: its name ends in `_total`."""
    return name.endswith("_total")


CLASSES: tuple[str, ...] = (
    "idle",
    "tensor_heavy_compute",
    "tensor_compute",
    "fp64_hpc_compute",
    "io_or_data_loading",
    "memory_bound",
    "compute_heavy",
    "compute_active",
    "memory_active",
    "busy_low_sm_use",
    "low_utilization",
    "mixed_or_moderate",
)
"""The twelve workload classes in the order of their rules; a class with two rules is at the place of the second."""

UNKNOWN = "unknown"
"""The class, or bottleneck, of a GPU whose inputs do not settle it: the thirteenth answer."""

WORKLOAD_CLASSES: tuple[str, ...] = (*CLASSES, UNKNOWN)
"""All thirteen answers."""
