"""Fields of a sample in history and events, and its columns in CSV: derived values and readings, by their name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from pulsed.compute.declaration import DerivedNumber, DerivedState, DerivedVector
from pulsed.compute.derived_results import DERIVED_VALUES
from pulsed.errors import UsageError
from pulsed.model.computed_tick import Result
from pulsed.model.vocabulary import POSITION, QUANTITIES, Reading, Value, is_counter
from pulsed.suggestions import did_you_mean

Number = Callable[[Reading, Result], Value]


def _numbers() -> Iterator[tuple[str, Number]]:
    for value in DERIVED_VALUES:
        if isinstance(value, DerivedNumber) and value.csv:
            yield value.name, value.get
        elif isinstance(value, DerivedVector) and value.csv:
            for position, key in enumerate(value.keys):
                yield value.csv.format(key), value.element(position)


NUMBERS: Mapping[str, Number] = dict(_numbers())
"""Derived numbers by name."""

WORDS: Mapping[str, DerivedState] = {value.name: value for value in DERIVED_VALUES if isinstance(value, DerivedState)}
"""Derived states by name."""


def getter(name: str) -> Callable[[Reading, Result], str | Value]:
    """Return the function that gets a field from a sample."""
    if name in WORDS:
        return WORDS[name].get
    if name in NUMBERS:
        return NUMBERS[name]
    position = POSITION[name]
    return lambda reading, result: reading[position]


FIELDS: tuple[str, ...] = (*WORDS, *NUMBERS, *QUANTITIES)
"""All fields of the history."""

GAUGES: tuple[str, ...] = (*NUMBERS, *(name for name in QUANTITIES if not is_counter(name)))
"""Numbers that are not counters: what autoscalers can use."""

DEFAULT_FIELDS: tuple[str, ...] = (
    "workload_class",
    "raw_class",
    "health_state",
    "real_utilization_ratio",
    "real_utilization_lower_ratio",
    "real_utilization_upper_ratio",
    "saturation_ratio",
    "graphics_engine_active_ratio",
    "sm_active_ratio",
    "sm_occupancy_ratio",
    "tensor_active_ratio",
    "fp64_active_ratio",
    "fp32_active_ratio",
    "fp16_active_ratio",
    "dram_active_ratio",
    "gpu_utilization_ratio",
    "memory_utilization_ratio",
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
    """Raise `UsageError` if a field is unknown; the message names the nearest known one."""
    for name in fields:
        if name not in FIELDS:
            raise UsageError(f"{name!r} is not a field", did_you_mean(name, FIELDS, "METRICS.md lists them"))
