"""Table of implausible inputs: contradictions, frozen values, and values that no hardware has.

Per reason it has the quantities that then count as missing; `pulsed.compute.plausibility_filter` applies it. Translate
handles ratios above 1. A rule that is in doubt keeps the reading.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import NamedTuple

from pulsed.compute.accumulator import MAX_WATTS
from pulsed.errors import ConfigError
from pulsed.model.vocabulary import QUANTITIES

ACTIVITY = (
    "graphics_engine_active_ratio",
    "sm_active_ratio",
    "sm_occupancy_ratio",
    "tensor_active_ratio",
    "tensor_hmma_active_ratio",
    "tensor_imma_active_ratio",
    "tensor_dfma_active_ratio",
    "fp64_active_ratio",
    "fp32_active_ratio",
    "fp16_active_ratio",
    "integer_active_ratio",
    "dram_active_ratio",
)
"""Profiled activity of the SMs and memory; the graphics engine first, then the SMs."""

RATES = (
    "pcie_transmit_bytes_per_second",
    "pcie_receive_bytes_per_second",
    "nvlink_transmit_bytes_per_second",
    "nvlink_receive_bytes_per_second",
    "c2c_transmit_bytes_per_second",
    "c2c_receive_bytes_per_second",
)
"""Profiled traffic of the links."""

ENGINES = tuple(name for name in QUANTITIES if name.startswith(("nvdec", "nvjpg", "nvofa")))
"""Profiled activity of the image and video engines."""

UTILIZATIONS = ("gpu_utilization_ratio", "memory_utilization_ratio")
"""Measured by the driver, without the profiler."""

POWERS = ("power_watts", "power_instant_watts")

MEASURED = (
    *ACTIVITY,
    *RATES,
    *ENGINES,
    *UTILIZATIONS,
    *POWERS,
    "encoder_utilization_ratio",
    "decoder_utilization_ratio",
    "nvlink_bandwidth_bytes_per_second",
    "memory_used_bytes",
    "memory_free_bytes",
    "memory_used_ratio",
    "energy_joules_total",
    "temperature_celsius",
    "memory_temperature_celsius",
    "temperature_margin_celsius",
    "fan_speed_ratio",
    "sm_clock_hertz",
    "memory_clock_hertz",
    "video_clock_hertz",
    "clocks_event_reasons",
    "performance_state",
)
"""Values of the moment of the sample; sizes, limits and error counts stay valid when they are old."""

MIN_FRACTIONAL = 3
"""Number of activity values other than 0 and 1 that are not constant by chance."""


@dataclass(frozen=True, slots=True)
class PlausibilitySettings:
    """Limits of plausible inputs.

    Attributes:
        enabled: whether inputs are checked.
        busy_utilization_ratio: `gpu_utilization_ratio`, 0..1, from which on kernels certainly ran.
        stuck_seconds: duration of a contradiction. The driver's utilization is a mean over up to 1 s (nvml.h), and
            DCGM's values are a part of a second apart (DCGM#170): 10 s exceed both.
        stuck_samples: number of different samples of a contradiction: an exporter that samples every 30 s and is
            scraped more often repeats a coincidence.
        frozen_seconds: duration of constant values. dcgm-exporter's default interval is 30 s.
        frozen_samples: number of samples with constant values.
        moved_ratio: change of load, 0..1, that must change activity, too: of a utilization, or relative of power. The
            power of a hung job varies by a few percent at constant activity.
        power_max_watts: upper limit of power.
        temperature_min_celsius: lower limit of temperatures.
        temperature_max_celsius: upper limit of temperatures; DCGM itself drops more.
        sm_clock_max_hertz: upper limit of SM and video clocks. Memory may be faster: GDDR7 is reported with 14 GHz.
        traffic_max_bytes_per_second: upper limit of traffic; 3.6e12 are announced for NVLink 6, both directions.
        memory_excess_ratio: used memory over its size, which may be rounded.

    Raises:
        ConfigError: a number is out of its range.
    """

    enabled: bool = True
    busy_utilization_ratio: float = 0.9
    stuck_seconds: float = 10.0
    stuck_samples: int = 3
    frozen_seconds: float = 300.0
    frozen_samples: int = 20
    moved_ratio: float = 0.2
    power_max_watts: float = MAX_WATTS
    temperature_min_celsius: float = -50.0
    temperature_max_celsius: float = 200.0
    sm_clock_max_hertz: float = 10e9
    traffic_max_bytes_per_second: float = 1e13
    memory_excess_ratio: float = 1.05

    def __post_init__(self) -> None:
        for field in fields(self)[1:]:  # all but the switch are numbers
            low, high = _ALLOWED.get(field.name, (0.0, math.inf))
            value = getattr(self, field.name)
            if not (math.isfinite(value) and low <= value <= high):
                allowed = f"{low:g} or more" if high == math.inf else f"{low:g} to {high:g}"
                raise ConfigError(f"{field.name} of plausibility is {value}", f"Give a number: {allowed}.")
        if self.temperature_min_celsius >= self.temperature_max_celsius:
            raise ConfigError(
                f"temperature_min_celsius of plausibility is {self.temperature_min_celsius}",
                f"Give less than temperature_max_celsius, which is {self.temperature_max_celsius}.",
            )


_ALLOWED = {
    "busy_utilization_ratio": (0.05, 1.0),  # 0 would match every idle GPU
    "stuck_samples": (2.0, math.inf),
    "frozen_samples": (3.0, math.inf),
    "moved_ratio": (0.01, 1.0),
    "temperature_min_celsius": (-273.15, math.inf),
    "memory_excess_ratio": (1.0, math.inf),
}


DEFAULT_PLAUSIBILITY = PlausibilitySettings()


class PlausibilityRule(NamedTuple):
    """One reason for missing inputs.

    Attributes:
        reason: label value of `pulsed_gpu_inputs_inconsistent`.
        meaning: one line for documentation, without a full stop.
        missing: the quantities that count as missing: all of them, or those that are out of range or 0.
        needs: inputs of the rule; of a group in a tuple, one is enough.
    """

    reason: str
    meaning: str
    missing: tuple[str, ...]
    needs: tuple[str | tuple[str, ...], ...]


class Range(NamedTuple):
    """Limits of a quantity, both included: numbers, or names of settings. Values beyond them are missing by a rule."""

    rule: PlausibilityRule
    quantity: str
    low: float | str
    high: float | str


def _absurd(what: str, meaning: str, *quantities: str) -> PlausibilityRule:
    """Return a rule for quantities of which only those out of their range go missing."""
    return PlausibilityRule(f"{what}_absurd", meaning, quantities, (quantities,))


STUCK = PlausibilityRule(
    "profiling_stuck_at_zero",
    "All profiled activity is exactly 0 while gpu_utilization_ratio stays high; all zeros of the profiler go missing",
    (*ACTIVITY, *RATES, *ENGINES),  # dcgm-exporter#662, DCGM#303, gpu-monitoring-tools#189
    ("gpu_utilization_ratio", ("graphics_engine_active_ratio", "sm_active_ratio")),
)
ENGINE_STUCK = PlausibilityRule(
    "graphics_engine_stuck_at_zero",
    "graphics_engine_active_ratio alone is exactly 0 while gpu_utilization_ratio stays high",
    ("graphics_engine_active_ratio",),  # the field that dcgm-exporter#662 names
    ("gpu_utilization_ratio", "graphics_engine_active_ratio"),
)
PROFILING_FROZEN = PlausibilityRule(
    "profiling_frozen",
    "No profiling value has moved for long, though utilization or power has by far",
    (*ACTIVITY, *RATES),  # dcgm-exporter#68
    (ACTIVITY, (*UTILIZATIONS, *POWERS)),
)
VALUES_FROZEN = PlausibilityRule(
    "values_frozen",
    "No value has changed for long, though energy or fractions of a watt would have",
    MEASURED,  # gpu-monitoring-tools#188, DCGM#209
    (ACTIVITY, ("energy_joules_total", *POWERS)),
)
POWER = _absurd("power", "A power that no GPU draws", *POWERS)
TEMPERATURE = _absurd(
    "temperature", "A temperature that no GPU has", "temperature_celsius", "memory_temperature_celsius"
)
CLOCK = _absurd("clock", "A clock that no GPU has", "sm_clock_hertz", "video_clock_hertz")
TRAFFIC = _absurd(
    "traffic", "A rate of traffic that no link of a GPU carries", *RATES, "nvlink_bandwidth_bytes_per_second"
)
MEMORY = PlausibilityRule(
    "memory_absurd",
    "More memory in use than there is",
    ("memory_used_bytes", "memory_used_ratio"),
    ("memory_used_bytes", "memory_bytes"),
)

RULES = (STUCK, ENGINE_STUCK, PROFILING_FROZEN, VALUES_FROZEN, POWER, TEMPERATURE, CLOCK, TRAFFIC, MEMORY)
"""The table; reasons are reported in this order."""

REASONS = tuple(rule.reason for rule in RULES)

_LIMITS: tuple[tuple[PlausibilityRule, float | str, str], ...] = (
    (POWER, 0.0, "power_max_watts"),
    (TEMPERATURE, "temperature_min_celsius", "temperature_max_celsius"),
    (CLOCK, 0.0, "sm_clock_max_hertz"),
    (TRAFFIC, 0.0, "traffic_max_bytes_per_second"),
)

RANGES = tuple(Range(rule, quantity, low, high) for rule, low, high in _LIMITS for quantity in rule.missing)
"""Quantities with limits, by rule: only those out of their range count as missing."""
