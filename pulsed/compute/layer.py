"""Compute for the ticks of one target: plausibility, derived values, counters, class and health of every GPU."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

from pulsed.compute.counters.accumulator import Accumulator
from pulsed.compute.counters.catalog import NOTHING_COUNTED
from pulsed.compute.debounce import ClassDebouncer
from pulsed.compute.derive import ComputeSettings, compute, result_of
from pulsed.compute.health.evaluator import HealthEvaluator
from pulsed.compute.health.model import LostGpu
from pulsed.compute.plausibility.filter import PlausibilityFilter
from pulsed.compute.tick import ClassChange, ComputedTick, Result
from pulsed.compute.tracker import GpuTrack, Roster, Tracker
from pulsed.translate.tick import CanonicalTick, Device
from pulsed.translate.vocabulary import NOTHING


class ComputeLayer:
    """Compute, with the state that it keeps of every GPU between ticks.

    Args:
        settings: of all stages.
        boot_id: of the node, if all GPUs are in it; opaque, and another one after each start of the node.

    Attributes:
        judge: evaluates the health of all GPUs; its latched states outlive a restart of the daemon.
    """

    def __init__(self, settings: ComputeSettings, boot_id: str = "") -> None:
        self._settings = settings
        self._boot_id = boot_id
        self._tracker = Tracker()
        self.judge = HealthEvaluator(settings.health, self._tracker)
        self._shown: tuple[tuple[Device, ...], tuple[LostGpu, ...], tuple[Device, ...]] = ((), (), ())
        self._stages: WeakKeyDictionary[GpuTrack, _Stages] = WeakKeyDictionary()
        self._roster: Roster | None = None
        self._here: list[_Stages] = []

    def reconfigure(self, settings: ComputeSettings) -> None:
        """Apply new settings from the next tick on; counters continue."""
        self._settings = settings
        self.judge.reconfigure(settings.health)
        for stages in self._stages.values():
            stages.hold.reconfigure(settings.hold)
            stages.ledger.reconfigure(settings.histogram, settings.held_memory_bytes)
            stages.sceptic = PlausibilityFilter(settings.plausible)

    def compute(self, tick: CanonicalTick) -> ComputedTick:
        """Compute the results of the next tick."""
        tracked = self._tracker.track(tick)
        if tracked.roster is not self._roster:
            self._enroll(tracked.roster)
        tick = self._filtered(tick, tracked.roster)
        computed = compute(tick, self._settings)
        health = self.judge.judge(tick, tracked, self._boot_id)
        results: list[Result] = []
        changes: list[ClassChange] = []
        for track, stages, device, reading, result, well, shares in zip(
            tracked.roster.tracks,
            self._here,
            tick.devices,
            tick.readings,
            computed.results,
            health.healths,
            health.clock_event_shares,
            strict=True,
        ):
            sample, hold, ledger = track.decision, stages.hold, stages.ledger
            before = hold.held
            utilization, workload = result.real_utilization, result.workload
            if sample.kind == "next":
                ledger.cover(sample.covered, device, reading, utilization.ratio, workload.raw_class)
                hold.follow(workload, sample.covered, tick.time)
            elif sample.kind != "repeat":
                ledger.begin(device, reading, utilization.ratio, workload.raw_class)
                if sample.continued(self._settings.hold):
                    hold.follow(workload, 0.0, tick.time)  # too short to forget the class, and no proof of another
                else:
                    hold.settle(workload, tick.time)
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
        """Return what remains of a GPU that is gone: its health and its counters."""
        nothing = result_of(gone.device, NOTHING, self._settings)
        stages = self._stages.get(gone.track)
        account = stages.ledger.account() if stages is not None else NOTHING_COUNTED
        return nothing._replace(account=account, health=gone.health)

    def _filtered(self, tick: CanonicalTick, roster: Roster) -> CanonicalTick:
        """Return the tick without implausible inputs; the same object if there are none."""
        hold = self._settings.hold  # a short gap must not make a stuck profiler look sane
        readings = list(tick.readings)
        found: dict[int, tuple[str, ...]] = {}
        for position, (track, stages, reading) in enumerate(zip(roster.tracks, self._here, tick.readings, strict=True)):
            readings[position], reasons = stages.sceptic.look(reading, track.decision.continued(hold))
            if reasons:
                found[position] = (*tick.anomalies.get(position, ()), *reasons)
        if not found:
            return tick
        return replace(tick, readings=tuple(readings), anomalies={**tick.anomalies, **found})

    def _enroll(self, roster: Roster) -> None:
        """Find the stages of the GPUs of a roster."""
        self._roster = roster
        self._here = []
        for track in roster.tracks:
            stages = self._stages.get(track)
            if stages is None:
                stages = self._stages[track] = _Stages(self._settings, track.time)
            self._here.append(stages)


class _Stages:
    """The stages of one GPU that keep state."""

    __slots__ = ("hold", "ledger", "sceptic")

    def __init__(self, settings: ComputeSettings, created: float) -> None:
        self.hold = ClassDebouncer(settings.hold)
        self.ledger = Accumulator(created, settings.histogram, settings.held_memory_bytes)
        self.sceptic = PlausibilityFilter(settings.plausible)
