"""What can be kept of a sample, or told of it: readings and what follows from them, named as the columns of the CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pulsed.compute.health.model import STATES
from pulsed.compute.tick import Result
from pulsed.compute.workload.class_table import WORKLOAD_CLASSES
from pulsed.errors import UsageError
from pulsed.suggestions import did_you_mean
from pulsed.translate.vocabulary import QUANTITIES, Value

DERIVED: Mapping[str, Callable[[Result], Value]] = {
    "real_utilization_ratio": lambda result: result.real_utilization.ratio,
    "real_utilization_lower_ratio": lambda result: result.real_utilization.lower,
    "real_utilization_upper_ratio": lambda result: result.real_utilization.upper,
    "saturation_ratio": lambda result: result.saturation.ratio,
}
"""Numbers that are no reading but follow from it, by the name of their CSV column: ratios in 0..1, or None."""

WORDS: Mapping[str, tuple[Callable[[Result], str], tuple[str, ...]]] = {
    "workload_class": (lambda result: result.held.workload_class, WORKLOAD_CLASSES),
    "raw_class": (lambda result: result.workload.raw_class, WORKLOAD_CLASSES),
    "health_state": (lambda result: result.health.state, STATES),
}
"""Words that follow from a reading, by the name of their CSV column, and all that they can be (at most 255)."""

FIELDS: tuple[str, ...] = (*WORDS, *DERIVED, *QUANTITIES)
"""Everything that can be kept."""

DEFAULT_FIELDS: tuple[str, ...] = (
    *WORDS,
    *DERIVED,
    "graphics_engine_active_ratio",
    "sm_active_ratio",
    "sm_occupancy_ratio",
    "tensor_active_ratio",
    "fp64_active_ratio",
    "fp32_active_ratio",
    "fp16_active_ratio",
    "dram_active_ratio",
    "gpu_utilization_ratio",
    "pcie_transmit_bytes_per_second",
    "pcie_receive_bytes_per_second",
    "nvlink_transmit_bytes_per_second",
    "nvlink_receive_bytes_per_second",
    "memory_used_bytes",
    "power_watts",
    "energy_joules_total",
    "temperature_celsius",
    "memory_temperature_celsius",
    "sm_clock_hertz",
    "memory_clock_hertz",
    "clocks_event_reasons",
)
"""What the history keeps by default."""


def check_fields(fields: Sequence[str]) -> None:
    """Raise an error if a field is unknown.

    Raises:
        UsageError: one is unknown; the nearest known one is named.
    """
    for name in fields:
        if name not in FIELDS:
            raise UsageError(f"{name!r} is not a field", did_you_mean(name, FIELDS, "METRICS.md lists them"))
