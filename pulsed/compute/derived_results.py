"""The table of derived results, and the results of one reading. A new result is a module that declares it, and a line
here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pulsed.compute.classifier import Classifier
from pulsed.compute.declaration import DerivedNumber, DerivedResult, DerivedValue
from pulsed.compute.health.summary import HEALTH
from pulsed.compute.real_utilization import REAL_UTILIZATION, real_utilization
from pulsed.compute.saturation import SATURATION
from pulsed.compute.settings import ComputeSettings
from pulsed.compute.tensor_throughput import TENSOR_THROUGHPUT
from pulsed.compute.workload import WORKLOAD
from pulsed.model.computed_tick import Bounds, RealUtilization, Result, Saturation, Workload
from pulsed.model.gpu import Device
from pulsed.model.vocabulary import Reading

DERIVED_RESULTS: tuple[DerivedResult, ...] = (
    REAL_UTILIZATION,
    WORKLOAD,
    SATURATION,
    TENSOR_THROUGHPUT,
    HEALTH,
)
"""In the order of the page."""

DERIVED_VALUES: tuple[DerivedValue, ...] = tuple(value for result in DERIVED_RESULTS for value in result.values)


def recorded_numbers() -> Iterator[DerivedNumber]:
    """Yield the numbers that a recording rule computes by their own PromQL."""
    return (value for value in DERIVED_VALUES if isinstance(value, DerivedNumber) and value.promql)


def ordered(names: Iterable[str], first: Sequence[str]) -> list[str]:
    """Return the names with those of a contract first, in its order, and the others behind in theirs."""
    names = dict.fromkeys(names)
    return [*first, *(name for name in names if name not in first)]


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
