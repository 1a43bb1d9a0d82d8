"""The keys of derived values: real utilization, workload class, saturation, plausibility and idle time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, create_model, model_validator

from pulsed.compute.class_table import RULES, ClassThresholds, Profile
from pulsed.compute.classifier import Missing
from pulsed.compute.peaks import LINKS, RESOURCES, Resource, peaks_by_architecture
from pulsed.compute.plausibility_rules import PlausibilitySettings
from pulsed.compute.products import ARCHITECTURE_NAMES, DEFAULT
from pulsed.compute.saturation import DEFAULT_SATURATORS, Saturators
from pulsed.compute.settings import PRESETS, ComputeSettings, Weights
from pulsed.config.section import Problem, Section
from pulsed.config.values import Bounds, Count, Duration, DurationOrNone, Factor, Ratio, Size, Switch
from pulsed.errors import ConfigError

_DEFAULTS = ComputeSettings()

Preset = Literal["ai", "hpc", "mem", "custom"]


class WeightsSection(Section):
    """How much each input counts, scaled to sum to 1; one left out counts nothing."""

    sm: Factor = Field(default=0.0, description="Weight of `sm_active_ratio`.", examples=[0.4])
    tensor: Factor = Field(default=0.0, description="Weight of `tensor_active_ratio`.", examples=[0.3])
    dram: Factor = Field(default=0.0, description="Weight of `dram_active_ratio`.", examples=[0.2])
    graphics_engine: Factor = Field(
        default=0.0, description="Weight of `graphics_engine_active_ratio`.", examples=[0.1]
    )

    def problems(self) -> Iterator[Problem]:
        """Find weights that cannot be scaled."""
        if not 0 < self.sm + self.tensor + self.dram + self.graphics_engine < float("inf"):
            yield "sm", "and the other weights are all 0; allowed: at least one above 0"


class RealUtilizationSection(Section):
    """How much of a GPU does real work, as one number."""

    preset: Preset = Field(
        default="ai",
        description="Weights of sm, tensor, dram, graphics_engine: "
        + ", ".join(
            f"`{name}` {weights.sm:g} {weights.tensor:g} {weights.dram:g} {weights.graphics_engine:g}"
            for name, weights in PRESETS.items()
        )
        + ", or `custom`, which is the default if `weights` are set.",
    )
    weights: WeightsSection | None = Field(default=None, description="Custom weights, scaled to a sum of 1.")
    min_coverage: Ratio = Field(
        default=_DEFAULTS.min_coverage,
        description="Publish a value if at least this share of the weights has its input. Bounds are always published.",
    )
    histogram: Bounds = Field(
        default=_DEFAULTS.histogram,
        description="Bucket bounds of `pulsed_gpu_real_utilization_distribution_ratio`, a series per GPU each. `[]` "
        "turns it off.",
    )

    @model_validator(mode="before")
    @classmethod
    def _imply_custom(cls, given: Any) -> Any:
        """Weights that are given are meant, whatever the default preset is."""
        if isinstance(given, dict) and given.get("weights") is not None and "preset" not in given:
            return {**given, "preset": "custom"}
        return given

    def problems(self) -> Iterator[Problem]:
        """Find a preset that contradicts the weights."""
        if self.preset == "custom" and self.weights is None:
            yield "preset", "is custom, which needs weights; set compute.real_utilization.weights"
        if self.preset != "custom" and self.weights is not None:
            yield "preset", f"is {self.preset}, but weights are given; write custom, or leave one of the two out"

    def chosen_weights(self) -> Weights:
        """Return the weights of the preset, or the given ones, scaled to sum to 1."""
        return PRESETS[self.preset] if self.weights is None else Weights(**self.weights.model_dump())


def _threshold(name: str) -> str:
    """Return which conditions of the class table use a threshold."""
    uses = [
        f"`{rule.name}`: `{condition.variable}` {condition.comparison} this"
        + (f" (only with the profile `{rule.only}`)" if rule.only else "")
        for rule in RULES
        for condition in rule.conditions
        if condition.threshold == name
    ]
    return "; ".join(uses) or "`io` with the profile `kempnerpulse`: `memory_utilization_ratio` >= this"


if TYPE_CHECKING:
    ThresholdsSection = Section
else:  # one key per field of Compute's own table
    ThresholdsSection = create_model(
        "ThresholdsSection",
        __base__=Section,
        **{
            field.name: (
                Ratio if field.name.endswith("_ratio") else Factor,
                Field(default=field.default, description=f"{_threshold(field.name)}."),
            )
            for field in fields(ClassThresholds)
        },
    )


class WorkloadSection(Section):
    """What kind of work a GPU does."""

    profile: Profile = Field(
        default=_DEFAULTS.profile,
        description="`kempnerpulse` has the rules of KempnerPulse 0.5.",
    )
    hold: DurationOrNone = Field(
        default=_DEFAULTS.hold,
        description="A new class counts once its samples cover this time. 0: at once.",
    )
    thresholds: ThresholdsSection = Field(
        default=ThresholdsSection(),
        description="Thresholds of the class table in METRICS.md, named by class and input. With the profile "
        "`kempnerpulse`, `memory_utilization_ratio` counts as `io` from `io_memory_utilization_ratio` on.",
    )


def _peak(resource: Resource) -> tuple[Any, Any]:
    """Declare a peak as a key; the default is the table's."""
    if resource in LINKS:
        meaning = f"Peak of {resource}, bytes per second and direction. Unset: of the link or product."
        return Factor | None, Field(default=None, description=meaning, examples=[50e9])
    return Ratio | None, Field(default=None, description=f"Peak {resource} activity.", examples=[0.9])


