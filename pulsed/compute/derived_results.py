"""The table of derived results. A new one is a module that declares it, and a line here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pulsed.compute.declaration import DerivedNumber, DerivedResult, DerivedValue
from pulsed.compute.health.result import HEALTH
from pulsed.compute.real_utilization import REAL_UTILIZATION
from pulsed.compute.saturation import SATURATION
from pulsed.compute.tensor_throughput import TENSOR_THROUGHPUT
from pulsed.compute.workload.result import WORKLOAD

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
