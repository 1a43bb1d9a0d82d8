"""Families by node and model: what a fleet's dashboards and rules read instead of the series of each GPU.

Boards count once; a board split by MIG is one GPU. Only the class and the state sets are those of instances, too,
because the board has none of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import fsum, isfinite
from operator import itemgetter
from typing import NamedTuple, cast

from pulsed.compute.declaration import DerivedState
from pulsed.compute.derived_results import DERIVED_VALUES
from pulsed.model.computed_tick import GpuSample, Result
from pulsed.model.counters import COUNTER_POSITION, COUNTERS, NOTHING_COUNTED
from pulsed.model.gpu import GpuKey
from pulsed.model.health import SEVERITY
from pulsed.model.vocabulary import POSITION, QUANTITIES, Value
from pulsed.present.exposition.series_memory import SeriesMemory, without_gone
from pulsed.present.exposition.text_format import MetricType, header, label_pairs

PREFIX = "pulsed_node_"
_BOARDS = PREFIX + "gpus"

NodeModel = tuple[str, str]
"""A node and the product name of GPUs on it."""

Numbers = Mapping[str, Mapping[str, list[float]]]
"""The numbers of GPUs by the name of a gauge and the value of its label; `""` for one without a label."""


class NodeFamily(NamedTuple):
    """A family by node and model; `label` is its third label, empty for none."""

    name: str
    type: MetricType
    help: str
    label: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        """All of its labels."""
        return ("node", "model", self.label) if self.label else ("node", "model")


class _Gauge(NamedTuple):
    """What each GPU adds to a gauge: a number, under a value of its label if it has one; and how numbers are joined."""

    family: NodeFamily
    joined: Callable[[Sequence[float]], float]
    get: Callable[[GpuSample], Value]
    state: Callable[[GpuSample], str] | None = None
    of_instances: bool = False
    of_all: bool = False
    """Whether it has no sample while a board has no number: a sum would count it as 0."""


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


_STATES = {value.name: value for value in DERIVED_VALUES if isinstance(value, DerivedState)}


def _gauge(
    name: str,
    help: str,
    joined: Callable[[Sequence[float]], float],
    get: Callable[[GpuSample], Value],
    *,
    of_all: bool = False,
) -> _Gauge:
    return _Gauge(NodeFamily(PREFIX + name, "gauge", help), joined, get, of_all=of_all)


def _by_state(name: str, help: str, label: str, state: Callable[[GpuSample], str], *, boards: bool) -> _Gauge:
    return _Gauge(NodeFamily(PREFIX + name, "gauge", help, label), sum, lambda sample: 1, state, not boards)


def _derived_state(value: DerivedState) -> Callable[[GpuSample], str]:
    return lambda sample: value.get(sample.reading, sample.result)


def _sum(name: str) -> _Gauge:
    help = f"Sum of all boards, while all have it: {QUANTITIES[name].meaning}"
    return _gauge(name, help, fsum, _reading(name), of_all=True)


def _mean_of_reading(name: str) -> _Gauge:
    return _gauge(name, f"Mean of the boards that have it: {QUANTITIES[name].meaning}", _mean, _reading(name))


def _reading(name: str) -> Callable[[GpuSample], Value]:
    position = POSITION[name]
    return lambda sample: sample.reading[position]


def _margin(sample: GpuSample) -> Value:
    """Return the degrees left before a GPU slows down, by its own margin or limit."""
    reading = sample.reading
    if reading.temperature_margin_celsius is not None:
        return reading.temperature_margin_celsius
    temperature, limit = reading.temperature_celsius, reading.slowdown_temperature_celsius
    return None if temperature is None or limit is None else limit - temperature


def _power_ratio(sample: GpuSample) -> Value:
    power, limit = sample.reading.power_watts, sample.reading.power_limit_watts
    return power / limit if power is not None and limit else None


_GAUGES: tuple[_Gauge, ...] = (
    _gauge("gpus", "Boards with series", sum, lambda sample: 1),
    _gauge("last_sample_timestamp_seconds", "Time of the oldest sample of a board", min, lambda sample: sample.time),
    _by_state("health_gpus", "Boards by health state", "state", lambda sample: sample.result.health.state, boards=True),
    _gauge(
        "health_severity",
        "Worst health severity of a board",
        max,
        lambda sample: SEVERITY[sample.result.health.state],
    ),
    _gauge("health_coverage_ratio", "Mean health coverage", _mean, lambda sample: sample.result.health.coverage),
    _gauge("health_coverage_min_ratio", "Smallest health coverage", min, lambda sample: sample.result.health.coverage),
    _gauge(
        "real_utilization_coverage_ratio",
        "Mean share of the weights of real utilization whose input is known",
        _mean,
        lambda sample: sample.result.real_utilization.coverage,
    ),
    _gauge(
        "real_utilization_coverage_min_ratio",
        "Smallest share of the weights of real utilization whose input is known",
        min,
        lambda sample: sample.result.real_utilization.coverage,
    ),
    *(
        _by_state(
            f"{name}_gpus", f"GPUs and MIG instances by {words}", label, _derived_state(_STATES[name]), boards=False
        )
        for name, words, label in (
            ("bottleneck", "bottleneck", "bottleneck"),
            ("limiting_resource", "limiting resource", "resource"),
        )
    ),
    _sum("power_watts"),
    _gauge("power_limit_max_ratio", "Largest power of a board over its limit", max, _power_ratio),
    _sum("memory_used_bytes"),
    _sum("memory_bytes"),
    _mean_of_reading("gpu_utilization_ratio"),
    _gauge("temperature_max_celsius", "Temperature of the hottest board", max, _reading("temperature_celsius")),
    _gauge(
        "temperature_margin_min_celsius",
        "Fewest degrees of a board below its own limit, or below the temperature at which it slows its clocks",
        min,
        _margin,
    ),
)

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


class _SumColumn(NamedTuple):
    """One counter, or one of its states, and its place among the values of a `CounterSnapshot`."""

    family: NodeFamily
    state: str
    source: int
    is_sparse: bool
    of_instances: bool


def _columns() -> Iterator[_SumColumn]:
    source = 0
    for counter in COUNTERS:
        for state in counter.states:
            if counter.name in _OF_BOARDS or counter.name in _OF_INSTANCES:
                of_instances = counter.name in _OF_INSTANCES
                of = "GPUs and MIG instances" if of_instances else "boards"
                help = f"Sum of all {of}: {counter.meaning}"
                family = NodeFamily(f"{PREFIX}{counter.name}_total", "counter", help, counter.label)
                yield _SumColumn(family, state, source, counter.name in _SPARSE, of_instances)
            source += 1


_COLUMNS: tuple[_SumColumn, ...] = tuple(_columns())
_ABSENT = len(NOTHING_COUNTED.values)
_of_board = itemgetter(*(column.source for column in _COLUMNS))
_of_instance = itemgetter(*(column.source if column.of_instances else _ABSENT for column in _COLUMNS))
_OBSERVED = COUNTER_POSITION["observed_seconds", ""]

_ENERGY = NodeFamily(
    PREFIX + "energy_joules_total",
    "counter",
    "Sum of all boards and classes: Energy used in observed time; from the GPU's energy counter, else from power",
)
_OF_ENERGY = [
    index for index, column in enumerate(_COLUMNS) if column.family.name == f"{PREFIX}class_energy_joules_total"
]

NODE_FAMILIES: tuple[NodeFamily, ...] = (
    *(gauge.family for gauge in _GAUGES),
    _ENERGY,
    *dict.fromkeys(column.family for column in _COLUMNS),
)
"""In the order of the page."""


class NodeCounters:
    """Sums of the counters of GPUs by node and model.

    They never decrease: what a GPU that is gone has counted stays, and one that joins adds what it counts from then on.
    """

    def __init__(self) -> None:
        self.totals: dict[NodeModel, list[Value]] = {}
        self._seen: dict[GpuKey, tuple[Value, ...]] = {}

    def add(self, place: NodeModel, gpus: Iterable[tuple[GpuKey, Result]]) -> None:
        """Add what GPUs of a node and model have counted since the last call."""
        totals = self.totals.get(place)
        now: list[tuple[Value, ...]] = []
        before: list[tuple[Value, ...]] = []
        for key, result in gpus:
            values = result.counters.values
            earlier = self._seen.get(key, NOTHING_COUNTED.values if totals is None else values)
            if (earlier[_OBSERVED] or 0.0) > (values[_OBSERVED] or 0.0):
                earlier = NOTHING_COUNTED.values
            self._seen[key] = values
            now.append(_of_instance((*values, None)) if key[2] else _of_board(values))
            before.append(_of_instance((*earlier, None)) if key[2] else _of_board(earlier))
        sums = zip(totals or [None] * len(_COLUMNS), _sums(now), _sums(before), strict=True)
        self.totals[place] = [
            # A difference of sums may be rounded to less than 0.
            total if counted is None else (total or 0.0) + max(counted - (known or 0.0), 0.0)
            for total, counted, known in sums
        ]

    def forget_others(self, keys: set[GpuKey]) -> None:
        """Forget what was seen of GPUs that are gone; what was counted of them stays."""
        self._seen = without_gone(self._seen, keys)


def _sums(rows: Sequence[tuple[Value, ...]]) -> list[Value]:
    """Return the sum of each column, None of one without a number."""
    try:
        return [sum(cast("tuple[float, ...]", column)) for column in zip(*rows, strict=True)]
    except TypeError:  # None
        kept = [[value for value in column if value is not None] for column in zip(*rows, strict=True)]
        return [sum(column) if column else None for column in kept]


def node_numbers(gpus: Iterable[tuple[GpuKey, GpuSample]]) -> Mapping[NodeModel, Numbers]:
    """Return the numbers of the gauges by node and model."""
    places: dict[NodeModel, list[tuple[GpuKey, GpuSample]]] = {}
    for key, sample in gpus:
        places.setdefault((key[0], sample.device.model), []).append((key, sample))
    return {place: _numbers(every) for place, every in places.items()}


def _numbers(gpus: Sequence[tuple[GpuKey, GpuSample]]) -> Numbers:
    samples = [sample for _, sample in gpus]
    boards = [sample for key, sample in gpus if not key[2]]
    found: dict[str, dict[str, list[float]]] = {}
    for gauge in _GAUGES:
        by_state: dict[str, list[float]] = {}
        for sample in samples if gauge.of_instances else boards:
            value = gauge.get(sample)
            if value is not None and isfinite(value):
                by_state.setdefault(gauge.state(sample) if gauge.state else "", []).append(value)
        if by_state:
            found[gauge.family.name] = by_state
    return found


def node_lines(
    names: frozenset[str],
    targets: Sequence[Mapping[NodeModel, Numbers]],
    counters: NodeCounters,
    memory: SeriesMemory,
    openmetrics: bool,
) -> Iterator[str]:
    """Yield the lines of the families of these names that have samples, of the nodes of these targets."""
    numbers = _merged(targets)
    places = [(place, label_pairs(zip(("node", "model"), place, strict=True))) for place in sorted(numbers)]
    for family in NODE_FAMILIES:
        if family.name in names:
            samples = _gauge_samples(family, numbers) if family.type == "gauge" else _totals(family, counters, memory)
            head = header(family.name, family.type, family.help, openmetrics)
            for place, pairs in places:
                for state, number in samples(place):
                    yield f"{head}{family.name}{{{pairs}{_own(family, state)}}} {number!r}\n"
                    head = ""


def _own(family: NodeFamily, state: str) -> str:
    return f',{family.label}="{state}"' if family.label else ""


def _merged(targets: Sequence[Mapping[NodeModel, Numbers]]) -> Mapping[NodeModel, Numbers]:
    """Return the numbers of all targets, of which several may have GPUs of one node."""
    merged: dict[NodeModel, Numbers] = {}
    for target in targets:
        for place, numbers in target.items():
            merged[place] = _both(known, numbers) if (known := merged.get(place)) else numbers
    return merged


def _both(one: Numbers, other: Numbers) -> Numbers:
    found: dict[str, dict[str, list[float]]] = {}
    for numbers in (one, other):
        for name, by_state in numbers.items():
            for state, values in by_state.items():
                found.setdefault(name, {}).setdefault(state, []).extend(values)
    return found


_Samples = Callable[[NodeModel], Iterable[tuple[str, float]]]


def _gauge_samples(family: NodeFamily, numbers: Mapping[NodeModel, Numbers]) -> _Samples:
    (gauge,) = (gauge for gauge in _GAUGES if gauge.family is family)

    def samples(place: NodeModel) -> Iterator[tuple[str, float]]:
        boards = len(numbers[place].get(_BOARDS, {}).get("", ()))
        for state, values in numbers[place].get(family.name, {}).items():
            if not gauge.of_all or len(values) == boards:
                yield state, gauge.joined(values)

    return samples


def _totals(family: NodeFamily, counters: NodeCounters, memory: SeriesMemory) -> _Samples:
    columns = [(index, column) for index, column in enumerate(_COLUMNS) if column.family == family]

    def energy(place: NodeModel) -> Iterator[tuple[str, float]]:
        known = [value for index in _OF_ENERGY if (value := counters.totals[place][index]) is not None]
        if known:
            yield "", sum(known)

    def samples(place: NodeModel) -> Iterator[tuple[str, float]]:
        totals = counters.totals[place]
        for index, column in columns:
            value = totals[index]
            if value is not None and column.is_sparse:
                value, _ = memory.counter((*place, ""), f"{family.name} {column.state}", value, "counted")
            if value is not None:
                yield column.state, value

    return energy if family is _ENERGY else samples
