"""The metrics that autoscalers can name, from the fields of GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pulsed.present.autoscale import How


class ScaleMetric(NamedTuple):
    """A metric of a pod or workload: a field of its GPUs, and how they are combined."""

    name: str
    field: str
    how: How


def scale_metrics(fields: Iterable[str]) -> Mapping[str, ScaleMetric]:
    """Return the metrics of these fields by name.

    A ratio is a mean under its name without `_ratio`, and a sum and a maximum with a suffix; other fields are sums.

    >>> list(scale_metrics(["saturation_ratio", "power_watts"]))
    ['gpu_saturation', 'gpu_saturation_sum', 'gpu_saturation_max', 'gpu_power_watts']
    """
    return {metric.name: metric for field in fields for metric in _of(field)}


def _of(field: str) -> Iterator[ScaleMetric]:
    name = f"gpu_{field.removeprefix('gpu_').removesuffix('_ratio')}"
    if field.endswith("_ratio"):
        yield ScaleMetric(name, field, "avg")
        yield ScaleMetric(f"{name}_sum", field, "sum")
        yield ScaleMetric(f"{name}_max", field, "max")
    else:
        yield ScaleMetric(name, field, "sum")


def quantity(value: float) -> str:
    """Return a number as a quantity of Kubernetes, rounded to a thousandth.

    >>> [quantity(value) for value in (0.9, 2.0, 0.0004, 80e9)]
    ['900m', '2', '0', '80000000000']
    """
    thousandths = round(value * 1000)
    return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)
