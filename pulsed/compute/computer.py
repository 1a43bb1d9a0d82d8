"""Compute for one source: what of a tick can be believed, what follows from it alone, and from those before it.

Knows which time a sample covers, and remembers every GPU. Time is what the ticks' clock says, which never steps; the
wall clock only dates things.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from pulsed.compute.accounting import Ledger
from pulsed.compute.compute import Settings, compute
from pulsed.compute.hold import ClassHold
from pulsed.compute.sceptic import Sceptic
from pulsed.compute.tick import ClassChange, ComputedTick, Result
from pulsed.translate.tick import CanonicalTick, Device, Entity

GAP_INTERVALS = 3.0
"""A sample that comes more than so many intervals after the one before covers nothing."""

ROUNDING = 1e-6
"""How much more it may be, in intervals: clocks are floats."""

KEPT = 256
"""So many GPUs that are gone are remembered beside those that are there: their counters go on when they come back."""


class Computer:
    """Compute with a memory.

    A sample of a GPU covers the time since the last one of the same GPU. It covers nothing if it is the first, if there
    was a gap, or if the clock began anew, as with another source behind the same name. One that is no newer than the
    last, or comes out of order, is not counted at all.

    Args:
        settings: how to compute.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._followed: dict[Entity, _Followed] = {}
        self._devices: tuple[Device, ...] = ()
        self._here: list[_Followed] = []

    def reconfigure(self, settings: Settings) -> None:
        """Compute so from now on; what was counted stays."""
        self._settings = settings
        for followed in self._followed.values():
            followed.hold.reconfigure(settings.hold)
            followed.ledger.reconfigure(settings.histogram, settings.held_memory_bytes)
            followed.sceptic = Sceptic(settings.plausible)

    def compute(self, tick: CanonicalTick) -> ComputedTick:
        """Work out what follows from a tick; they come in the order of their clock."""
        if tick.devices is not self._devices:
            self._meet(tick)
        limit = (GAP_INTERVALS + ROUNDING) * tick.interval
        tick = self._believed(tick, limit)
        computed = compute(tick, self._settings)
        results: list[Result] = []
        changes: list[ClassChange] = []
        for followed, device, reading, result in zip(
            self._here, tick.devices, tick.readings, computed.results, strict=True
        ):
            before = followed.hold.held
            utilization, workload = result.real_utilization, result.workload
            seconds = tick.clock - followed.clock
            hold, ledger = followed.hold, followed.ledger
            if 0.0 < seconds <= limit:
                ledger.cover(seconds, device, reading, utilization.ratio, workload.raw_class)
                hold.follow(workload, seconds, tick.time)
                followed.clock = tick.clock
            elif seconds > limit or seconds < -limit:
                ledger.begin(device, reading, utilization.ratio, workload.raw_class)
                if 0.0 < seconds <= self._settings.hold:
                    hold.follow(workload, 0.0, tick.time)  # too short to forget the class, and no proof of another
                else:
                    hold.settle(workload, tick.time)
                followed.clock = tick.clock
            held = hold.held
            if held.changes != before.changes:
                changes.append(ClassChange(len(results), before.workload_class, held.workload_class, held.since or 0.0))
            results.append(Result(utilization, workload, result.saturation, held, ledger.account()))
        return ComputedTick(tick, tuple(results), tuple(changes))

    def _believed(self, tick: CanonicalTick, limit: float) -> CanonicalTick:
        """Take out the inputs that cannot be believed; the same tick if there are none."""
        limit = max(limit, self._settings.hold)  # a hiccup must not make a stuck profiler look sane
        readings = list(tick.readings)
        doubts: dict[int, tuple[str, ...]] = {}
        for position, (followed, reading) in enumerate(zip(self._here, tick.readings, strict=True)):
            seconds = tick.clock - followed.clock
            readings[position], reasons = followed.sceptic.look(reading, seconds if seconds <= limit else 0.0)
            if reasons:
                doubts[position] = (*tick.anomalies.get(position, ()), *reasons)
        if not doubts:
            return tick
        return replace(tick, readings=tuple(readings), anomalies={**tick.anomalies, **doubts})

    def _meet(self, tick: CanonicalTick) -> None:
        """Find what is known of the devices of a tick, and forget those that are gone the longest if they are many."""
        settings, followed = self._settings, self._followed
        self._devices = tick.devices
        self._here = []
        for device in tick.devices:
            known = followed.pop(device.entity, None)
            if known is None:
                ledger = Ledger(tick.time, settings.histogram, settings.held_memory_bytes)
                known = _Followed(ClassHold(settings.hold), ledger, Sceptic(settings.plausible))
            followed[device.entity] = known  # at the end: the first are those that were not seen for the longest
            self._here.append(known)
        while len(followed) > len(tick.devices) + KEPT:
            del followed[next(iter(followed))]


class _Followed:
    """What is remembered of one GPU; `clock` is that of its last sample that counted."""

    __slots__ = ("clock", "hold", "ledger", "sceptic")

    def __init__(self, hold: ClassHold, ledger: Ledger, sceptic: Sceptic) -> None:
        self.clock = -inf
        self.hold = hold
        self.ledger = ledger
        self.sceptic = sceptic
