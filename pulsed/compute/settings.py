"""Settings of all stages of Compute."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from pulsed.compute.absence import FORGET_SECONDS
from pulsed.compute.bounds import Missing
from pulsed.compute.class_table import DEFAULT_THRESHOLDS, ClassThresholds, Profile
from pulsed.compute.health.settings import DEFAULT_HEALTH, HealthSettings
from pulsed.compute.peaks import DEFAULT_PEAKS, Peaks
from pulsed.compute.plausibility_rules import DEFAULT_PLAUSIBILITY, PlausibilitySettings
from pulsed.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each input counts. Given in any scale, kept scaled to sum to 1.

    Raises:
        ConfigError: a weight is negative or not a number, or all are zero.
    """

    sm: float
    tensor: float
    dram: float
    graphics_engine: float

    def __post_init__(self) -> None:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, value in values.items():
            if not 0 <= value < math.inf:
                raise ConfigError(f"weight {name} of real utilization is {value}", "Give a number of 0 or more.")
        if not 0 < sum(values.values()) < math.inf:
            raise ConfigError(f"the weights of real utilization cannot be scaled: {values}", "Make one larger than 0.")
        total = math.fsum(values.values())
        for name, value in values.items():
            object.__setattr__(self, name, value / total)


# Weights: KempnerPulse 0.5's presets.
PRESETS: Mapping[str, Weights] = {
    "ai": Weights(sm=0.35, tensor=0.35, dram=0.20, graphics_engine=0.10),
    "hpc": Weights(sm=0.45, tensor=0.15, dram=0.25, graphics_engine=0.15),
    "mem": Weights(sm=0.35, tensor=0.10, dram=0.40, graphics_engine=0.15),
}
"""The weights that have a name; `ai` is the default."""


@dataclass(frozen=True, slots=True)
class ComputeSettings:
    """How to compute.

    Attributes:
        weights: of real utilization.
        preset_name: what the weights are called; `custom` when they are no preset's.
        min_coverage: least share of weight, 0..1, whose inputs must be present for a point value.
        missing: what a missing input is: `bounds` whatever physics allows, `zero` 0 (the older convention).
        profile: whose rules of the workload classes.
        thresholds: of the workload classes.
        hold: seconds that the samples of a new class must cover before it is the held one.
        held_memory_bytes: an idle GPU whose owners are unknown counts as held with at least so much memory in use. On
            data centre GPUs the first CUDA context of a process takes some 300 to 550 MiB; with none, at most 128 MiB
            were seen in use.
        peaks: practical ones, by architecture.
        plausible: limits of plausible inputs.
        health: checks and their thresholds.
        forget_after: seconds after which an absent GPU is forgotten; 0: never.
        histogram: upper bounds of the buckets of real utilization, ascending, 0..1; empty: no distribution.
    """

    weights: Weights = PRESETS["ai"]
    preset_name: str = "ai"
    min_coverage: float = 0.5
    missing: Missing = "bounds"
    profile: Profile = "pulsed"
    thresholds: ClassThresholds = DEFAULT_THRESHOLDS
    hold: float = 2.0
    held_memory_bytes: float = 256 * 2**20
    peaks: Mapping[str, Peaks] = field(default_factory=lambda: DEFAULT_PEAKS)
    plausible: PlausibilitySettings = DEFAULT_PLAUSIBILITY
    health: HealthSettings = DEFAULT_HEALTH
    forget_after: float = FORGET_SECONDS
    histogram: tuple[float, ...] = (0.05, 0.25, 0.5, 0.75, 0.95)


DEFAULT_SETTINGS = ComputeSettings()
