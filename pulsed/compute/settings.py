"""The section `compute`: real utilization, workload class, saturation, plausibility and idle time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import model_validator

from pulsed.compute.activity import Missing
from pulsed.compute.class_table import DEFAULT_THRESHOLDS, ClassThresholds, Profile
from pulsed.compute.health.settings import DEFAULT_HEALTH, HealthSettings
from pulsed.compute.peaks import DEFAULT_PEAKS, LINKS, RESOURCES, Peaks, peaks_by_architecture, problems_of
from pulsed.compute.plausibility_rules import DEFAULT_PLAUSIBILITY, PlausibilitySettings
from pulsed.compute.products import ARCHITECTURE_NAMES, DEFAULT
from pulsed.config.settings import ListKind, Problem, Settings, TableKind, setting
from pulsed.config.values import DurationOrNone, Factor, Ratio, Size, number

Preset = Literal["ai", "hpc", "mem", "custom"]


def _ascending(value: tuple[float, ...]) -> tuple[float, ...]:
    if any(low >= high for low, high in pairwise(value)):
        raise ValueError("is not in ascending order")
    return value


Buckets = Annotated[
    tuple[float, ...],
    ListKind("bounds", "ratios in ascending order, such as [0.25, 0.5, 0.75]", number(0, 1), check=_ascending),
]


@dataclass(frozen=True, slots=True)
class Weights(Settings):
    """How much each input counts, in any scale; one left out counts nothing."""

    sm: Factor = setting(0.0, "Weight of `sm_active_ratio`.", example=0.4)
    tensor: Factor = setting(0.0, "Weight of `tensor_active_ratio`.", example=0.3)
    dram: Factor = setting(0.0, "Weight of `dram_active_ratio`.", example=0.2)
    graphics_engine: Factor = setting(0.0, "Weight of `graphics_engine_active_ratio`.", example=0.1)

    def problems(self) -> Iterator[Problem]:
        """Find weights that cannot be scaled."""
        if not 0 < self.sm + self.tensor + self.dram + self.graphics_engine < math.inf:
            yield "sm", "and the other weights are all 0; allowed: at least one above 0"

    def scaled(self) -> Weights:
        """Return the same weights with a sum of 1."""
        values = astuple(self)
        total = math.fsum(values)
        return Weights(*(value / total for value in values))


# Weights: KempnerPulse 0.5's presets.
PRESETS: Mapping[Preset, Weights] = {
    "ai": Weights(sm=0.35, tensor=0.35, dram=0.20, graphics_engine=0.10),
    "hpc": Weights(sm=0.45, tensor=0.15, dram=0.25, graphics_engine=0.15),
    "mem": Weights(sm=0.35, tensor=0.10, dram=0.40, graphics_engine=0.15),
}
"""The weights that have a name; `ai` is the default."""


@dataclass(frozen=True, slots=True)
class RealUtilizationSettings(Settings):
    """How much of a GPU does real work, as one number."""

    preset: Preset = setting(
        "ai",
        "Weights of sm, tensor, dram, graphics_engine: "
        + ", ".join(
            f"`{name}` {weights.sm:g} {weights.tensor:g} {weights.dram:g} {weights.graphics_engine:g}"
            for name, weights in PRESETS.items()
        )
        + ", or `custom`, the default if `weights` are set.",
    )
    weights: Weights | None = setting(None, "Custom weights, scaled to a sum of 1.")
    min_coverage: Ratio = setting(
        0.5,
        "Publish a value from this share of the weights on.",
    )
    histogram: Buckets = setting(
        (0.05, 0.25, 0.5, 0.75, 0.95),
        "Bucket bounds of `pulsed_gpu_real_utilization_distribution_ratio`, a series per GPU each. `[]`: none.",
    )

    @model_validator(mode="before")
    @classmethod
    def choose_custom(cls, section: Any) -> Any:
        """Add the preset `custom` to weights that are given without a preset."""
        return {"preset": "custom", **section} if isinstance(section, dict) and "weights" in section else section

    def problems(self) -> Iterator[Problem]:
        """Find a preset that contradicts the weights."""
        if self.preset == "custom" and self.weights is None:
            yield "preset", "is custom, which needs weights; set compute.real_utilization.weights"
        if self.preset != "custom" and isinstance(self.weights, Weights):
            yield "preset", f"is {self.preset}, but weights are given; write custom, or leave one of the two out"

    def chosen_weights(self) -> Weights:
        """Return the weights of the preset, or the given ones, scaled to sum to 1."""
        return PRESETS[self.preset] if self.weights is None else self.weights.scaled()


@dataclass(frozen=True, slots=True)
class WorkloadSettings(Settings):
    """What kind of work a GPU does."""

    profile: Profile = setting("pulsed", "`kempnerpulse` has the rules of KempnerPulse 0.5.")
    hold: DurationOrNone = setting(2.0, "A new class counts once its samples cover this time. 0: at once.")
    thresholds: ClassThresholds = setting(
        DEFAULT_THRESHOLDS,
        "Thresholds of the class table in docs/metrics.md, named by class and input. With the profile "
        "`kempnerpulse`, `memory_utilization_ratio` counts as `io` from `io_memory_utilization_ratio` on.",
    )


def _words(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


PeakTable = Annotated[
    Mapping[str, Mapping[str, float]],
    TableKind("peaks", "numbers by architecture and resource, such as {hopper: {dram: 0.9}}", number(), depth=2),
]


@dataclass(frozen=True, slots=True)
class SaturationSettings(Settings):
    """How near a GPU is to the limits of its hardware."""

    peaks: PeakTable = setting(
        {},
        f"Practical peaks by architecture ({_words(ARCHITECTURE_NAMES)}) and resource: "
        f"{_words(each for each in RESOURCES if each not in LINKS)} as ratios; {_words(LINKS)} as bytes per second and "
        f"direction. `{DEFAULT}`: all others.",
        example={"hopper": {"dram": 0.9}},
    )

    def problems(self) -> Iterator[Problem]:
        """Yield architectures and resources that do not exist, and peaks out of range."""
        return ((f"peaks.{place}", message) for place, message in problems_of(self.peaks))

    def practical_peaks(self) -> Mapping[str, Peaks]:
        """Return the practical peaks by architecture."""
        return peaks_by_architecture(self.peaks) if self.peaks else DEFAULT_PEAKS


@dataclass(frozen=True, slots=True)
class IdleSettings(Settings):
    """When an idle GPU counts as held."""

    held_memory: Size = setting(
        256 * 2**20,
        "An idle GPU without a known owner is held with this much memory in use. A CUDA context takes 300 to 550 MiB.",
    )


@dataclass(frozen=True, slots=True)
class ComputeSettings(Settings):
    """Settings of the derivation from the readings.

    Attributes:
        health: the section `health`, a sibling of this one in the configuration.
    """

    missing: Missing = setting(
        "bounds", "Missing inputs are anything within physical `bounds`, or `zero` as in older tools."
    )
    real_utilization: RealUtilizationSettings = setting(RealUtilizationSettings(), "The share of a GPU that does work.")
    workload: WorkloadSettings = setting(WorkloadSettings(), "Workload class.")
    saturation: SaturationSettings = setting(SaturationSettings(), "Distance to the limits of the hardware.")
    plausibility: PlausibilitySettings = setting(DEFAULT_PLAUSIBILITY, "Implausible inputs, which count as missing.")
    idle: IdleSettings = setting(IdleSettings(), "Whether an idle GPU is held or free.")
    health: HealthSettings = DEFAULT_HEALTH


DEFAULT_SETTINGS = ComputeSettings()
