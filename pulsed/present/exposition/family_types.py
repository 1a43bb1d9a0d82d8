"""Types of metric families of GPUs. This module must not depend on a text format or a particular family."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from pulsed.model.computed_tick import GpuSample
from pulsed.model.vocabulary import is_counter
from pulsed.present.exposition.text_format import MetricType

PREFIX = "pulsed_gpu_"

Labels = tuple[tuple[str, ...], ...]
"""The values of a family's own labels, one tuple per sample. Families return the same object where they can, because
rendered lines are cached by it."""

Samples = tuple[Labels, tuple[float, ...]]
"""The samples of a family for one GPU: label values, and as many numbers."""

NO_SAMPLES: Samples = ((), ())

ALONE: Labels = ((),)
"""One sample without labels of its own."""


Basis = Callable[[GpuSample], object]


@dataclass(frozen=True, slots=True)
class Family:
    """A metric family with one series per GPU; the name is that of its samples (`_total`, `_info`)."""

    name: str
    type: MetricType
    help: str


@dataclass(frozen=True, slots=True)
class CounterFamily(Family):
    """A counter over observed time, with one series per value of its label; without states it has no label."""

    label: str
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DerivedFamily(Family):
    """A family whose samples are computed from a `GpuSample`.

    Attributes:
        samples: returns the samples of one GPU, in a fixed order. Those of a histogram have the suffix of their name
            (`_bucket`, `_sum`, `_count`) before the values of the labels.
        basis: returns the object that the samples are computed from, besides the device: while it is the same object,
            they are not computed again. None if it is new with every tick.
        current: returns fewer samples, for the form `current`: those of what is the case.
    """

    labels: tuple[str, ...]
    samples: Callable[[GpuSample], Samples]
    basis: Basis | None = None
    current: Callable[[GpuSample], Samples] | None = None


@lru_cache(maxsize=256)
def label_values(values: tuple[str, ...]) -> Labels:
    """Return the labels of samples with one label; the same object for equal values."""
    return tuple([(value,) for value in values])


def samples_by_label(pairs: Iterable[tuple[object, float]]) -> Samples:
    """Return samples with one label, from pairs of its value and a number."""
    kept = list(pairs)
    return label_values(tuple([str(key) for key, _ in kept])), tuple([value for _, value in kept])


def gauge(name: str, help: str, get: Callable[[GpuSample], float | None], basis: Basis | None = None) -> DerivedFamily:
    """Return a gauge (a counter if named `_total`) without labels of its own; it is absent where `get` returns None."""

    def samples(sample: GpuSample) -> Samples:
        value = get(sample)
        return NO_SAMPLES if value is None else (ALONE, (value,))

    return DerivedFamily(PREFIX + name, "counter" if is_counter(name) else "gauge", help, (), samples, basis)


def state_set(
    name: str,
    label: str,
    states: tuple[str, ...],
    help: str,
    get: Callable[[GpuSample], str],
    basis: Basis | None = None,
) -> DerivedFamily:
    """Return a state set: a series per state, 1 for the state that `get` returns and 0 for all others.

    Its type is gauge, because OpenMetrics' stateset requires a label named like the metric.
    """

    labels = label_values(states)
    rows: Mapping[str, Samples] = {true: (labels, tuple(int(state == true) for state in states)) for true in states}

    alone: Mapping[str, Samples] = {true: (label_values((true,)), (1,)) for true in states}

    return DerivedFamily(
        PREFIX + name,
        "gauge",
        help,
        (label,),
        lambda sample: rows[get(sample)],
        basis,
        lambda sample: alone[get(sample)],
    )