if TYPE_CHECKING:
    PeaksByArchitecture = Section
else:  # one key per resource and architecture of Compute's own tables
    PeaksSection = create_model(
        "PeaksSection",
        __base__=Section,
        **{resource: _peak(resource) for resource in RESOURCES},
    )
    PeaksByArchitecture = create_model(
        "PeaksByArchitecture",
        __base__=Section,
        **{
            name: (
                PeaksSection | None,
                Field(
                    default=None,
                    description=f"{name.capitalize()} GPUs."
                    if name != DEFAULT
                    else "All architectures without a value.",
                ),
            )
            for name in ARCHITECTURE_NAMES
        },
    )


class SaturationSection(Section):
    """How near a GPU is to the limits of its hardware."""

    peaks: PeaksByArchitecture = Field(
        default=PeaksByArchitecture(),
        description="Practical peaks by architecture, in place of the built-in ones: ratios of activity, and bytes per "
        "second and direction of links, whose default is that of the link or product.",
    )

    def saturators(self) -> Saturators:
        """Return the settings of Compute."""
        given = self.model_dump(exclude_none=True)["peaks"]
        return Saturators(peaks_by_architecture(given)) if given else DEFAULT_SATURATORS


_PLAUSIBLE_KEYS = {
    "enabled": "Look for implausible inputs.",
    "busy_utilization_ratio": "From this `gpu_utilization_ratio` on, kernels certainly ran.",
    # The driver's figure is a mean over up to 1 s (nvml.h), and DCGM's values are late by part of a second (DCGM#170).
    "stuck_seconds": "Zero activity on such a busy GPU counts as stuck after this time.",
    "stuck_samples": "And after this many different samples; a scrape can repeat one.",
    "frozen_seconds": "Constant values count as frozen after this time; dcgm-exporter's default interval is 30 s.",
    "frozen_samples": "And after this many samples.",
    # A hung job has constant activity, and power that changes by a few percent.
    "moved_ratio": "A load change by this much (utilization points, or a share of power) must change activity.",
    "power_max_watts": "Higher power is implausible.",
}
"""The settings of `PlausibilitySettings` that can be configured, with their descriptions."""


def _plausible(name: str, description: str) -> tuple[Any, Any]:
    """Declare a number of that table as a key."""
    (default,) = [field.default for field in fields(PlausibilitySettings) if field.name == name]
    kinds = {"enabled": Switch, "samples": Count, "seconds": Duration, "ratio": Ratio}
    kind = kinds.get(name.rpartition("_")[2], Factor)
    return kind, Field(default=default, description=description)


def _refusal(name: str, value: Any) -> str:
    """Return what is allowed instead of this number; empty if the number is allowed."""
    try:
        PlausibilitySettings(**{name: value})
    except ConfigError as error:
        return error.remedy
    return ""


class _Plausibility(Section):
    """Which inputs are not believed: they count as missing."""

    def problems(self) -> Iterator[Problem]:
        """Find numbers that Compute's own table does not allow."""
        for name, value in self.model_dump().items():
            if remedy := _refusal(name, value):
                yield name, f"is {value:g}; {remedy}"

    def plausible(self) -> PlausibilitySettings:
        """Return the settings of Compute."""
        return PlausibilitySettings(**self.model_dump())


if TYPE_CHECKING:
    PlausibilitySection = _Plausibility
else:
    PlausibilitySection = create_model(
        "PlausibilitySection",
        __base__=_Plausibility,
        **{name: _plausible(name, description) for name, description in _PLAUSIBLE_KEYS.items()},
    )


class IdleSection(Section):
    """When an idle GPU counts as held."""

    held_memory: Size = Field(
        default=int(_DEFAULTS.held_memory_bytes),
        description="An idle GPU whose owners are unknown counts as held with this much device memory in use. A CUDA "
        "context takes 300 to 550 MiB, an unused GPU at most 128 MiB, more with drivers before 510.",
    )


class ComputeSection(Section):
    """What is worked out from the readings."""

    missing: Missing = Field(
        default=_DEFAULTS.missing,
        description="Missing inputs are anything within physical `bounds`, or `zero` as in older tools.",
    )
    real_utilization: RealUtilizationSection = Field(
        default=RealUtilizationSection(), description="The share of a GPU that does work."
    )
    workload: WorkloadSection = Field(default=WorkloadSection(), description="Workload class.")
    saturation: SaturationSection = Field(
        default=SaturationSection(), description="Distance to the limits of the hardware."
    )
    plausibility: PlausibilitySection = Field(
        default=PlausibilitySection(), description="Implausible inputs, which count as missing."
    )
    idle: IdleSection = Field(default=IdleSection(), description="Whether an idle GPU is held or free.")
