"""Counters of one GPU over its observed time, so that any scrape interval gives exact averages.

A sample covers the time since the one before, and its own values count for all of it: DCGM's profiling values are
averages over the interval that just ended. So does the class: time and energy are split by the class of each
sample, not by the held one, which is decided late. This module must not depend on how time is covered.

Plain floats are exact enough: n additions are off by n * 2**-53 at most, which is 1e-10 for a day at 10 Hz.
"""

from __future__ import annotations

from bisect import bisect_left
from math import inf
from operator import itemgetter
from typing import NamedTuple

from pulsed.compute.plausibility_rules import MAX_WATTS
from pulsed.compute.settings import ComputeSettings
from pulsed.model.clocks import Unix
from pulsed.model.counters import IDLE_KINDS, INTEGRALS, CounterSnapshot, Distribution
from pulsed.model.owner import Owners
from pulsed.model.result import Workload
from pulsed.model.vocabulary import POSITION, WORKLOAD_CLASSES, Reading, Value

MAX_REFRESHES = 2.0
"""Refresh periods of the source for which an energy counter may stand still."""

MAX_STANDING_SECONDS = 60.0
"""The same in seconds, for unknown periods as well: twice dcgm-exporter's default interval."""

MIN_STANDING_SECONDS = 1.0
"""DCGM may read energy less often than activity at 10 Hz."""

_CLASS_AT = {name: position for position, name in enumerate(WORKLOAD_CLASSES)}
_FREE, _HELD, _UNKNOWN = range(len(IDLE_KINDS))
_NO_CLASS_ENERGY: tuple[Value, ...] = (None,) * len(WORKLOAD_CLASSES)
_NO_IDLE_ENERGY: tuple[Value, ...] = (None,) * len(IDLE_KINDS)

_quantities = itemgetter(*(POSITION[each.quantity] for each in INTEGRALS if each.quantity is not None))


class Accumulator:
    """The counters of one GPU.

    Args:
        created: Unix time of the first sample.

    Attributes:
        idle_kind: what the newest sample counts as if the GPU is not used; None before any.
    """

    def __init__(self, created: Unix) -> None:
        self._created = created
        self.idle_kind: str | None = None
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
        self._pending: list[tuple[_Share, Value]] = []
        self._is_stuck = False
        self._bounds: tuple[float, ...] = ()
        self._buckets = [0]
        self._ratios = 0.0

    def start(
        self, settings: ComputeSettings, owners: Owners | None, reading: Reading, ratio: Value, workload: Workload
    ) -> None:
        """Take a sample that covers nothing: the first one, or the first after a gap."""
        self._settle()
        self._energy = None
        self._energy_age = 0.0
        self._is_stuck = False
        self.add(settings, 0.0, owners, reading, ratio, workload)

    def add(
        self,
        settings: ComputeSettings,
        seconds: float,
        owners: Owners | None,
        reading: Reading,
        ratio: Value,
        workload: Workload,
        refresh: Value = None,
    ) -> None:
        """Count a sample that covers some seconds.

        Args:
            settings: of this sample. Other buckets than before start a new distribution of real utilization.
            refresh: seconds between two different samples of the source; None if unknown.
        """
        before = self._observed
        position = _CLASS_AT[workload.raw_class]
        self._seconds[position] += seconds
        self._observed = sum(self._seconds)  # always the sum of its parts, to the last bit
        idle_kind = _idle_kind(owners, reading, settings.idle.held_memory)
        self.idle_kind = IDLE_KINDS[idle_kind]
        kind = idle_kind if workload.used is False else None
        if kind is not None:
            self._idle_seconds[kind] += seconds
        self._count_energy(_Share(position, kind, seconds, before), reading, refresh)
        self._integrate(seconds, before, (ratio, *_quantities(reading)))
        if (bounds := settings.real_utilization.histogram) != self._bounds:
            self._bounds, self._buckets, self._ratios = bounds, [0] * (len(bounds) + 1), 0.0
        if seconds > 0.0 and self._bounds and ratio is not None:
            self._buckets[bisect_left(self._bounds, ratio)] += 1
            self._ratios += ratio

    def snapshot(self) -> CounterSnapshot:
        """Return the counters as of the last sample."""
        has_energy = self._energy_unknown is not None
        return CounterSnapshot(
            (
                self._observed,
                *self._seconds,
                *(self._joules if has_energy else _NO_CLASS_ENERGY),
                self._energy_unknown,
                *self._idle_seconds,
                *(self._idle_joules if has_energy else _NO_IDLE_ENERGY),
                *self._integrals,
                *self._missing,
            ),
            self._created,
            Distribution(self._bounds, tuple(self._buckets), self._ratios)
            if self._bounds and self._integrals[0] is not None
            else None,
        )

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

    def _count_energy(self, share: _Share, reading: Reading, refresh: Value) -> None:
        """Count the energy of a sample: the increase of the GPU's counter, or without it power times time.

        A counter that stands still may be a page that repeats: its gain belongs to all of that time. It may also be
        stuck: from the limit on, power counts for all of that time, and a gain that comes later does not. Counters that
        fall (the driver was loaded again) or jump are not used for that sample.
        """
        before, now, power = self._energy, reading.energy_joules_total, reading.power_watts
        by_power = power * share.seconds if power is not None and 0.0 <= power <= MAX_WATTS else None
        self._energy = now
        self._energy_age += share.seconds
        if before is not None and now == before:
            self._pending.append((share, by_power))
            limit = MAX_REFRESHES * refresh if refresh is not None else inf
            if self._is_stuck or self._energy_age > min(max(limit, MIN_STANDING_SECONDS), MAX_STANDING_SECONDS):
                self._is_stuck = True
                self._settle()
            return
        age, is_stuck = self._energy_age, self._is_stuck
        self._energy_age, self._is_stuck = 0.0, False
        if before is not None and now is not None and not is_stuck and 0.0 < now - before <= MAX_WATTS * age:
            self._pending.clear()
            self._add(share, now - before)
            return
        self._settle()
        self._add(share, 0.0 if by_power is None and now is not None and not share.seconds else by_power)

    def _settle(self) -> None:
        """Count the time in which the energy counter stood still by power."""
        for share, joules in self._pending:
            self._add(share, joules)
        self._pending.clear()

    def _add(self, share: _Share, joules: Value) -> None:
        if joules is not None:
            if self._energy_unknown is None:
                self._energy_unknown = share.before
            self._joules[share.position] += joules
            if share.kind is not None:
                self._idle_joules[share.kind] += joules
        elif self._energy_unknown is not None:
            self._energy_unknown += share.seconds


def _idle_kind(owners: Owners | None, reading: Reading, held_bytes: float) -> int:
    if owners:
        return _HELD
    used = reading.memory_used_bytes
    if used is None:
        return _UNKNOWN if owners is None else _FREE
    return _HELD if used >= held_bytes else _FREE


class _Share(NamedTuple):
    """A covered sample: its class, its kind of idle time, its duration, and the observed time before it."""

    position: int
    kind: int | None
    seconds: float
    before: float
