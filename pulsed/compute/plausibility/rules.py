"""Which inputs not to believe: contradictions, values that stand still, and values that no hardware has.

The table says what is doubted and which quantities then count as missing; `pulsed.compute.plausibility.filter` looks
at readings with it. Shares above 1 are Translate's business. Every rule would rather miss a fault than erase a true
reading.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import NamedTuple

from pulsed.compute.counters.accumulator import MAX_WATTS
from pulsed.errors import ConfigError
from pulsed.translate.vocabulary import QUANTITIES

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
"""What the profiler counts of the SMs and memory, the graphics engine first, then the SMs."""

RATES = (
    "pcie_transmit_bytes_per_second",
    "pcie_receive_bytes_per_second",
    "nvlink_transmit_bytes_per_second",
    "nvlink_receive_bytes_per_second",
    "c2c_transmit_bytes_per_second",
    "c2c_receive_bytes_per_second",
)
"""What the same profiler counts of the links."""

ENGINES = tuple(name for name in QUANTITIES if name.startswith(("nvdec", "nvjpg", "nvofa")))
"""What it counts of the engines for pictures and video."""

UTILIZATIONS = ("gpu_utilization_ratio", "memory_utilization_ratio")
"""What the driver measures without the profiler."""

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
"""What is about the moment of the sample; sizes, limits and counts of errors stay true when they are old."""

TELLING = 3
"""So many activity values that are neither 0 nor 1 do not stand still by chance; those of an idle GPU are all 0."""


@dataclass(frozen=True, slots=True)
class PlausibilitySettings:
    """From where on inputs are not believed.

    Attributes:
        enabled: whether to look at all.
        busy_utilization_ratio: from this `gpu_utilization_ratio` on, 0..1, kernels certainly ran.
        stuck_seconds: how long zeros must contradict it. The driver's figure is a mean over up to 1 s (nvml.h), and
            DCGM's values come a part of a second late (DCGM#170), not at the same instant: 10 s are beyond all that.
        stuck_samples: in how many samples that differ, since an exporter that samples every 30 s and is scraped more
            often repeats one accident.
        frozen_seconds: how long values must stand still. dcgm-exporter's default interval is 30 s.
        frozen_samples: in how many samples.
        moved_ratio: a load that moved by so much, 0..1, changes activity, too: points of a utilization over 100, or a
            share of power. A hung job spins with constant activity and a few percent more or less of power.
        power_max_watts: no GPU draws more.
        temperature_min_celsius: no GPU is colder.
        temperature_max_celsius: no GPU is hotter; DCGM itself drops more.
        sm_clock_max_hertz: no SM or video engine is faster. Memory may be: GDDR7 is reported with 14 GHz.
        traffic_max_bytes_per_second: no link of a GPU is faster; 3.6e12 are announced for NVLink 6, both directions.
        memory_excess_ratio: used memory over its size; some is granted to a size that was rounded.

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
    "busy_utilization_ratio": (0.05, 1.0),  # 0 would accuse every idle GPU
    "stuck_samples": (2.0, math.inf),
    "frozen_samples": (3.0, math.inf),
    "moved_ratio": (0.01, 1.0),
    "temperature_min_celsius": (-273.15, math.inf),
    "memory_excess_ratio": (1.0, math.inf),
}


DEFAULT_PLAUSIBILITY = PlausibilitySettings()


class PlausibilityRule(NamedTuple):
    """One reason for doubt.

    Attributes:
        reason: label value of `pulsed_gpu_inputs_inconsistent`.
        meaning: one line for documentation, without a full stop.
        missing: the quantities that then count as missing: all of them, or those of them that are concerned.
        needs: without these the rule says nothing; of a group in a tuple, one is enough.
    """

    reason: str
    meaning: str
    missing: tuple[str, ...]
    needs: tuple[str | tuple[str, ...], ...]


class Range(NamedTuple):
    """What a quantity can be at all: from one number or setting to another, both included."""

    quantity: str
    low: float | str
    high: float | str


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
    "Not one value has moved for long, not even energy or fractions of a watt, though the GPU looks active",
    MEASURED,  # gpu-monitoring-tools#188, DCGM#209
    (ACTIVITY, ("energy_joules_total", *POWERS)),
)
POWER = PlausibilityRule("power_absurd", "A power that no GPU draws", POWERS, (POWERS,))
TEMPERATURE = PlausibilityRule(
    "temperature_absurd",
    "A temperature that no GPU has",
    ("temperature_celsius", "memory_temperature_celsius"),
    (("temperature_celsius", "memory_temperature_celsius"),),
)
CLOCK = PlausibilityRule(
    "clock_absurd",
    "A clock that no GPU has",
    ("sm_clock_hertz", "video_clock_hertz"),
    (("sm_clock_hertz", "video_clock_hertz"),),
)
TRAFFIC = PlausibilityRule(
    "traffic_absurd",
    "A rate of traffic that no link of a GPU carries",
    (*RATES, "nvlink_bandwidth_bytes_per_second"),
    ((*RATES, "nvlink_bandwidth_bytes_per_second"),),
)
MEMORY = PlausibilityRule(
    "memory_absurd",
    "More memory in use than there is",
    ("memory_used_bytes", "memory_used_ratio"),
    ("memory_used_bytes", "memory_bytes"),
)

RULES = (STUCK, ENGINE_STUCK, PROFILING_FROZEN, VALUES_FROZEN, POWER, TEMPERATURE, CLOCK, TRAFFIC, MEMORY)
"""The table; reasons are given in this order."""

REASONS = tuple(rule.reason for rule in RULES)

_LIMITS: tuple[tuple[PlausibilityRule, float | str, str], ...] = (
    (POWER, 0.0, "power_max_watts"),
    (TEMPERATURE, "temperature_min_celsius", "temperature_max_celsius"),
    (CLOCK, 0.0, "sm_clock_max_hertz"),
    (TRAFFIC, 0.0, "traffic_max_bytes_per_second"),
)

RANGES = tuple((rule, Range(quantity, low, high)) for rule, low, high in _LIMITS for quantity in rule.missing)
"""By rule, the quantities that it judges one by one: only those out of their range count as missing."""
