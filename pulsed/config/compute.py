"""The keys of derived values: real utilization, workload class, saturation, plausibility and idle time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, make_dataclass
from typing import TYPE_CHECKING, Any, Literal

from pulsed.compute.bounds import Missing
from pulsed.compute.class_table import RULES, ClassThresholds, Profile
from pulsed.compute.peaks import DEFAULT_PEAKS, LINKS, RESOURCES, Peaks, Resource, peaks_by_architecture
from pulsed.compute.plausibility_rules import PlausibilitySettings
from pulsed.compute.products import ARCHITECTURE_NAMES, DEFAULT
from pulsed.compute.settings import PRESETS, ComputeSettings, Weights
from pulsed.config.values import Bounds
from pulsed.errors import ConfigError
from pulsed.settings import Count, Duration, DurationOrNone, Factor, Problem, Ratio, Settings, Size, Switch, setting

_DEFAULTS = ComputeSettings()

Preset = Literal["ai", "hpc", "mem", "custom"]


@dataclass(frozen=True, slots=True)
class WeightsSection(Settings):
    """How much each input counts, scaled to sum to 1; one left out counts nothing."""

    sm: Factor = setting(0.0, "Weight of `sm_active_ratio`.", example=0.4)
    tensor: Factor = setting(0.0, "Weight of `tensor_active_ratio`.", example=0.3)
    dram: Factor = setting(0.0, "Weight of `dram_active_ratio`.", example=0.2)
    graphics_engine: Factor = setting(0.0, "Weight of `graphics_engine_active_ratio`.", example=0.1)

    def problems(self) -> Iterator[Problem]:
        """Find weights that cannot be scaled."""
        if not 0 < self.sm + self.tensor + self.dram + self.graphics_engine < float("inf"):
            yield "sm", "and the other weights are all 0; allowed: at least one above 0"


@dataclass(frozen=True, slots=True)
class RealUtilizationSection(Settings):
    """How much of a GPU does real work, as one number."""

    preset: Preset = setting(
        "ai",
        "Weights of sm, tensor, dram, graphics_engine: "
        + ", ".join(
            f"`{name}` {weights.sm:g} {weights.tensor:g} {weights.dram:g} {weights.graphics_engine:g}"
            for name, weights in PRESETS.items()
        )
        + ", or `custom`, which is the default if `weights` are set.",
    )
    weights: WeightsSection | None = setting(None, "Custom weights, scaled to a sum of 1.")
    min_coverage: Ratio = setting(
        _DEFAULTS.min_coverage,
        "Publish a value if at least this share of the weights has its input. Bounds are always published.",
    )
    histogram: Bounds = setting(
        _DEFAULTS.histogram,
        "Bucket bounds of `pulsed_gpu_real_utilization_distribution_ratio`, a series per GPU each. `[]` turns it off.",
    )

    @classmethod
    def arguments(cls, given: dict[str, object]) -> Mapping[str, object]:
        """Return the arguments; weights that are given are meant, whatever the default preset is."""
        return {"preset": "custom", **given} if "weights" in given else given

    def problems(self) -> Iterator[Problem]:
        """Find a preset that contradicts the weights."""
        if self.preset == "custom" and self.weights is None:
            yield "preset", "is custom, which needs weights; set compute.real_utilization.weights"
        if self.preset != "custom" and self.weights is not None:
            yield "preset", f"is {self.preset}, but weights are given; write custom, or leave one of the two out"

    def chosen_weights(self) -> Weights:
        """Return the weights of the preset, or the given ones, scaled to sum to 1."""
        return PRESETS[self.preset] if self.weights is None else Weights(**asdict(self.weights))


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
    ThresholdsSection = Settings
else:  # one key per field of Compute's own table
    ThresholdsSection = make_dataclass(
        "ThresholdsSection",
        [
            (
                field.name,
                Ratio if field.name.endswith("_ratio") else Factor,
                setting(field.default, f"{_threshold(field.name)}."),
            )
            for field in fields(ClassThresholds)
        ],
        bases=(Settings,),
        frozen=True,
    )


@dataclass(frozen=True, slots=True)
class WorkloadSection(Settings):
    """What kind of work a GPU does."""

    profile: Profile = setting(_DEFAULTS.profile, "`kempnerpulse` has the rules of KempnerPulse 0.5.")
    hold: DurationOrNone = setting(_DEFAULTS.hold, "A new class counts once its samples cover this time. 0: at once.")
    thresholds: ThresholdsSection = setting(
        ThresholdsSection(),
        "Thresholds of the class table in METRICS.md, named by class and input. With the profile "
        "`kempnerpulse`, `memory_utilization_ratio` counts as `io` from `io_memory_utilization_ratio` on.",
    )


def _peak(resource: Resource) -> tuple[Any, Any]:
    """Declare a peak as a key; the default is the table's."""
    if resource in LINKS:
        meaning = f"Peak of {resource}, bytes per second and direction. Unset: of the link or product."
        return Factor | None, setting(None, meaning, example=50e9)
    return Ratio | None, setting(None, f"Peak {resource} activity.", example=0.9)


