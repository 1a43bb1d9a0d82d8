"""Families by node and model: what a fleet's dashboards and rules read instead of the series of each GPU.

Boards count once; a board split by MIG is one GPU. Only the class and the state sets are those of instances, too,
because the board has none of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import fsum, isfinite
from typing import NamedTuple

from pulsed.compute.declaration import DerivedState
from pulsed.compute.derived_results import DERIVED_VALUES
from pulsed.model.computed_tick import GpuSample
from pulsed.model.health import SEVERITY
from pulsed.model.vocabulary import POSITION, QUANTITIES, Value
from pulsed.present.exposition.family_types import NODE_PREFIX, NodeFamily, NodeGpu, NodeModel, own_label
from pulsed.present.exposition.node_counters import COUNTER_COLUMNS, ENERGY, ENERGY_PLACES, NodeCounters
from pulsed.present.exposition.series_memory import SeriesMemory
from pulsed.present.exposition.text_format import header, label_pairs


class NodeNumbers(NamedTuple):
    """What the GPUs of a node and model add to the gauges.

    Attributes:
        columns: the numbers of the boards that have one, by gauge in the order of `_NUMBERS`.
        states: GPUs by state, by gauge in the order of `_STATES`.
    """

    columns: Sequence[Sequence[float]]
    states: Sequence[Mapping[str, int]]

    @property
    def boards(self) -> int:
        """How many boards there are: each has the first number."""
        return len(self.columns[0])


class _Number(NamedTuple):
    """A gauge of a number that each board has, and how numbers are joined.

    With `of_all` it has no sample while a board has no number: a sum would count it as 0.
    """

    family: NodeFamily
    joined: Callable[[Sequence[float]], float]
    get: Callable[[GpuSample], Value]
    of_all: bool = False


class _State(NamedTuple):
    """A gauge that counts GPUs by a state; MIG instances as well if `of_instances`."""

    family: NodeFamily
    state: Callable[[GpuSample], str]
    of_instances: bool


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def _number(
    name: str,
    help: str,
    joined: Callable[[Sequence[float]], float],
    get: Callable[[GpuSample], Value],
    *,
    of_all: bool = False,
) -> _Number:
    return _Number(NodeFamily(NODE_PREFIX + name, "gauge", help), joined, get, of_all)


def _derived(name: str) -> Callable[[GpuSample], str]:
    (value,) = (value for value in DERIVED_VALUES if isinstance(value, DerivedState) and value.name == name)
    return lambda sample: value.get(sample.reading, sample.result)


def _sum(name: str) -> _Number:
    help = f"Sum of all boards, while all have it: {QUANTITIES[name].meaning}"
    return _number(name, help, fsum, _reading(name), of_all=True)


def _mean_of_reading(name: str) -> _Number:
    return _number(name, f"Mean of the boards that have it: {QUANTITIES[name].meaning}", _mean, _reading(name))


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


_NUMBERS: tuple[_Number, ...] = (
    _number("gpus", "Boards with series", sum, lambda sample: 1),
    _number("last_sample_timestamp_seconds", "Time of the oldest sample of a board", min, lambda sample: sample.time),
    _number(
        "health_severity",
        "Worst health severity of a board",
        max,
        lambda sample: SEVERITY[sample.result.health.state],
    ),
    _number("health_coverage_ratio", "Mean health coverage", _mean, lambda sample: sample.result.health.coverage),
    _number("health_coverage_min_ratio", "Smallest health coverage", min, lambda sample: sample.result.health.coverage),
    _number(
        "real_utilization_coverage_ratio",
        "Mean share of the weights of real utilization whose input is known",
        _mean,
        lambda sample: sample.result.real_utilization.coverage,
    ),
    _number(
        "real_utilization_coverage_min_ratio",
        "Smallest share of the weights of real utilization whose input is known",
        min,
        lambda sample: sample.result.real_utilization.coverage,
    ),
    _sum("power_watts"),
    _number("power_limit_max_ratio", "Largest power of a board over its limit", max, _power_ratio),
    _sum("memory_used_bytes"),
    _sum("memory_bytes"),
    _mean_of_reading("gpu_utilization_ratio"),
    _number("temperature_max_celsius", "Temperature of the hottest board", max, _reading("temperature_celsius")),
    _number(
        "temperature_margin_min_celsius",
        "Fewest degrees of a board below its own limit, or below the temperature at which it slows its clocks",
        min,
        _margin,
    ),
)

_STATES: tuple[_State, ...] = (
    _State(
        NodeFamily(NODE_PREFIX + "health_gpus", "gauge", "Boards by health state", "state"),
        lambda sample: sample.result.health.state,
        of_instances=False,
    ),
    *(
        _State(
            NodeFamily(f"{NODE_PREFIX}{name}_gpus", "gauge", f"GPUs and MIG instances by {words}", label),
            _derived(name),
            of_instances=True,
        )
        for name, words, label in (
            ("bottleneck", "bottleneck", "bottleneck"),
            ("limiting_resource", "limiting resource", "resource"),
        )
    ),
)


def by_node(gpus: Iterable[NodeGpu]) -> Mapping[NodeModel, Sequence[NodeGpu]]:
    """Return the GPUs of each node and model."""
    places: dict[NodeModel, list[NodeGpu]] = {}
    for gpu in gpus:
        places.setdefault((gpu[0][0], gpu[1].device.model), []).append(gpu)
    return places


def node_numbers(gpus: Sequence[NodeGpu]) -> NodeNumbers:
    """Return the numbers of the gauges of the GPUs of a node and model."""
    samples = [sample for _, sample in gpus]
    boards = [sample for key, sample in gpus if not key[2]]
    return NodeNumbers(
        tuple(
            [
                tuple([value for value in map(gauge.get, boards) if value is not None and isfinite(value)])
                for gauge in _NUMBERS
            ]
        ),
        tuple([Counter(map(gauge.state, samples if gauge.of_instances else boards)) for gauge in _STATES]),
    )


def node_lines(
    names: frozenset[str],
    targets: Sequence[Mapping[NodeModel, NodeNumbers]],
    counters: NodeCounters,
    memory: SeriesMemory,
    openmetrics: bool,
) -> Iterator[str]:
    """Yield the lines of the families of these names that have samples, of the nodes of these targets."""
    numbers = _merged(targets)
    nodes = [
        (place, "{" + label_pairs(zip(("node", "model"), place, strict=True)), numbers[place])
        for place in sorted(numbers)
    ]
    for family, lines in _FAMILY_LINES.items():
        if family.name in names:
            found = lines(nodes, counters, memory)
            for first in found:
                yield header(family.name, family.type, family.help, openmetrics) + first
                yield from found


def _merged(targets: Sequence[Mapping[NodeModel, NodeNumbers]]) -> Mapping[NodeModel, NodeNumbers]:
    """Return the numbers of all targets, of which several may have GPUs of one node."""
    merged: dict[NodeModel, NodeNumbers] = {}
    for target in targets:
        for place, numbers in target.items():
            merged[place] = _both(known, numbers) if (known := merged.get(place)) else numbers
    return merged


def _both(one: NodeNumbers, other: NodeNumbers) -> NodeNumbers:
    return NodeNumbers(
        [(*column, *more) for column, more in zip(one.columns, other.columns, strict=True)],
        [Counter(states) + Counter(more) for states, more in zip(one.states, other.states, strict=True)],
    )


_Nodes = Sequence[tuple[NodeModel, str, NodeNumbers]]
"""Nodes and models, their labels as text, open at its end, and their numbers."""

_Lines = Callable[[_Nodes, NodeCounters, SeriesMemory], Iterator[str]]


def _number_lines(place: int, gauge: _Number) -> _Lines:
    def lines(nodes: _Nodes, counters: NodeCounters, memory: SeriesMemory) -> Iterator[str]:
        name, joined = gauge.family.name, gauge.joined
        for _, labels, numbers in nodes:
            column = numbers.columns[place]
            if column and (not gauge.of_all or len(column) == numbers.boards):
                yield f"{name}{labels}}} {joined(column)!r}\n"

    return lines


def _state_lines(place: int, gauge: _State) -> _Lines:
    def lines(nodes: _Nodes, counters: NodeCounters, memory: SeriesMemory) -> Iterator[str]:
        family = gauge.family
        for _, labels, numbers in nodes:
            for state, count in numbers.states[place].items():
                yield f"{family.name}{labels}{own_label(family, state)}}} {count!r}\n"

    return lines


def _counter_lines(family: NodeFamily) -> _Lines:
    columns = [(index, column) for index, column in enumerate(COUNTER_COLUMNS) if column.family == family]

    def lines(nodes: _Nodes, counters: NodeCounters, memory: SeriesMemory) -> Iterator[str]:
        name = family.name
        for node, labels, _ in nodes:
            totals, key = counters.totals[node], (*node, "")
            for index, column in columns:
                value = totals[index]
                if column.is_sparse and value is not None:
                    value, _ = memory.counter(key, name + column.label, value, "counted")
                if value is not None:
                    yield f"{name}{labels}{column.label}}} {value!r}\n"

    return lines


def _energy_lines(nodes: _Nodes, counters: NodeCounters, memory: SeriesMemory) -> Iterator[str]:
    for node, labels, _ in nodes:
        totals = counters.totals[node]
        known = [value for index in ENERGY_PLACES if (value := totals[index]) is not None]
        if known:
            yield f"{ENERGY.name}{labels}}} {sum(known)!r}\n"


_FAMILY_LINES: Mapping[NodeFamily, _Lines] = {
    **{gauge.family: _number_lines(place, gauge) for place, gauge in enumerate(_NUMBERS)},
    **{gauge.family: _state_lines(place, gauge) for place, gauge in enumerate(_STATES)},
    ENERGY: _energy_lines,
    **{column.family: _counter_lines(column.family) for column in COUNTER_COLUMNS},
}
"""In the order of the page."""

NODE_FAMILIES: Sequence[NodeFamily] = tuple(_FAMILY_LINES)
