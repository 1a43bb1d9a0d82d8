"""The counters of a GPU above all targets that show it: one accumulator, which only grows, whichever of them delivers.

The samples of one target are counted, those of the others wait until it is late. Which target that is, and what time a
sample covers then, follows from the clock of the ticks, which all of them share.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from math import inf
from typing import NamedTuple
from weakref import ReferenceType, WeakValueDictionary

from pulsed.compute.accumulator import Accumulator
from pulsed.compute.event_totals import EventTotals
from pulsed.compute.sample import GAP_INTERVALS, ROUNDING, SampleKind
from pulsed.model.computed_tick import Workload
from pulsed.model.gpu import Device
from pulsed.model.vocabulary import Reading, Value

LATE_INTERVALS = 2.0
"""A target whose samples are counted is late after so many of its intervals."""

MAX_WAITING = 64
"""Samples of a target that wait; the oldest are dropped."""

KEPT = 16384
"""GPUs whose counters are kept by default: an exporter that is replaced is another target."""


Source = ReferenceType[object]
"""Identifies a target's view of a GPU for as long as it has one; the same object each time."""


class CountedSample(NamedTuple):
    """A sample of a GPU, and its class.

    Attributes:
        kind: of the decision about it in its own target; never `repeat`.
        covered: seconds that it covers there.
        now: its moment, in seconds of the clock of the ticks.
        interval: nominal seconds between two samples of the target.
        refresh: seconds between two different samples of the source; None if unknown.
    """

    kind: SampleKind
    covered: float
    now: float
    interval: float
    device: Device
    reading: Reading
    ratio: Value
    workload: Workload
    refresh: Value


class GpuCounters:
    """The counters of one GPU.

    Attributes:
        accumulator: counts the samples.
        events: totals of its health events.
    """

    def __init__(self, accumulator: Accumulator) -> None:
        self.accumulator = accumulator
        self.events = EventTotals()
        self._leader: Source | None = None
        self._sources: dict[Source, list[CountedSample]] = {}
        """The samples that wait of all sources, in the order in which these came."""
        self._now = self._late = -inf

    def take(self, source: Source, sample: CountedSample) -> bool:
        """Take a sample; return whether the samples of its source are counted.

        Those of the first source that is not late are counted.
        """
        if source is self._leader:
            self._count(sample, sample.covered)
        else:
            if source not in self._sources:
                self._sources = {one: waiting for one, waiting in self._sources.items() if one() is not None}
                self._sources[source] = []
            waiting = self._sources[source]
            waiting.append(sample)
            if not self._yields(source, sample.now):
                del waiting[:-MAX_WAITING]
                return False
            is_another_clock = self._leader is not None and self._leader() is None and sample.now <= self._now
            self._now = -inf if is_another_clock else self._now
            self._leader = source
            for each in waiting:
                self._follow(each)
            waiting.clear()
        self._late = sample.now + LATE_INTERVALS * sample.interval + ROUNDING
        if len(self._sources) > 1:
            for others in self._sources.values():
                others.clear()
        return True

    def _yields(self, source: Source, now: float) -> bool:
        """Return whether the source whose samples are counted gives way to another one."""
        leader = self._leader
        if leader is None or leader() is None or now > self._late:
            return True
        sources = list(self._sources)
        return sources.index(source) < sources.index(leader)

    def _follow(self, sample: CountedSample) -> None:
        """Count what a sample covers since the newest one that was counted, whichever source had that."""
        elapsed = sample.now - self._now
        if elapsed == inf:
            self._count(sample, sample.covered)
        elif elapsed > 0.0:
            is_next = sample.kind != "restart" and elapsed <= GAP_INTERVALS * sample.interval + ROUNDING
            self._count(sample, elapsed if is_next else 0.0)

    def _count(self, sample: CountedSample, covered: float) -> None:
        self._now = sample.now
        counted = sample.device, sample.reading, sample.ratio, sample.workload
        if covered > 0.0:
            self.accumulator.add(covered, *counted, sample.refresh)
        else:
            self.accumulator.start(*counted)


class CounterRegistry:
    """The counters of all GPUs of a process, by keys that all targets share.

    Args:
        kept: GPUs whose counters outlive the targets that showed them.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._most = kept
        self._all: WeakValueDictionary[str, GpuCounters] = WeakValueDictionary()
        self._kept: OrderedDict[str, GpuCounters] = OrderedDict()

    def of(self, key: str, make: Callable[[], Accumulator]) -> GpuCounters:
        """Return the counters of a GPU, new ones if it has none."""
        found = self._all.get(key)
        if found is None:
            found = self._all[key] = GpuCounters(make())
        self._kept[key] = found
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return found

    def drop(self, key: str) -> None:
        """Forget a GPU with its parts: if it returns, it is another one."""
        for known in [known for known in self._all if known == key or known.startswith(f"{key}|")]:
            self._all.pop(known, None)
            self._kept.pop(known, None)
