"""What a family of GPU metrics is, and the usual kinds of them. Knows no text format, and no family in particular."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from pulsed.present.exposition.text_format import MetricType
from pulsed.present.gpu_sample import GpuSample
from pulsed.translate.vocabulary import is_counter

PREFIX = "pulsed_gpu_"

Labels = tuple[tuple[str, ...], ...]
"""The values of a family's own labels, one tuple per sample. Families give the same object where they can: it is what
the lines of a page are kept by."""

Samples = tuple[Labels, tuple[float, ...]]
"""The samples that a family has of one GPU: the values of their own labels, and as many values."""

NO_SAMPLES: Samples = ((), ())

ALONE: Labels = ((),)
"""Of a family with one sample per GPU and no labels of its own."""


Basis = Callable[[GpuSample], object]


@dataclass(frozen=True, slots=True)
class Family:
    """A metric family with one series per GPU.

    Attributes:
        name: of its samples; a counter's ends in `_total`, an info's in `_info`.
        type: of the family.
        help: one line.
    """

    name: str
    type: MetricType
    help: str


@dataclass(frozen=True, slots=True)
class CounterFamily(Family):
    """A counter of the account.

    Attributes:
        label: what its states are of; empty for a counter without states.
        states: one series each.
    """

    label: str
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DerivedFamily(Family):
    """A family whose samples follow from a whole `GpuSample`.

    Attributes:
        labels: names of the labels that the family has beside those of every GPU series.
        samples: gives the samples of one GPU, in a fixed order; none when there is nothing to say. Those of a histogram
            have the suffix of their name (`_bucket`, `_sum`, `_count`) before the values of the labels.
        basis: gives what the samples are made from, besides the device: while it gives the same object, they are the
            same. None when that is new with every tick.
    """

    labels: tuple[str, ...]
    samples: Callable[[GpuSample], Samples]
    basis: Basis | None = None


@lru_cache(maxsize=256)
def one_each(values: tuple[str, ...]) -> Labels:
    """Make the labels of samples that differ by one label; the same object for all GPUs that have the same."""
    return tuple([(value,) for value in values])


def counted(pairs: Iterable[tuple[object, float]]) -> Samples:
    """Make the samples of values that are told by one label."""
    kept = list(pairs)
    return one_each(tuple([str(key) for key, _ in kept])), tuple([value for _, value in kept])


def gauge(name: str, help: str, get: Callable[[GpuSample], float | None], basis: Basis | None = None) -> DerivedFamily:
    """Return a gauge (a counter if named `_total`) without labels of its own; it is absent where `get` returns None."""

    def samples(subject: GpuSample) -> Samples:
        value = get(subject)
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
    """Declare a state set: a series per state, 1 for the state that `get` gives and 0 for all others.

    Its type is gauge: OpenMetrics' stateset demands a label named like the metric.
    """

    labels = one_each(states)
    rows: Mapping[str, Samples] = {true: (labels, tuple(int(state == true) for state in states)) for true in states}

    def samples(subject: GpuSample) -> Samples:
        return rows[get(subject)]

    return DerivedFamily(PREFIX + name, "gauge", help, (label,), samples, basis)
