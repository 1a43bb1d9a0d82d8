"""Compute for one source: what of a tick can be believed, what follows from it alone, and from those before it.

Knows which time a sample covers, and remembers every GPU. Time is what the ticks' clock says, which never steps; the
wall clock only dates things.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from pulsed.compute.counters.accumulator import Accumulator
from pulsed.compute.counters.catalog import NOTHING_COUNTED
from pulsed.compute.debounce import ClassDebouncer
from pulsed.compute.derive import ComputeSettings, compute, result_of
from pulsed.compute.health.judge import HealthEvaluator
from pulsed.compute.health.model import LostGpu
from pulsed.compute.plausibility.filter import PlausibilityFilter
from pulsed.compute.tick import ClassChange, ComputedTick, Result
from pulsed.translate.tick import CanonicalTick, Device, Entity
from pulsed.translate.vocabulary import NOTHING

GAP_INTERVALS = 3.0
"""A sample that comes more than so many intervals after the one before covers nothing."""

ROUNDING = 1e-6
"""How much more it may be, in intervals: clocks are floats."""

KEPT = 256
"""So many GPUs that are gone are remembered beside those that are there: their counters go on when they come back."""


class ComputeLayer:
    """Compute with a memory.

    A sample of a GPU covers the time since the last one of the same GPU. It covers nothing if it is the first, if there
    was a gap, or if the clock began anew, as with another source behind the same name. One that is no newer than the
    last, or comes out of order, is not counted at all.

    Args:
        settings: how to compute.
        boot_id: of the node, where all GPUs are in it; opaque, and another one after each start of the node.

    Attributes:
        judge: of the health of all GPUs, whose latches outlive a restart.
    """

    def __init__(self, settings: ComputeSettings, boot_id: str = "") -> None:
        self._settings = settings
        self._boot_id = boot_id
        self.judge = HealthEvaluator(settings.health)
        self._shown: tuple[tuple[Device, ...], tuple[LostGpu, ...], tuple[Device, ...]] = ((), (), ())
        self._followed: dict[Entity, _Followed] = {}
        self._devices: tuple[Device, ...] = ()
        self._here: list[_Followed] = []

    def reconfigure(self, settings: ComputeSettings) -> None:
        """Compute so from now on; what was counted stays."""
        self._settings = settings
        self.judge.reconfigure(settings.health)
        for followed in self._followed.values():
            followed.hold.reconfigure(settings.hold)
            followed.ledger.reconfigure(settings.histogram, settings.held_memory_bytes)
            followed.sceptic = PlausibilityFilter(settings.plausible)

    def compute(self, tick: CanonicalTick) -> ComputedTick:
        """Work out what follows from a tick; they come in the order of their clock."""
        if tick.devices is not self._devices:
            self._meet(tick)
        limit = (GAP_INTERVALS + ROUNDING) * tick.interval
        tick = self._believed(tick, limit)
        computed = compute(tick, self._settings)
        health = self.judge.judge(tick, self._boot_id)
        results: list[Result] = []
        changes: list[ClassChange] = []
        for followed, device, reading, result, well, shares in zip(
            self._here,
            tick.devices,
            tick.readings,
            computed.results,
            health.healths,
            health.clock_event_shares,
            strict=True,
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
            results.append(Result(utilization, workload, result.saturation, held, ledger.account(), well, shares))
        here = len(results)
        if health.lost:
            tick = self._with_lost(tick, health.lost)
            results += [self._lost(gone) for gone in health.lost]
        return ComputedTick(
            tick,
            tuple(results),
            tuple(changes),
            lost={here + number: gone.last_seen for number, gone in enumerate(health.lost)},
            health_changes=health.changes,
            node_health=health.node,
        )

    def _with_lost(self, tick: CanonicalTick, lost: tuple[LostGpu, ...]) -> CanonicalTick:
        """Add the GPUs that are gone, with nothing read; the same tuple of devices as long as nothing changes."""
        devices, before, shown = self._shown
        if devices is not tick.devices or before is not lost:
            together = (*tick.devices, *(gone.device for gone in lost))
            if together != shown:
                shown = together
            self._shown = (tick.devices, lost, shown)
        return replace(tick, devices=shown, readings=(*tick.readings, *(NOTHING for _ in lost)))

    def _lost(self, gone: LostGpu) -> Result:
        """Say what is left to say of a GPU that is gone: its health, and what was counted."""
        nothing = result_of(gone.device, NOTHING, self._settings)
        known = self._followed.get(gone.device.entity)
        account = known.ledger.account() if known is not None else NOTHING_COUNTED
        return nothing._replace(account=account, health=gone.health)

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
                ledger = Accumulator(tick.time, settings.histogram, settings.held_memory_bytes)
                known = _Followed(ClassDebouncer(settings.hold), ledger, PlausibilityFilter(settings.plausible))
            followed[device.entity] = known  # at the end: the first are those that were not seen for the longest
            self._here.append(known)
        while len(followed) > len(tick.devices) + KEPT:
            del followed[next(iter(followed))]


class _Followed:
    """What is remembered of one GPU; `clock` is that of its last sample that counted."""

    __slots__ = ("clock", "hold", "ledger", "sceptic")

    def __init__(self, hold: ClassDebouncer, ledger: Accumulator, sceptic: PlausibilityFilter) -> None:
        self.clock = -inf
        self.hold = hold
        self.ledger = ledger
        self.sceptic = sceptic
