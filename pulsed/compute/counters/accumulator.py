"""Counts over time what one GPU does, so that any scrape interval gives exact averages.

A sample covers the time since the one before, and its own values count for all of it: DCGM's profiling values are
averages over the interval that just ended. That goes for the class, too: time and energy are split by the class of each
sample, not by the held one, which is decided late. This module must not know which time is covered.

Plain floats are exact enough: n additions are off by n * 2**-53 at most, which is 1e-10 for a day at 10 Hz.
"""

from __future__ import annotations

from bisect import bisect_left
from math import inf
from operator import itemgetter

from pulsed.compute.counters.catalog import IDLE_KINDS, INTEGRALS, CounterSnapshot, Distribution
from pulsed.compute.workload.class_table import WORKLOAD_CLASSES
from pulsed.translate.tick import Device
from pulsed.translate.vocabulary import POSITION, Reading, Value

MAX_WATTS = 10_000.0
"""No GPU draws as much: a GB300 is at 1,400 W. An energy counter that gains more has jumped."""

_CLASS_AT = {name: position for position, name in enumerate(WORKLOAD_CLASSES)}
_IDLE = _CLASS_AT["idle"]
_FREE, _HELD, _UNKNOWN = range(len(IDLE_KINDS))
_NO_CLASS_ENERGY: tuple[Value, ...] = (None,) * len(WORKLOAD_CLASSES)
_NO_IDLE_ENERGY: tuple[Value, ...] = (None,) * len(IDLE_KINDS)

_quantities = itemgetter(*(POSITION[each.quantity] for each in INTEGRALS if each.quantity is not None))


class Accumulator:
    """The counters of one GPU.

    Args:
        created: Unix time of the first sample.
        bounds: of the buckets of the distribution of real utilization, ascending; empty: it is not counted.
        held_bytes: an idle GPU with at least so much memory in use is held by somebody.
    """

    __slots__ = (
        "_bounds",
        "_buckets",
        "_created",
        "_energy",
        "_energy_age",
        "_energy_unknown",
        "_held_bytes",
        "_idle_joules",
        "_idle_seconds",
        "_integrals",
        "_joules",
        "_missing",
        "_observed",
        "_ratios",
        "_seconds",
    )

    def __init__(self, created: float, bounds: tuple[float, ...], held_bytes: float) -> None:
        self._created, self._bounds, self._held_bytes = created, bounds, held_bytes
        self._observed = 0.0
        self._seconds = [0.0] * len(WORKLOAD_CLASSES)
        self._joules = [0.0] * len(WORKLOAD_CLASSES)
        self._idle_seconds = [0.0] * len(IDLE_KINDS)
        self._idle_joules = [0.0] * len(IDLE_KINDS)
        self._integrals: list[Value] = [None] * len(INTEGRALS)
        self._missing: list[Value] = [None] * len(INTEGRALS)
        self._energy_unknown: Value = None  # as long as no energy was ever known
        self._energy: Value = None
        self._energy_age = 0.0
        self._buckets = [0] * (len(bounds) + 1)
        self._ratios = 0.0

    def reconfigure(self, bounds: tuple[float, ...], held_bytes: float) -> None:
        """Count as the arguments of a new ledger say from now on; a distribution over other buckets begins anew."""
        self._held_bytes = held_bytes
        if bounds != self._bounds:
            self._bounds, self._buckets, self._ratios = bounds, [0] * (len(bounds) + 1), 0.0

    def begin(self, device: Device, reading: Reading, ratio: Value, workload_class: str) -> None:
        """Take a sample that covers nothing: the first one, or the first after a gap."""
        self._energy = None
        self._energy_age = 0.0
        self._count(0.0, device, reading, ratio, workload_class)

    def cover(self, seconds: float, device: Device, reading: Reading, ratio: Value, workload_class: str) -> None:
        """Count a sample.

        Args:
            seconds: what it covers, above 0.
            device: whose it is.
            reading: what was read.
            ratio: its real utilization.
            workload_class: its own class.
        """
        self._count(seconds, device, reading, ratio, workload_class)
        if self._bounds and ratio is not None:
            self._buckets[bisect_left(self._bounds, ratio)] += 1
            self._ratios += ratio

    def account(self) -> CounterSnapshot:
        """Give the counters as they are now."""
        known = self._energy_unknown is not None
        return CounterSnapshot(
            (
                self._observed,
                *self._seconds,
                *(self._joules if known else _NO_CLASS_ENERGY),
                self._energy_unknown,
                *self._idle_seconds,
                *(self._idle_joules if known else _NO_IDLE_ENERGY),
                *self._integrals,
                *self._missing,
            ),
            self._created,
            Distribution(self._bounds, tuple(self._buckets), self._ratios)
            if self._bounds and self._integrals[0] is not None
            else None,
        )

    def _count(self, seconds: float, device: Device, reading: Reading, ratio: Value, workload_class: str) -> None:
        before = self._observed
        position = _CLASS_AT[workload_class]
        self._seconds[position] += seconds
        self._observed = sum(self._seconds)  # always the sum of its parts, to the last bit
        joules = self._gained(seconds, reading)
        if joules is not None:
            if self._energy_unknown is None:
                self._energy_unknown = before
            self._joules[position] += joules
        elif self._energy_unknown is not None:
            self._energy_unknown += seconds
        if position == _IDLE:
            kind = self._idle_kind(device, reading)
            self._idle_seconds[kind] += seconds
            self._idle_joules[kind] += joules or 0.0
        self._integrate(seconds, before, (ratio, *_quantities(reading)))

    def _integrate(self, seconds: float, before: float, rates: tuple[Value, ...]) -> None:
        integrals, missing = self._integrals, self._missing
        for at, rate in enumerate(rates):
            total = integrals[at]
            if rate is not None and 0.0 <= rate < inf:
                if total is None:
                    integrals[at], missing[at] = rate * seconds, before
                else:
                    integrals[at] = total + rate * seconds
            elif (so_far := missing[at]) is not None:
                missing[at] = so_far + seconds

    def _gained(self, seconds: float, reading: Reading) -> Value:
        """The energy that a sample tells of; None if it tells nothing.

        The GPU's counter falls when the driver is loaded anew, and broken ones jump: there, and where it is missing,
        it is power times time. One that stands still is not wrong: an exporter's page may repeat an old value, and the
        next one then stands for more time.
        """
        before, now = self._energy, reading.energy_joules_total
        self._energy = now
        age = self._energy_age + seconds
        if before is not None and now == before:
            self._energy_age = age
            return 0.0
        self._energy_age = 0.0
        if before is not None and now is not None and 0.0 < now - before <= MAX_WATTS * age:
            return now - before
        power = reading.power_watts
        if power is not None and 0.0 <= power <= MAX_WATTS:
            return power * seconds
        return None if seconds or now is None else 0.0

    def _idle_kind(self, device: Device, reading: Reading) -> int:
        used, users = reading.memory_used_bytes, device.attribution
        if users.pods or users.slurm_jobs or (used is not None and used >= self._held_bytes):
            return _HELD
        return _UNKNOWN if used is None else _FREE
