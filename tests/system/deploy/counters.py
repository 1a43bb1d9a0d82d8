"""What a dcgm-exporter with a given counters file would serve, and what pulsed makes of that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pulsed.translate.fields import BY_NAME
from tests.golden.whole import replayed

LABELS = (
    'gpu="0",UUID="GPU-1",pci_bus_id="00000000:1B:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="a"'
)

DEFAULT = (
    *("SM_CLOCK", "MEM_CLOCK", "MEMORY_TEMP", "GPU_TEMP", "POWER_USAGE", "TOTAL_ENERGY_CONSUMPTION"),
    *("PCIE_REPLAY_COUNTER", "GPU_UTIL", "MEM_COPY_UTIL", "ENC_UTIL", "DEC_UTIL", "XID_ERRORS", "FB_FREE", "FB_USED"),
    *("FB_RESERVED", "NVLINK_BANDWIDTH_TOTAL", "VGPU_LICENSE_STATUS", "UNCORRECTABLE_REMAPPED_ROWS"),
    *("CORRECTABLE_REMAPPED_ROWS", "ROW_REMAP_FAILURE", "GR_ENGINE_ACTIVE", "PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE"),
    *("PCIE_TX_BYTES", "PCIE_RX_BYTES"),
)
"""Fields that dcgm-exporter 4.x serves by itself (its etc/default-counters.csv), without prefix."""

VALUES: Mapping[str, str] = {"ratio": "0.400000", "%": "40", "code": "0", "count": "0", "P-state": "0"}
"""A plausible value by unit; all others are 50 of theirs."""

HEALTHY: Mapping[str, str] = {
    "pcie_link_generation": "5",
    "pcie_link_generation_max": "5",
    "pcie_link_width": "16",
    "pcie_link_width_max": "16",
    "inforom_valid": "1",
    "ecc_mode": "1",
    "ecc_mode_pending": "1",
    "persistence_mode": "1",
    "fabric_manager_status": "3",
    "fabric_health_summary": "1",
    "max_operating_temperature_celsius": "87",
    "memory_max_operating_temperature_celsius": "95",
    "slowdown_temperature_celsius": "90",
    "shutdown_temperature_celsius": "95",
    "power_limit_watts": "700",
    "memory_bytes": "81559",
    "memory_used_bytes": "50000",
    "memory_free_bytes": "31000",
    "memory_reserved_bytes": "559",
}
"""What a healthy board says where the value by unit would not do, by quantity."""

PAGES = 20
"""So many pages, 15 s apart: checks that look at growth want to see some minutes."""

OWN: Mapping[str, str] = {
    "DCGM_EXP_XID_ERRORS_COUNT": 'window_size_in_ms="300000"',
    "DCGM_EXP_CLOCK_EVENTS_COUNT": 'clock_event="gpu_idle",window_size_in_ms="300000"',
    "DCGM_EXP_XID_ERRORS_TOTAL": 'xid="43"',
    "DCGM_EXP_GPU_HEALTH_STATUS": 'health_watch="MEM",health_error_code=""',
}
"""The labels that the exporter's own metrics have besides."""


def lines(path: Path) -> list[list[str]]:
    """The lines of a counters file that ask for something, by cells."""
    return [
        [cell.strip() for cell in line.split(",")]
        for line in path.read_text().splitlines()
        if line and not line.startswith("#")
    ]


def default_names() -> list[str]:
    """The names of an exporter's own default, in full."""
    prof = {"GR_ENGINE_ACTIVE", "PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE", "PCIE_TX_BYTES", "PCIE_RX_BYTES"}
    return [f"DCGM_FI_{'PROF' if name in prof else 'DEV'}_{name}" for name in DEFAULT]


def page(names: Iterable[str]) -> str:
    """An exporter's page with these metrics of one GPU; a field that the table does not know is an error."""
    rows = []
    for name in names:
        if name in OWN:
            rows.append(f"{name}{{{LABELS},{OWN[name]}}} 0\n")
        else:
            field = BY_NAME[name][0]
            if field.quantity.startswith("c2c_"):
                continue  # an H100 has no link to a processor of its own board
            value = HEALTHY.get(field.quantity, VALUES.get(field.unit.name, "50"))
            rows.append(f"{name}{{{LABELS}}} {value}\n")
    return "".join(rows)


def save(names: Iterable[str], folder: Path) -> None:
    """Put such pages into a new folder."""
    folder.mkdir()
    text = page(names)
    for number in range(PAGES):
        (folder / f"{number:02}.prom").write_text(text)


async def gpu(names: Iterable[str], folder: Path) -> dict[str, Any]:
    """What pulsed shows of the GPU of such pages, kept in a new folder."""
    save(names, folder)
    (found,) = (await replayed(folder, "source.interval=15s")).document["gpus"]
    assert isinstance(found, dict)
    return found
