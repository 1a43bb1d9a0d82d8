"""What follows from one reading alone: real utilization, workload class and saturation; settings of compute."""

from __future__ import annotations

from dataclasses import dataclass

from pulsed.compute.absence import FORGET_SECONDS
from pulsed.compute.bounds import Bounds, bounds_of, zero_filled
from pulsed.compute.health.settings import DEFAULT_HEALTH, HealthSettings
from pulsed.compute.peaks import ChipToChipLink
from pulsed.compute.plausibility.rules import DEFAULT_PLAUSIBILITY, PlausibilitySettings
from pulsed.compute.real_utilization import PRESETS, Weights, real_utilization
from pulsed.compute.saturation import DEFAULT_SATURATORS, Saturation, Saturators
from pulsed.compute.tick import RealUtilization, Result, Workload
from pulsed.compute.workload.class_table import DEFAULT_THRESHOLDS, ClassThresholds, Profile
from pulsed.compute.workload.classifier import Classifier, Missing, classifier, traffic
from pulsed.model.canonical_tick import Device
from pulsed.model.vocabulary import Reading


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
        saturators: with the practical peaks of every architecture.
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
    saturators: Saturators = DEFAULT_SATURATORS
    plausible: PlausibilitySettings = DEFAULT_PLAUSIBILITY
    health: HealthSettings = DEFAULT_HEALTH
    forget_after: float = FORGET_SECONDS
    histogram: tuple[float, ...] = (0.05, 0.25, 0.5, 0.75, 0.95)

    @property
    def classifier(self) -> Classifier:
        """The class table with the thresholds and of the profile."""
        return classifier(self.thresholds, self.profile)

    def bounds(self, reading: Reading) -> Bounds:
        """Return the bounds of the inputs of a reading, which are measured or `missing`."""
        return zero_filled(reading) if self.missing == "zero" else bounds_of(reading)

    def traffic(
        self, device: Device, reading: Reading, bounds: Bounds, link: ChipToChipLink | None
    ) -> tuple[float, float]:
        """Return the bounds of the largest direction of a GPU's links, in bytes/s, given those of its inputs."""
        return traffic(
            reading,
            bounds.high,
            self.thresholds,
            whole=device.whole,
            link=link,
            profile=self.profile,
            missing=self.missing,
        )


DEFAULT_SETTINGS = ComputeSettings()


def derive(
    device: Device,
    reading: Reading,
    settings: ComputeSettings,
    classes: Classifier,
    bounds: Bounds,
) -> tuple[RealUtilization, Workload, Saturation]:
    """Return what follows from one reading alone.

    Args:
        device: the GPU.
        reading: its inputs; implausible ones are None.
        settings: weights, missing inputs and practical peaks.
        classes: `settings.classifier`.
        bounds: of its inputs.
    """
    zero = settings.missing == "zero"
    utilization = real_utilization(reading, bounds, settings.weights, min_coverage=settings.min_coverage, zero=zero)
    saturator = settings.saturators.of(device.model, device.whole)
    io = settings.traffic(device, reading, bounds, saturator.link)
    workload = classes.classify(bounds, (utilization.lower, utilization.upper), io)
    return utilization, workload, saturator.of(reading, bounds)


def result_of(device: Device, reading: Reading, settings: ComputeSettings) -> Result:
    """Return the result of one reading alone: nothing is held, counted or evaluated over time."""
    return Result(*derive(device, reading, settings, settings.classifier, settings.bounds(reading)))
