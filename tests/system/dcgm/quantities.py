"""What the mock is told about a board, by the quantity of pulsed that must have it."""

from __future__ import annotations

from typing import Any

from tests.support.dcgm import RealDcgm

_MODES = {"enabled": 1.0, "disabled": 0.0, "True": 1.0, "False": 0.0}

IDENTITY = {"uuid": "uuid", "serial": "serial", "vbios_version": "vbios_version", "model": "name"}
"""Member of a GPU's document, and path in the profile."""

QUANTITIES: dict[str, tuple[str, float]] = {
    "power_limit_watts": ("power.enforced_limit_mw", 1e-3),
    "power_limit_min_watts": ("power.min_limit_mw", 1e-3),
    "power_limit_max_watts": ("power.max_limit_mw", 1e-3),
    "power_limit_default_watts": ("power.default_limit_mw", 1e-3),
    "power_watts": ("power.current_draw_mw", 1e-3),
    "energy_joules_total": ("power.total_energy_consumption_mj", 1e-3),
    "sm_clock_hertz": ("clocks.sm_current", 1e6),
    "sm_clock_max_hertz": ("clocks.sm_max", 1e6),
    "memory_clock_hertz": ("clocks.memory_current", 1e6),
    "memory_clock_max_hertz": ("clocks.memory_max", 1e6),
    "video_clock_hertz": ("clocks.video_current", 1e6),
    "video_clock_max_hertz": ("clocks.video_max", 1e6),
    "application_sm_clock_hertz": ("clocks.graphics_app", 1e6),
    "application_memory_clock_hertz": ("clocks.memory_app", 1e6),
    "memory_bytes": ("memory.total_bytes", 1.0),
    "memory_used_bytes": ("memory.used_bytes", 1.0),
    "memory_free_bytes": ("memory.free_bytes", 1.0),
    "memory_reserved_bytes": ("memory.reserved_bytes", 1.0),
    "bar1_memory_bytes": ("bar1_memory.total_bytes", 1.0),
    "temperature_celsius": ("thermal.temperature_gpu_c", 1.0),
    "memory_temperature_celsius": ("thermal.temperature_memory_c", 1.0),
    "shutdown_temperature_celsius": ("thermal.shutdown_threshold_c", 1.0),
    "slowdown_temperature_celsius": ("thermal.slowdown_threshold_c", 1.0),
    "max_operating_temperature_celsius": ("thermal.max_operating_c", 1.0),
    "fan_speed_ratio": ("fan.speed_percent", 1e-2),
    "ecc_mode": ("ecc.mode_current", 1.0),
    "ecc_mode_pending": ("ecc.mode_pending", 1.0),
    "ecc_sbe_volatile_total": ("ecc.errors.volatile.single_bit.total", 1.0),
    "ecc_dbe_volatile_total": ("ecc.errors.volatile.double_bit.total", 1.0),
    "ecc_sbe_aggregate_total": ("ecc.errors.aggregate.single_bit.total", 1.0),
    "ecc_dbe_aggregate_total": ("ecc.errors.aggregate.double_bit.total", 1.0),
    "remapped_rows_correctable_total": ("remapped_rows.correctable", 1.0),
    "remapped_rows_uncorrectable_total": ("remapped_rows.uncorrectable", 1.0),
    "row_remap_pending": ("remapped_rows.pending", 1.0),
    "row_remap_failure": ("remapped_rows.failure_occurred", 1.0),
    "remap_banks_max_spares": ("remapped_rows.availability_histogram.max", 1.0),
    "remap_banks_no_spares": ("remapped_rows.availability_histogram.none", 1.0),
    "retired_pages_sbe_total": ("retired_pages.single_bit_retirement.count", 1.0),
    "retired_pages_dbe_total": ("retired_pages.double_bit_retirement.count", 1.0),
    "pcie_link_generation": ("pcie.current_link_gen", 1.0),
    "pcie_link_generation_max": ("pcie.max_link_gen", 1.0),
    "pcie_link_width": ("pcie.current_link_width", 1.0),
    "pcie_link_width_max": ("pcie.max_link_width", 1.0),
    "pcie_replays_total": ("pcie.replay_counter", 1.0),
    "persistence_mode": ("persistence_mode", 1.0),
    "mig_mode": ("mig.mode_current", 1.0),
}
"""Quantity, path in the profile, and factor to pulsed's unit."""


NOT_READ = {"dcgmi": {"bar1_memory_bytes"}, "exporter": {"bar1_memory_bytes"}, "nvml": set[str]()}
"""Quantities that a source does not request."""

_NO_LINK_ERRORS = dict.fromkeys(
    ("nvlink_crc_errors_total", "nvlink_replay_errors_total", "nvlink_recovery_errors_total"), 0.0
)
_FABRIC_COMPLETED = {"fabric_manager_status": 3.0}


def expected(dcgm: RealDcgm, gpu: int) -> dict[str, float]:
    """Return the numbers that the profile has for a GPU."""
    numbers: dict[str, float] = {}
    if "fabric" in dcgm.board["device_defaults"]:
        numbers |= _FABRIC_COMPLETED
    if dcgm.board.get("nvlink", {}).get("links_per_gpu"):
        numbers |= _NO_LINK_ERRORS
    for name, (path, factor) in QUANTITIES.items():
        try:
            value: Any = dcgm.gpu(gpu, path)
        except KeyError:
            continue
        number = _MODES.get(str(value), value)
        if isinstance(number, (int, float)):
            numbers[name] = number * factor
    return numbers
