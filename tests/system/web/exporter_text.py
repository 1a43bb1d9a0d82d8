"""Small exporter pages with chosen values, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

MODEL = "NVIDIA H100 80GB HBM3"

FULL: Mapping[str, float] = {
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.9,
    "DCGM_FI_PROF_SM_ACTIVE": 0.7,
    "DCGM_FI_PROF_SM_OCCUPANCY": 0.4,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.55,
    "DCGM_FI_PROF_PIPE_FP64_ACTIVE": 0.0,
    "DCGM_FI_PROF_PIPE_FP32_ACTIVE": 0.1,
    "DCGM_FI_PROF_PIPE_FP16_ACTIVE": 0.02,
    "DCGM_FI_PROF_DRAM_ACTIVE": 0.3,
    "DCGM_FI_PROF_PCIE_TX_BYTES": 1e8,
    "DCGM_FI_PROF_PCIE_RX_BYTES": 2e8,
    "DCGM_FI_DEV_GPU_UTIL": 98,
    "DCGM_FI_DEV_FB_USED": 60000,
    "DCGM_FI_DEV_FB_FREE": 20000,
    "DCGM_FI_DEV_POWER_USAGE": 620,
    "DCGM_FI_DEV_GPU_TEMP": 58,
}
"""A GPU with everything that the class needs: tensor_heavy_compute."""

IDLE = dict.fromkeys(FULL, 0.0) | {
    "DCGM_FI_DEV_POWER_USAGE": 70,
    "DCGM_FI_DEV_GPU_TEMP": 30,
    "DCGM_FI_DEV_FB_USED": 900,
}
PARTIAL = {name: value for name, value in FULL.items() if "_PROF_" not in name or "GR_ENGINE" in name or "DRAM" in name}
"""Without SM and tensor activity: real utilization has bounds only, the class has candidates."""

NOTHING = {"DCGM_FI_DEV_GPU_TEMP": 41.0}
"""No activity at all."""


class Row(NamedTuple):
    """A GPU, or MIG instance, of a page."""

    gpu: int
    values: Mapping[str, float]
    labels: Mapping[str, str] = {}
    node: str = "node-1"
    model: str = MODEL


def exporter_text(*rows: Row) -> str:
    """Return a page; each GPU has its fields."""
    names = dict.fromkeys(name for row in rows for name in row.values)
    lines = []
    for name in names:
        lines.append(f"# TYPE {name} gauge")
        lines += [f"{name}{{{_labels(row)}}} {row.values[name]}" for row in rows if name in row.values]
    return "\n".join(lines) + "\n"


def _labels(row: Row) -> str:
    identity = {
        "gpu": str(row.gpu),
        "UUID": f"GPU-{row.node}-{row.gpu:04d}",
        "device": f"nvidia{row.gpu}",
        "modelName": row.model,
        "Hostname": row.node,
        **row.labels,
    }
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in identity.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
