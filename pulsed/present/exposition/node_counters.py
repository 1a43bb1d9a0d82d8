"""Sums of the counters of GPUs by node and model, which never decrease."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import is_, itemgetter
from typing import NamedTuple

from pulsed.model.counters import COUNTER_POSITION, COUNTERS, NOTHING_COUNTED
from pulsed.model.gpu import GpuKey
from pulsed.model.vocabulary import Value
from pulsed.present.exposition.family_types import NODE_PREFIX, NodeFamily, NodeGpu, NodeModel, own_label
from pulsed.present.exposition.series_memory import without_gone

CounterValues = tuple[Value, ...]
"""Of a `CounterSnapshot`."""

_OF_INSTANCES = ("workload_class_seconds",)
_OF_BOARDS = (
    "observed_seconds",
    "real_utilization_seconds",
    "real_utilization_unknown_seconds",
    "idle_seconds",
    "idle_energy_joules",
    "class_energy_joules",
)
_SPARSE = frozenset({"workload_class_seconds", "class_energy_joules"})
"""Counters by label that are published once they count."""


class CounterColumn(NamedTuple):
    """One counter, or one of its states: its own label as text, and its place in the values of a `CounterSnapshot`."""

    family: NodeFamily
    label: str
    source: int
    is_sparse: bool
    of_instances: bool


def _columns() -> Iterator[CounterColumn]:
    source = 0
    for counter in COUNTERS:
        for state in counter.states:
            if counter.name in _OF_BOARDS or counter.name in _OF_INSTANCES:
                of_instances = counter.name in _OF_INSTANCES
                of = "GPUs and MIG instances" if of_instances else "boards"
                help = f"Sum of all {of}: {counter.meaning}"
                family = NodeFamily(f"{NODE_PREFIX}{counter.name}_total", "counter", help, counter.label)
                yield CounterColumn(family, own_label(family, state), source, counter.name in _SPARSE, of_instances)
            source += 1


COUNTER_COLUMNS: tuple[CounterColumn, ...] = tuple(_columns())
_ABSENT = len(NOTHING_COUNTED.values)
_of_board = itemgetter(*(column.source for column in COUNTER_COLUMNS))
_of_instance = itemgetter(*(column.source if column.of_instances else _ABSENT for column in COUNTER_COLUMNS))
_OBSERVED = COUNTER_POSITION["observed_seconds", ""]

ENERGY = NodeFamily(
    NODE_PREFIX + "energy_joules_total",
    "counter",
    "Sum of all boards and classes: Energy used in observed time; from the GPU's energy counter, else from power",
)
ENERGY_PLACES = [
    index
    for index, column in enumerate(COUNTER_COLUMNS)
    if column.family.name == f"{NODE_PREFIX}class_energy_joules_total"
]
"""Places of the columns that are the energy of one class."""


class NodeCounters:
    """Sums of the counters of GPUs by node and model.

    They never decrease: what a GPU that is gone has counted stays, and one that joins adds what it counts from then on.
    """

    def __init__(self) -> None:
        self.totals: dict[NodeModel, list[Value]] = {}
        self._seen: dict[GpuKey, CounterValues] = {}
        self._summed: dict[NodeModel, tuple[Sequence[CounterValues], Sequence[Value]]] = {}
        """The values that were added last, and their sums."""

    def add(self, place: NodeModel, gpus: Sequence[NodeGpu]) -> None:
        """Add what GPUs of a node and model have counted since the last call."""
        totals, seen = self.totals.get(place), self._seen
        now = [sample.result.counters.values for _, sample in gpus]
        before: list[CounterValues] = []
        for (key, _), values in zip(gpus, now, strict=True):
            earlier = seen.get(key, NOTHING_COUNTED.values if totals is None else values)
            before.append(
                NOTHING_COUNTED.values if (earlier[_OBSERVED] or 0.0) > (values[_OBSERVED] or 0.0) else earlier
            )
            seen[key] = values
        known, sums = self._summed.get(place, ((), ()))
        if len(known) != len(before) or not all(map(is_, known, before)):
            sums = _sums(gpus, before)
        counted = _sums(gpus, now)
        self._summed[place] = (now, counted)
        self.totals[place] = [
            # A difference of sums may be rounded to less than 0.
            total if more is None else (total or 0.0) + max(more - (less or 0.0), 0.0)
            for total, more, less in zip(totals or [None] * len(COUNTER_COLUMNS), counted, sums, strict=True)
        ]

    def forget_others(self, keys: set[GpuKey]) -> None:
        """Forget what was seen of GPUs that are gone; what was counted of them stays."""
        self._seen = without_gone(self._seen, keys)
        self._summed.clear()


def _sums(gpus: Sequence[NodeGpu], values: Sequence[CounterValues]) -> Sequence[Value]:
    """Return the sum of each column over the values of these GPUs, None of one without a number."""
    rows = [
        _of_instance((*each, None)) if key[2] else _of_board(each) for (key, _), each in zip(gpus, values, strict=True)
    ]
    try:
        return list(map(sum, zip(*rows, strict=True)))
    except TypeError:  # None
        kept = [[value for value in column if value is not None] for column in zip(*rows, strict=True)]
        return [sum(column) if column else None for column in kept]
