"""Types of metric families of GPUs. This module must not depend on a text format or a particular family."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pulsed.model.computed_tick import GpuSample
from pulsed.model.vocabulary import is_counter
from pulsed.present.exposition.text_format import MetricType

PREFIX = "pulsed_gpu_"

Sample = tuple[tuple[str, ...], float]
"""The values of a family's own labels, and a number."""

Samples = Sequence[Sample]
"""The samples of a family for one GPU."""


Form = Literal["every", "brief", "current", "differing", "recent", "counted", "events", "zero_first"]
"""Which samples of a family are published: `every`; all with fewer labels (`brief`); those of the `current` state; all
or, if they are equal, none (`differing`); those that were not 0 in the last 10 minutes (`recent`); or those of a
counter by label: of time and energy, absent before it counts (`counted`); of events, the same from 0 (`zero_first`)."""

COUNTER_FORMS = frozenset[Form](("counted", "events", "zero_first"))


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
        current: returns fewer samples, for the form `current`: those of what is the case.
    """

    labels: tuple[str, ...]
    samples: Callable[[GpuSample], Samples]
    current: Callable[[GpuSample], Samples] | None = None


def samples_by_label(pairs: Iterable[tuple[object, float]]) -> Samples:
    """Return samples with one label, from pairs of its value and a number."""
    return [((str(key),), value) for key, value in pairs]


def gauge(name: str, help: str, get: Callable[[GpuSample], float | None]) -> DerivedFamily:
    """Return a gauge (a counter if named `_total`) without labels of its own; it is absent where `get` returns None."""

    def samples(sample: GpuSample) -> Samples:
        value = get(sample)
        return () if value is None else (((), value),)

    return DerivedFamily(PREFIX + name, "counter" if is_counter(name) else "gauge", help, (), samples)


def state_set(
    name: str, label: str, states: tuple[str, ...], help: str, get: Callable[[GpuSample], str]
) -> DerivedFamily:
    """Return a state set: a series per state, 1 for the state that `get` returns and 0 for all others.

    Its type is gauge, because OpenMetrics' stateset requires a label named like the metric.
    """

    def samples(sample: GpuSample) -> Samples:
        now = get(sample)
        return [((state,), int(state == now)) for state in states]

    return DerivedFamily(PREFIX + name, "gauge", help, (label,), samples, lambda sample: (((get(sample),), 1),))
