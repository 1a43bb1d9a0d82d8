"""The table of derived results, the declaration of health among them, and the results of one reading.

A new result is a module that declares it, and a line here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pulsed.compute.activity import bounds_of, media_of, zero_filled
from pulsed.compute.class_table import ClassRule
from pulsed.compute.classifier import classifier, has_other_work, traffic
from pulsed.compute.declaration import Alternatives, DerivedNumber, DerivedResult, DerivedState, DerivedValue
from pulsed.compute.products import c2c_of
from pulsed.compute.real_utilization import REAL_UTILIZATION, real_utilization
from pulsed.compute.saturation import SATURATION, TENSOR_THROUGHPUT, Saturator
from pulsed.compute.settings import ComputeSettings
from pulsed.compute.workload import WORKLOAD
from pulsed.model.gpu import Device
from pulsed.model.health import STATES
from pulsed.model.interval import Interval
from pulsed.model.result import Bounds, RealUtilization, Result, Saturation, Workload
from pulsed.model.vocabulary import QUANTITIES, Reading


def _inputs(settings: ComputeSettings) -> tuple[Alternatives, ...]:
    """Return the inputs of every check, except checks that only some GPUs need."""
    input_names = [
        tuple(name for name in check.inputs if name in QUANTITIES)
        for check in settings.health.checks()
        if not check.optional and not check.unless
    ]
    return tuple(dict.fromkeys(names for names in input_names if names))


HEALTH = DerivedResult(
    name="health",
    inputs=_inputs,
    without=lambda settings: "the checks that need it are unknown, never ok",
    values=(
        DerivedState(
            name="health_state",
            help="Worst state of all checks that could be evaluated: 1 for that state, 0 for all others; unknown is not"
            " ok",
            states=STATES,
            get=lambda reading, result: result.health.state,
            label="state",
            json="health.state",
            ranked=True,
        ),
        DerivedNumber(
            name="health_severity",
            help="Health state as a number: -1 unknown, 0 ok, 1 info, 2 warn, 3 hot, 4 crit",
            get=lambda reading, result: result.health.severity,
            json="health.severity",
            csv=False,
            always=True,
            integer=True,
        ),
        DerivedNumber(
            name="health_coverage_ratio",
            help="Share of the applicable checks that could be evaluated",
            get=lambda reading, result: result.health.coverage,
            json="health.coverage",
            csv=False,
            always=True,
        ),
    ),
)

DERIVED_RESULTS: tuple[DerivedResult, ...] = (
    REAL_UTILIZATION,
    WORKLOAD,
    SATURATION,
    TENSOR_THROUGHPUT,
    HEALTH,
)
"""In the order of the page."""

DERIVED_VALUES: tuple[DerivedValue, ...] = tuple(value for result in DERIVED_RESULTS for value in result.values)


def ordered(names: Iterable[str], first: Sequence[str]) -> list[str]:
    """Return the names of a contract first, in its order, then the other names in theirs."""
    names = dict.fromkeys(names)
    return [*first, *(name for name in names if name not in first)]


class Deriver:
    """Derives what follows from one reading alone, with the tables of its settings compiled.

    Args:
        settings: weights, missing inputs, class table and practical peaks.
    """

    def __init__(self, settings: ComputeSettings) -> None:
        self._settings, self._weights = settings, settings.real_utilization.chosen_weights()
        self._classifier = classifier(settings.workload.thresholds, settings.workload.profile)
        self._saturators: dict[tuple[str, bool], Saturator] = {}

    def bounds(self, reading: Reading) -> Bounds:
        """Return the bounds of the inputs of a reading, given what a missing input is."""
        return zero_filled(reading) if self._settings.missing == "zero" else bounds_of(reading)

    def derive(
        self, device: Device, reading: Reading, bounds: Bounds, rounding: float = 0.0
    ) -> tuple[RealUtilization, Workload, Saturation]:
        """Return the results of a reading without implausible inputs, and of the bounds of its inputs.

        Args:
            rounding: how much higher a fraction may be than it was printed.
        """
        settings = self._settings
        utilization = real_utilization(reading, bounds, self._weights, settings)
        saturator = self._saturators.get((device.model, device.whole))
        if saturator is None:
            saturator = Saturator(device.model, device.whole, settings.saturation.practical_peaks())
            self._saturators[device.model, device.whole] = saturator
        io = traffic(device, reading, bounds.high, settings, saturator.link, rounding)
        media = media_of(reading)
        workload = self._classifier.classify(bounds, utilization.ratio, io, media)
        if workload.used is not True and has_other_work(device, reading, settings.workload.thresholds):
            workload = replace(workload, has_other_work=True)
        return utilization, workload, saturator.saturation(reading, bounds)

    def reached_rules(
        self,
        device: Device,
        reading: Reading,
        bounds: Bounds,
        utilization: Interval,
        rounding: float = 0.0,
    ) -> tuple[list[ClassRule], Interval]:
        """Return the rules of the class table that the bounds of the inputs and of the real utilization allow, and the
        bounds of the traffic, bytes/s."""
        link = c2c_of(device.model) if device.whole else None
        io = traffic(device, reading, bounds.high, self._settings, link, rounding)
        return self._classifier.reached(bounds, utilization, io, media_of(reading)), io


def result_of(device: Device, reading: Reading, settings: ComputeSettings) -> Result:
    """Return the result of one reading alone: nothing is debounced, counted or evaluated over time."""
    deriver = Deriver(settings)
    return Result(*deriver.derive(device, reading, deriver.bounds(reading)))