if TYPE_CHECKING:
    PeaksByArchitecture = Settings
else:  # one key per resource and architecture of Compute's own tables
    PeaksSection = make_dataclass(
        "PeaksSection",
        [(resource, *_peak(resource)) for resource in RESOURCES],
        bases=(Settings,),
        frozen=True,
    )
    PeaksByArchitecture = make_dataclass(
        "PeaksByArchitecture",
        [
            (
                name,
                PeaksSection | None,
                setting(
                    None, f"{name.capitalize()} GPUs." if name != DEFAULT else "All architectures without a value."
                ),
            )
            for name in ARCHITECTURE_NAMES
        ],
        bases=(Settings,),
        frozen=True,
    )


@dataclass(frozen=True, slots=True)
class SaturationSection(Settings):
    """How near a GPU is to the limits of its hardware."""

    peaks: PeaksByArchitecture = setting(
        PeaksByArchitecture(),
        "Practical peaks by architecture, in place of the built-in ones: ratios of activity, and bytes per "
        "second and direction of links, whose default is that of the link or product.",
    )

    def practical_peaks(self) -> Mapping[str, Peaks]:
        """Return the practical peaks by architecture."""
        given = asdict(self.peaks, dict_factory=lambda items: {key: value for key, value in items if value is not None})
        return peaks_by_architecture(given) if given else DEFAULT_PEAKS


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
    return kind, setting(default, description)


def _refusal(name: str, value: Any) -> str:
    """Return what is allowed instead of this number; empty if the number is allowed."""
    try:
        PlausibilitySettings(**{name: value})
    except ConfigError as error:
        return error.remedy
    return ""


@dataclass(frozen=True, slots=True)
class _Plausibility(Settings):
    """Which inputs are not believed: they count as missing."""

    def problems(self) -> Iterator[Problem]:
        """Find numbers that Compute's own table does not allow."""
        for name, value in vars(self).items():
            if remedy := _refusal(name, value):
                yield name, f"is {value:g}; {remedy}"

    def plausible(self) -> PlausibilitySettings:
        """Return the settings of Compute."""
        return PlausibilitySettings(**vars(self))


if TYPE_CHECKING:
    PlausibilitySection = _Plausibility
else:
    PlausibilitySection = make_dataclass(
        "PlausibilitySection",
        [(name, *_plausible(name, description)) for name, description in _PLAUSIBLE_KEYS.items()],
        bases=(_Plausibility,),
        frozen=True,
    )


@dataclass(frozen=True, slots=True)
class IdleSection(Settings):
    """When an idle GPU counts as held."""

    held_memory: Size = setting(
        int(_DEFAULTS.held_memory_bytes),
        "An idle GPU whose owners are unknown counts as held with this much device memory in use. A CUDA "
        "context takes 300 to 550 MiB, an unused GPU at most 128 MiB, more with drivers before 510.",
    )


@dataclass(frozen=True, slots=True)
class ComputeSection(Settings):
    """What is worked out from the readings."""

    missing: Missing = setting(
        _DEFAULTS.missing, "Missing inputs are anything within physical `bounds`, or `zero` as in older tools."
    )
    real_utilization: RealUtilizationSection = setting(RealUtilizationSection(), "The share of a GPU that does work.")
    workload: WorkloadSection = setting(WorkloadSection(), "Workload class.")
    saturation: SaturationSection = setting(SaturationSection(), "Distance to the limits of the hardware.")
    plausibility: PlausibilitySection = setting(PlausibilitySection(), "Implausible inputs, which count as missing.")
    idle: IdleSection = setting(IdleSection(), "Whether an idle GPU is held or free.")
