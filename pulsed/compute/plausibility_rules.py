"""Table of implausible inputs: contradictions, frozen values, and values that no hardware has.

Per reason it has the quantities that then count as missing; `pulsed.compute.plausibility_filter` applies it. Translate
handles ratios above 1. A rule that is in doubt keeps the reading.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple

from pulsed.compute.activity import MEDIA, PROFILED_MEDIA
from pulsed.config.settings import Problem, Settings, setting
from pulsed.config.values import Count, Duration, Factor, Ratio, Switch
from pulsed.model.vocabulary import QUANTITIES

MAX_WATTS = 10_000.0
"""No GPU draws as much: a GB300 is at 1,400 W. An energy counter that gains more has jumped."""

ACTIVITY = tuple(
    name for name in QUANTITIES if name.endswith(("_active_ratio", "_occupancy_ratio")) and name not in PROFILED_MEDIA
)
"""Profiled activity of the SMs and memory; the graphics engine first, then the SMs."""

RATES = tuple(f"{link}_{way}_bytes_per_second" for link in ("pcie", "nvlink", "c2c") for way in ("transmit", "receive"))
"""Profiled traffic of the links."""

UTILIZATIONS = ("gpu_utilization_ratio", "memory_utilization_ratio")
"""Measured by the driver, without the profiler."""

POWERS = ("power_watts", "power_instant_watts")

MEASURED = (
    *ACTIVITY,
    *RATES,
    *UTILIZATIONS,
    *POWERS,
    *MEDIA,
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
class PlausibilitySettings(Settings):
    """Limits of plausible inputs.

    Attributes:
        temperature_min_celsius: lower limit of temperatures.
        temperature_max_celsius: upper limit of temperatures; DCGM itself drops more.
        sm_clock_max_hertz: upper limit of SM and video clocks. Memory may be faster: GDDR7 is reported with 14 GHz.
        traffic_max_bytes_per_second: upper limit of traffic; 3.6e12 are announced for NVLink 6, both directions.
        memory_excess_ratio: used memory over its size, which may be rounded.
        memory_min_bytes: lower limit of the size of memory; the smallest vGPU has 512 MiB.
    """

    enabled: Switch = setting(True, "Look for implausible inputs.")
    busy_utilization_ratio: Ratio = setting(0.9, "From this `gpu_utilization_ratio` on, kernels ran for certain.")
    # The driver's figure is a mean over up to 1 s (nvml.h), and DCGM's values are late by part of a second (DCGM#170).
    stuck_seconds: Duration = setting(10.0, "Zero activity on such a busy GPU counts as stuck after this time.")
    stuck_samples: Count = setting(3, "And after this many different samples; a scrape can repeat one.")
    frozen_seconds: Duration = setting(
        300.0, "Constant values count as frozen after this time; dcgm-exporter's default interval is 30 s."
    )
    frozen_samples: Count = setting(20, "And after this many samples, where no energy counter proves it.")
    # A hung job has constant activity, and power that changes by a few percent.
    moved_ratio: Ratio = setting(
        0.2, "A load change by this much (utilization points, or share of power) must change activity."
    )
    power_max_watts: Factor = setting(MAX_WATTS, "Higher power is implausible.")
    temperature_min_celsius: float = -50.0
    temperature_max_celsius: float = 200.0
    sm_clock_max_hertz: float = 10e9
    traffic_max_bytes_per_second: float = 1e13
    memory_excess_ratio: float = 1.05
    memory_min_bytes: float = 2.0**28

    def problems(self) -> Iterator[Problem]:
        """Yield numbers that are out of their ranges."""
        for field in fields(self)[1:]:  # all fields except the switch are numbers
            low, high = _ALLOWED.get(field.name, (0.0, math.inf))
            value = getattr(self, field.name)
            if not (math.isfinite(value) and low <= value <= high):
                allowed = f"{low:g} or more" if high == math.inf else f"{low:g} to {high:g}"
                yield field.name, f"is {value:g}; give a number: {allowed}"
        if self.temperature_min_celsius >= self.temperature_max_celsius:
            yield (
                "temperature_min_celsius",
                f"is {self.temperature_min_celsius:g}; give less than temperature_max_celsius, "
                f"{self.temperature_max_celsius:g}",
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
    """Return a rule for quantities; only values out of range go missing."""
    return PlausibilityRule(f"{what}_absurd", meaning, quantities, (quantities,))


STUCK = PlausibilityRule(
    "profiling_stuck_at_zero",
    "All profiled activity is exactly 0 while gpu_utilization_ratio stays high; zeros of the profiler count as missing",
    (*ACTIVITY, *RATES, *PROFILED_MEDIA),  # dcgm-exporter#662, DCGM#303, gpu-monitoring-tools#189
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
    "No profiling value has changed for a long time, although utilization or power has changed considerably",
    (*ACTIVITY, *RATES),  # dcgm-exporter#68
    (ACTIVITY, (*UTILIZATIONS, *POWERS)),
)
VALUES_FROZEN = PlausibilityRule(
    "values_frozen",
    "No value has changed for a long time, although energy or fractions of a watt must have",
    MEASURED,  # gpu-monitoring-tools#188, DCGM#209
    (ACTIVITY, ("energy_joules_total", *POWERS)),
)
UTILIZATION_DEAD = PlausibilityRule(
    "utilization_dead",
    "gpu_utilization_ratio has always been 0, although power rises by half or more at the same SM clock",
    ("gpu_utilization_ratio",),  # GB10 with early drivers
    ("gpu_utilization_ratio", "power_watts", "sm_clock_hertz"),
)
PCIE_DEAD = PlausibilityRule(
    "pcie_dead",
    "PCIe traffic has always been 0 in both directions, although the GPU works",
    ("pcie_transmit_bytes_per_second", "pcie_receive_bytes_per_second"),  # dcgm-exporter#721
    (
        *("pcie_transmit_bytes_per_second", "pcie_receive_bytes_per_second"),
        ("graphics_engine_active_ratio", "gpu_utilization_ratio"),
    ),
)
TRAFFIC_OF_IDLE = PlausibilityRule(
    "traffic_of_idle",
    "Gigabytes a second over the links for a minute, while engines, memory and clocks of the GPU are idle",
    RATES,  # dcgm-exporter 1.4 has other numbers under these names
    ("gpu_utilization_ratio", "memory_utilization_ratio", RATES),
)
POWER = _absurd("power", "Power outside the range of all GPUs", *POWERS)
TEMPERATURE = _absurd(
    "temperature", "Temperature outside the range of all GPUs", "temperature_celsius", "memory_temperature_celsius"
)
ENERGY = PlausibilityRule(
    "energy_absurd",
    "Energy grows by far less or more than power explains: it is in another unit",
    ("energy_joules_total",),
    ("energy_joules_total", "power_watts"),
)
CLOCK = _absurd("clock", "Clock outside the range of all GPUs", "sm_clock_hertz", "video_clock_hertz")
TRAFFIC = _absurd("traffic", "Traffic beyond the rate of any GPU link", *RATES, "nvlink_bandwidth_bytes_per_second")
MEMORY = PlausibilityRule(
    "memory_absurd",
    "More memory in use than the GPU has",
    ("memory_used_bytes", "memory_used_ratio"),
    ("memory_used_bytes", "memory_bytes"),
)
MEMORY_SIZE = PlausibilityRule(
    "memory_size_absurd",
    "Less memory than any GPU or MIG instance has: it is in another unit",
    (
        *("memory_bytes", "memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes", "memory_used_ratio"),
        *("bar1_memory_bytes", "bar1_memory_used_bytes", "bar1_memory_free_bytes"),
    ),
    ("memory_bytes",),
)

RULES = (
    *(STUCK, ENGINE_STUCK, PROFILING_FROZEN, VALUES_FROZEN, UTILIZATION_DEAD, PCIE_DEAD, TRAFFIC_OF_IDLE),
    *(POWER, ENERGY, TEMPERATURE, CLOCK, TRAFFIC, MEMORY, MEMORY_SIZE),
)
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
