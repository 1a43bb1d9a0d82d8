"""Arithmetic on the counters of a GPU: their increase over a time, sums, and shares.

A vector has a value per counter, in the order of `COUNTERS`; None where the counted quantity was never present.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from pulsed.model.counters import COUNTER_POSITION, COUNTERS, CounterSnapshot
from pulsed.model.vocabulary import Value

CounterVector = tuple[Value, ...]

EMPTY: CounterVector = (None,) * len(COUNTER_POSITION)

OBSERVED = COUNTER_POSITION["observed_seconds", ""]
_UNKNOWN = tuple(at for (name, _), at in COUNTER_POSITION.items() if name.endswith("_unknown_seconds"))
_NAMES = tuple(chain.from_iterable([(each.name, state) for state in each.states] for each in COUNTERS))


def increase(before: CounterSnapshot, now: CounterSnapshot) -> CounterVector:
    """Return by how much the counters of a GPU grew between two of its snapshots; nothing if they began again since.

    Time without a quantity counts from the first snapshot on, also as long as it was never present.
    """
    if before.created != now.created:
        return EMPTY
    differences = [
        None if new is None else new - (old or 0.0) for old, new in zip(before.values, now.values, strict=True)
    ]
    start, end = before.values[OBSERVED] or 0.0, now.values[OBSERVED] or 0.0
    for at in _UNKNOWN:
        old, new = before.values[at], now.values[at]
        differences[at] = (end if new is None else new) - (start if old is None else old)
    return tuple(differences)


def energy_of(counters: CounterVector, joules: float, seconds: float) -> CounterVector:
    """Return the counters of an energy that the GPU's own counters lack, divided in proportion to the time in each
    class and kind of idleness.

    Args:
        counters: of the time in which it was used.
        joules: the energy.
        seconds: the part of this time for which it is known.
    """
    vector: list[Value] = [None] * len(counters)
    whole = observed(counters)
    for times, energies in (("workload_class_seconds", "class_energy_joules"), ("idle_seconds", "idle_energy_joules")):
        for state in next(each.states for each in COUNTERS if each.name == energies):
            share = (value(counters, times, state) or 0.0) / whole if whole > 0.0 else 0.0
            vector[COUNTER_POSITION[energies, state]] = joules * share
    vector[COUNTER_POSITION["energy_unknown_seconds", ""]] = -seconds
    return tuple(vector)


def added(first: CounterVector, second: CounterVector) -> CounterVector:
    """Return the sum; a quantity that only one of them has is that one's."""
    if first is EMPTY or second is EMPTY:
        return second if first is EMPTY else first
    return tuple(
        [b if a is None else a if b is None else a + b for a, b in zip(first, second, strict=True)],
    )


def scaled(vector: CounterVector, factor: float) -> CounterVector:
    """Return a share of all counters."""
    return (
        vector
        if factor == 1.0 or vector is EMPTY
        else tuple([None if value is None else value * factor for value in vector])
    )


def observed(vector: CounterVector) -> float:
    """Return the seconds that samples covered."""
    return vector[OBSERVED] or 0.0


def value(vector: CounterVector, name: str, state: str = "") -> Value:
    """Return one counter, or one of its states."""
    return vector[COUNTER_POSITION[name, state]]


def total(vector: CounterVector, name: str) -> Value:
    """Return the sum over the states of a counter; None if it is not known."""
    states = next(each.states for each in COUNTERS if each.name == name)
    numbers = [number for state in states if (number := value(vector, name, state)) is not None]
    return sum(numbers) if numbers else None


def by_name(vector: CounterVector) -> dict[str, Value | dict[str, float]]:
    """Return the counters by name; those with states are dictionaries of the states that are not 0."""
    numbers: dict[str, Value | dict[str, float]] = {}
    for each in COUNTERS:
        if each.label:
            states = {state: value(vector, each.name, state) for state in each.states}
            numbers[each.name] = {state: number for state, number in states.items() if number}
        else:
            numbers[each.name] = value(vector, each.name)
    return numbers


def dump(vector: CounterVector) -> dict[str, float]:
    """Return a vector for a file: counters that are not None, by name and state."""
    pairs = zip(_NAMES, vector, strict=True)
    return {f"{name}:{state}" if state else name: number for (name, state), number in pairs if number is not None}


def load(saved: Mapping[str, Value]) -> CounterVector:
    """Return a vector from a file; counters that the file lacks are None, and unknown ones are ignored."""
    if not saved:
        return EMPTY
    return tuple([saved.get(f"{name}:{state}" if state else name) for name, state in _NAMES])
