"""The DCGM fields of the demo's page, and the labels of its eight GPUs.

Names, units and label order are those of a dcgm-exporter 4.x page with every useful field switched on, so that demo
data is processed like a real page. All identity is marked as demo data.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from pulsed.model.raw_tick import Layout, Series
from pulsed.reader.demo import simulated_gpu as board
from pulsed.reader.demo.scenes import ROWS, SCENES


class DemoField(NamedTuple):
    """One metric of the page: its value is an attribute of `Reading`, or one number on every board at all times."""

    name: str
    type: str
    value: str | float
    help: str


FIELDS: tuple[DemoField, ...] = (
    DemoField("DCGM_FI_DEV_SM_CLOCK", "gauge", "sm_clock_mhz", "SM clock frequency (in MHz)."),
    DemoField("DCGM_FI_DEV_MEM_CLOCK", "gauge", board.MEMORY_CLOCK_MHZ, "Memory clock frequency (in MHz)."),
    DemoField(
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gauge", "clocks_event_reasons", "Why clocks are lowered (bit mask)."
    ),
    DemoField("DCGM_FI_DEV_MAX_SM_CLOCK", "gauge", board.SM_CLOCK_MAX_MHZ, "Highest SM clock frequency (in MHz)."),
    DemoField("DCGM_FI_DEV_MAX_MEM_CLOCK", "gauge", board.MEMORY_CLOCK_MHZ, "Highest memory clock frequency (in MHz)."),
    DemoField("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "memory_temperature", "Memory temperature (in C)."),
    DemoField("DCGM_FI_DEV_GPU_TEMP", "gauge", "temperature", "GPU temperature (in C)."),
    DemoField(
        "DCGM_FI_DEV_MEM_MAX_OP_TEMP", "gauge", board.MEMORY_MAX_OPERATING_CELSIUS, "Hottest allowed memory (in C)."
    ),
    DemoField("DCGM_FI_DEV_GPU_MAX_OP_TEMP", "gauge", board.MAX_OPERATING_CELSIUS, "Hottest allowed GPU (in C)."),
    DemoField(
        "DCGM_FI_DEV_GPU_TEMP_LIMIT", "gauge", "temperature_margin", "Degrees left to the hottest allowed (in C)."
    ),
    DemoField("DCGM_FI_DEV_SLOWDOWN_TEMP", "gauge", board.SLOWDOWN_CELSIUS, "Hardware slows down from here (in C)."),
    DemoField("DCGM_FI_DEV_SHUTDOWN_TEMP", "gauge", board.SHUTDOWN_CELSIUS, "Hardware shuts down from here (in C)."),
    DemoField("DCGM_FI_DEV_POWER_USAGE", "gauge", "power_watts", "Power draw (in W)."),
    DemoField("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "energy_millijoules", "Energy since boot (in mJ)."),
    DemoField("DCGM_FI_DEV_POWER_MGMT_LIMIT", "gauge", board.POWER_LIMIT_WATTS, "Requested power limit (in W)."),
    DemoField("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "gauge", board.POWER_LIMIT_WATTS, "Power limit in force (in W)."),
    DemoField("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "pcie_replays", "Total number of PCIe retries."),
    DemoField("DCGM_FI_DEV_GPU_UTIL", "gauge", "gpu_percent", "GPU utilization (in %)."),
    DemoField("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "memory_percent", "Memory utilization (in %)."),
    DemoField("DCGM_FI_DEV_ENC_UTIL", "gauge", "encoder_percent", "Encoder utilization (in %)."),
    DemoField("DCGM_FI_DEV_DEC_UTIL", "gauge", "decoder_percent", "Decoder utilization (in %)."),
    DemoField("DCGM_FI_DEV_XID_ERRORS", "gauge", "xid", "Value of the last XID error."),
    DemoField("DCGM_FI_DEV_PCIE_MAX_LINK_GEN", "gauge", 5.0, "Highest PCIe generation."),
    DemoField("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", "gauge", 16.0, "Largest number of PCIe lanes."),
    DemoField("DCGM_FI_DEV_PCIE_LINK_GEN", "gauge", 5.0, "Current PCIe generation."),
    DemoField("DCGM_FI_DEV_PCIE_LINK_WIDTH", "gauge", 16.0, "Current number of PCIe lanes."),
    DemoField("DCGM_FI_DEV_POWER_VIOLATION", "counter", "power_violation_ns", "Time held down by power (in ns)."),
    DemoField("DCGM_FI_DEV_THERMAL_VIOLATION", "counter", "thermal_violation_ns", "Time held down by heat (in ns)."),
    DemoField("DCGM_FI_DEV_FB_TOTAL", "gauge", board.MEMORY_MIB, "Framebuffer memory size (in MiB)."),
    DemoField("DCGM_FI_DEV_FB_FREE", "gauge", "memory_free_mib", "Framebuffer memory free (in MiB)."),
    DemoField("DCGM_FI_DEV_FB_USED", "gauge", "memory_used_mib", "Framebuffer memory used (in MiB)."),
    DemoField("DCGM_FI_DEV_FB_RESERVED", "gauge", board.MEMORY_RESERVED_MIB, "Framebuffer memory reserved (in MiB)."),
    DemoField("DCGM_FI_DEV_FB_USED_PERCENT", "gauge", "memory_used_ratio", "Used share of what is not reserved (0-1)."),
    DemoField("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "corrected", "Single-bit ECC errors since the last reset."),
    DemoField("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "uncorrected", "Double-bit ECC errors since the last reset."),
    DemoField("DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "counter", "corrected_lifetime", "Single-bit ECC errors, lifetime."),
    DemoField("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "counter", "uncorrected_lifetime", "Double-bit ECC errors, lifetime."),
    DemoField("DCGM_FI_DEV_RETIRED_SBE", "counter", 0.0, "Pages retired for single-bit errors."),
    DemoField("DCGM_FI_DEV_RETIRED_DBE", "counter", 0.0, "Pages retired for double-bit errors."),
    DemoField("DCGM_FI_DEV_RETIRED_PENDING", "gauge", 0.0, "Whether a page retirement is pending."),
    DemoField(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "rows_uncorrected", "Rows remapped, uncorrectable."
    ),
    DemoField("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "rows_corrected", "Rows remapped, correctable."),
    DemoField("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", 0.0, "Whether remapping of rows has failed."),
    DemoField("DCGM_FI_DEV_ROW_REMAP_PENDING", "gauge", "remap_pending", "Whether a remapped row waits for a reset."),
    DemoField("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "counter", 0.0, "NVLink flow-control CRC errors."),
    DemoField("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "counter", 0.0, "NVLink data CRC errors."),
    DemoField("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "counter", 0.0, "NVLink retries."),
    DemoField("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "counter", 0.0, "NVLink recovery errors."),
    DemoField(
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "gauge", "nvlink_megabytes", "NVLink data rate, all lanes (in MB/s)."
    ),
    DemoField("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "graphics_engine_ratio", "Graphics engine active (0-1)."),
    DemoField("DCGM_FI_PROF_SM_ACTIVE", "gauge", "sm_ratio", "At least one warp on an SM, mean over SMs (0-1)."),
    DemoField("DCGM_FI_PROF_SM_OCCUPANCY", "gauge", "occupancy_ratio", "Resident warps over the most possible (0-1)."),
    DemoField("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "tensor_ratio", "Tensor pipe active (0-1)."),
    DemoField("DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "dram_ratio", "Device memory interface active (0-1)."),
    DemoField("DCGM_FI_PROF_PIPE_FP64_ACTIVE", "gauge", "fp64_ratio", "FP64 pipe active (0-1)."),
    DemoField("DCGM_FI_PROF_PIPE_FP32_ACTIVE", "gauge", "fp32_ratio", "FP32 pipe active (0-1)."),
    DemoField("DCGM_FI_PROF_PIPE_FP16_ACTIVE", "gauge", "fp16_ratio", "FP16 pipe active (0-1)."),
    DemoField("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", "pcie_transmit", "PCIe transmit rate (in B/s)."),
    DemoField("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", "pcie_receive", "PCIe receive rate (in B/s)."),
    DemoField("DCGM_FI_PROF_NVLINK_TX_BYTES", "gauge", "nvlink_transmit", "NVLink transmit rate (in B/s)."),
    DemoField("DCGM_FI_PROF_NVLINK_RX_BYTES", "gauge", "nvlink_receive", "NVLink receive rate (in B/s)."),
    DemoField(
        "DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE", "gauge", "tensor_integer_ratio", "Integer tensor pipe active (0-1)."
    ),
    DemoField("DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE", "gauge", "tensor_half_ratio", "Half tensor pipe active (0-1)."),
    DemoField("DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE", "gauge", 0.0, "Double tensor pipe active (0-1)."),
    DemoField("DCGM_FI_PROF_PIPE_INT_ACTIVE", "gauge", "integer_ratio", "Integer pipe active (0-1)."),
    DemoField(
        "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION",
        "gauge",
        "recovery_action",
        "Recovery action requested by the driver (0 none, 1 reset).",
    ),
)
"""The whole page, by DCGM field id."""

MEASURED: tuple[tuple[DemoField, str], ...] = tuple((f, f.value) for f in FIELDS if isinstance(f.value, str))
FIXED: tuple[tuple[DemoField, float], ...] = tuple((f, f.value) for f in FIELDS if isinstance(f.value, float))

_pick = attrgetter(*(attribute for _, attribute in MEASURED))
_FIXED_VALUES: tuple[float, ...] = tuple(value for _, value in FIXED for _ in ROWS)

BLANK = 140737488355328.0
"""DCGM's value of a number that it does not have: DCGM_FP64_BLANK."""

