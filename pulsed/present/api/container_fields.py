"""The keys of the rows of `/container/metrics`, in zxporter's order, and the quantities that they have."""

from __future__ import annotations

from typing import NamedTuple

MEBIBYTE = 2.0**20


class RowField(NamedTuple):
    """A number of a row.

    Attributes:
        quantity: its name in the canonical vocabulary.
        factor: from base units to those of DCGM.
        is_of_board: whether rows of MIG instances have the value of their board, as those of dcgm-exporter do.
    """

    key: str
    quantity: str
    factor: float = 1.0
    is_of_board: bool = False


ROW_FIELDS: tuple[RowField, ...] = (
    RowField("sm_active", "sm_active_ratio"),
    RowField("sm_occupancy", "sm_occupancy_ratio"),
    RowField("tensor_active", "tensor_active_ratio"),
    RowField("dram_active", "dram_active_ratio"),
    RowField("pcie_tx_bytes", "pcie_transmit_bytes_per_second"),
    RowField("pcie_rx_bytes", "pcie_receive_bytes_per_second"),
    RowField("nvlink_tx_bytes", "nvlink_transmit_bytes_per_second"),
    RowField("nvlink_rx_bytes", "nvlink_receive_bytes_per_second"),
    RowField("graphics_engine_active", "graphics_engine_active_ratio"),
    RowField("framebuffer_total", "memory_bytes", 1 / MEBIBYTE),
    RowField("framebuffer_used", "memory_used_bytes", 1 / MEBIBYTE),
    RowField("framebuffer_free", "memory_free_bytes", 1 / MEBIBYTE),
    RowField("pcie_link_gen", "pcie_link_generation", is_of_board=True),
    RowField("pcie_link_width", "pcie_link_width", is_of_board=True),
    RowField("temperature", "temperature_celsius", is_of_board=True),
    RowField("memory_temperature", "memory_temperature_celsius", is_of_board=True),
    RowField("power_usage", "power_watts", is_of_board=True),
    RowField("gpu_utilization", "gpu_utilization_ratio", 100.0),
    RowField("int_pipe_active", "integer_active_ratio"),
    RowField("fp16_pipe_active", "fp16_active_ratio"),
    RowField("fp32_pipe_active", "fp32_active_ratio"),
    RowField("fp64_pipe_active", "fp64_active_ratio"),
    RowField("clocks_event_reasons", "clocks_event_reasons", is_of_board=True),
    RowField("xid_errors", "xid_last_code", is_of_board=True),
    RowField("power_violation", "power_violation_seconds_total", 1e9, is_of_board=True),
    RowField("thermal_violation", "thermal_violation_seconds_total", 1e9, is_of_board=True),
    RowField("sm_clock", "sm_clock_hertz", 1e-6, is_of_board=True),
    RowField("mem_clock", "memory_clock_hertz", 1e-6, is_of_board=True),
)
"""The numbers of a row, in their order."""

IDENTITY_KEYS = ("node_name", "model_name", "device", "device_id", "device_uuid")
OWNER_KEYS = ("pod", "container", "namespace")
OPTIONAL_KEYS = ("mig_profile", "mig_instance_id", "workload_name", "workload_kind")
"""Keys that a row without such a text does not have."""
