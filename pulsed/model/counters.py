"""The table of counters over the observed time of a GPU, and a snapshot of their values.

Everything that shows a counter is derived from `COUNTERS`. This module must not depend on how they are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pulsed.model.clocks import Unix
from pulsed.model.vocabulary import QUANTITIES, WORKLOAD_CLASSES, Value

IDLE_KINDS = ("free", "held", "unknown")
"""Kinds of idle time: the GPU is not in use, it is, or its memory is not known."""


class TimeIntegral(NamedTuple):
    """A quantity that is summed up over time.

    Attributes:
        counter: name of its counter.
        quantity: its canonical name; None for the real utilization, which is not a reading.
        word: prefix of the counter of the time without it.
        meaning: one line, without a full stop.
    """

    counter: str
    quantity: str | None
    word: str
    meaning: str


INTEGRALS: tuple[TimeIntegral, ...] = (
    TimeIntegral(
        "real_utilization_seconds",
        None,
        "real_utilization",
        "Integral of the real utilization: seconds of full use",
    ),
    TimeIntegral(
        "sm_active_seconds",
        "sm_active_ratio",
        "sm_active",
        "Integral of SM activity: seconds in which all SMs were active",
    ),
    TimeIntegral(
        "tensor_active_seconds",
        "tensor_active_ratio",
        "tensor_active",
        "Integral of tensor activity: seconds in which all tensor pipes were busy",
    ),
    TimeIntegral(
        "dram_active_seconds",
        "dram_active_ratio",
        "dram_active",
        "Integral of DRAM activity: seconds in which device memory was busy in every cycle",
    ),
    *(
        TimeIntegral(
            f"observed_{link}_{way}_bytes",
            f"{link}_{way}_bytes_per_second",
            f"{link}_{way}",
            f"Data {done} over {name}, integrated from the rate"
            + (f"; {total} is the GPU's own counter" if (total := f"{link}_{way}_bytes_total") in QUANTITIES else ""),
        )
        for link, name in (("pcie", "PCIe"), ("nvlink", "NVLink"), ("c2c", "the chip-to-chip link"))
        for way, done in (("transmit", "sent"), ("receive", "received"))
    ),
)


class Counter(NamedTuple):
    """A counter, or one per state of something.

    Attributes:
        name: without `_total`; the unit is its last word.
        meaning: one line, without a full stop.
        label: what the states are of; empty for a counter that stands alone.
        states: one counter for each.
    """

    name: str
    meaning: str
    label: str = ""
    states: tuple[str, ...] = ("",)


COUNTERS: tuple[Counter, ...] = (
    Counter(
        "observed_seconds",
        "Time covered by samples; gaps above three intervals do not count",
    ),
    Counter(
        "workload_class_seconds",
        "Observed time by workload class",
        "class",
        WORKLOAD_CLASSES,
    ),
    Counter(
        "class_energy_joules",
        "Energy used in observed time, by class; from the GPU's energy counter, or without it from power",
        "class",
        WORKLOAD_CLASSES,
    ),
    Counter("energy_unknown_seconds", "Observed time with neither energy nor power"),
    Counter(
        "idle_seconds",
        "Observed idle time: held while an owner has the GPU or its memory is in use, otherwise free; unknown"
        " while neither owners nor memory are known",
        "kind",
        IDLE_KINDS,
    ),
    Counter("idle_energy_joules", "Energy used in observed idle time", "kind", IDLE_KINDS),
    *(Counter(each.counter, each.meaning) for each in INTEGRALS),
    *(
        Counter(f"{each.word}_unknown_seconds", f"Observed time without a value for {each.counter}")
        for each in INTEGRALS
    ),
)
"""All counters, in the order of `CounterSnapshot.values`."""


def _positions() -> Mapping[tuple[str, str], int]:
    keys = [(counter.name, state) for counter in COUNTERS for state in counter.states]
    return {key: position for position, key in enumerate(keys)}


COUNTER_POSITION: Mapping[tuple[str, str], int] = _positions()
"""Index in `CounterSnapshot.values` by counter and state."""


class Distribution(NamedTuple):
    """Distribution of the real utilization of samples.

    Attributes:
        bounds: upper bounds of the buckets, ascending, themselves included; one more bucket has no bound.
        counts: samples per bucket.
        sum: of the ratios of all samples.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float


class CounterSnapshot(NamedTuple):
    """The counters of one GPU at a moment.

    Attributes:
        values: one per counter and state (see `COUNTERS`). None where the counted quantity was never present; all
            other counters exist from the first sample on, at 0. They never decrease.
        created: Unix time of the first sample; None before it.
        distribution: of the real utilization; None if that was never known, or is not to be counted.
    """

    values: tuple[Value, ...]
    created: Unix | None = None
    distribution: Distribution | None = None

    def value(self, name: str, state: str = "") -> Value:
        """Return the value of one counter, or of one of its states."""
        return self.values[COUNTER_POSITION[name, state]]


NOTHING_COUNTED = CounterSnapshot((None,) * len(COUNTER_POSITION))
"""Before the first sample."""