_PROFILING_PLACES: tuple[tuple[int, ...], ...] = tuple(
    tuple(
        family * len(ROWS) + row
        for family, (field, _) in enumerate((*MEASURED, *FIXED))
        if field.name.startswith("DCGM_FI_PROF_")
        for row, (index, _) in enumerate(ROWS)
        if index == gpu
    )
    for gpu in range(len(SCENES))
)

OwnerLabels = tuple[tuple[tuple[str, str], ...], ...]

_PCI_BUSES = ("1B", "29", "45", "4E", "9B", "A4", "BA", "C3")


def owner_labels(t: float = 0.0, seed: int = 0) -> OwnerLabels:
    """Return the labels of pods and jobs at `t` seconds, by row."""
    owners = [(index, SCENES[index].owners[at : at + 1]) for index, at in ROWS]
    return tuple(each[0].labels(t, f"{seed}/{index}") if each else () for index, each in owners)


def demo_layout(node: str, owners: OwnerLabels) -> Layout:
    """Name every series of the demo: family by family, row by row, the measured families before the fixed ones."""
    families = [field for field, _ in (*MEASURED, *FIXED)]
    labels = [(*gpu_labels(index, node), *own) for (index, _), own in zip(ROWS, owners, strict=True)]
    return Layout(
        dialect="exporter",
        series=tuple(Series(field.name, own) for field in families for own in labels),
        help={field.name: field.help for field in families},
        types={field.name: field.type for field in families},
    )


def gpu_labels(index: int, node: str) -> tuple[tuple[str, str], ...]:
    """Labels of a GPU as dcgm-exporter 4.x orders them, which those of its owner follow."""
    return (
        ("gpu", str(index)),
        ("UUID", f"GPU-de300000-0000-4000-8000-{index:012d}"),
        ("pci_bus_id", f"00000000:{_PCI_BUSES[index]}:00.0"),
        ("device", f"nvidia{index}"),
        ("modelName", "NVIDIA H100 80GB HBM3 (demo)"),
        ("Hostname", node),
        ("DCGM_FI_DRIVER_VERSION", "580.105.08"),
    )


def demo_values(readings: Sequence[board.SimulatedReading], profiled: Collection[int]) -> list[float]:
    """Put one reading per GPU into the layout's order; profiling fields of `profiled` GPUs are blank."""
    rows = list(map(_pick, readings))
    values = [*chain.from_iterable(zip(*[rows[index] for index, _ in ROWS], strict=True)), *_FIXED_VALUES]
    for gpu in profiled:
        for place in _PROFILING_PLACES[gpu]:
            values[place] = BLANK
    return values
