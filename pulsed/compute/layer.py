"""Compute for the ticks of one target: plausibility, derived values, counters, class and health of every GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakKeyDictionary, ref

from pulsed.compute.accumulator import Accumulator
from pulsed.compute.bounds import media_of
from pulsed.compute.derived_results import Deriver
from pulsed.compute.gpu_counters import CountedSample, CounterRegistry, GpuCounters, Source
from pulsed.compute.gpu_tracks import GpuTrack
from pulsed.compute.health.evaluator import HealthEvaluator, LostGpu
from pulsed.compute.health.link_origins import LinkOrigins
from pulsed.compute.mig_rollup import MigRollup, narrowed
from pulsed.compute.plausibility_filter import PlausibilityFilter
from pulsed.compute.settings import ComputeSettings
from pulsed.compute.tracker import TickGpus, Tracker
from pulsed.compute.workload import ClassDebouncer
from pulsed.model.canonical_tick import CanonicalTick
from pulsed.model.computed_tick import (
    Bounds,
    ClassChange,
    ComputedTick,
    HeldWorkload,
    RealUtilization,
    Removal,
    Result,
    Saturation,
    Workload,
)
from pulsed.model.counters import NOTHING_COUNTED
from pulsed.model.gpu import Device
from pulsed.model.vocabulary import NOTHING, Reading, Value


class ComputeLayer:
    """Compute, with the state that it keeps of every GPU between ticks.

    Args:
        settings: of all stages.
        is_elsewhere: returns whether another target reported a UUID after a moment of the clock of the ticks.
        counters: of all GPUs, whichever target shows them.
        node: the host of GPUs whose source does not name one.
        origins: the faults of NVLinks of all targets.

    Attributes:
        health_evaluator: evaluates the health of all GPUs; its latched states outlive a restart of the daemon.
    """

    def __init__(
        self,
        settings: ComputeSettings,
        is_elsewhere: Callable[[str, float], bool] = lambda uuid, now: False,
        counters: CounterRegistry | None = None,
        node: str = "",
        origins: LinkOrigins | None = None,
    ) -> None:
        self._counters, self._node = counters or CounterRegistry(), node
        self._standby: frozenset[int] = frozenset()
        self._settings, self._deriver = settings, Deriver(settings)
        self._tracker = Tracker(settings.plausibility, settings.health.forget_after, is_elsewhere)
        self.health_evaluator = HealthEvaluator(settings.health, self._tracker, origins, node)
        self._shown: tuple[Device, ...] = ()
        self._stages: WeakKeyDictionary[GpuTrack, _Stages] = WeakKeyDictionary()
        self._last: ComputedTick | None = None
        self._gpus: TickGpus | None = None
        self._tick_stages: list[_Stages] = []
        self._boards: Mapping[int, _PartitionedBoard] = {}

    def reconfigure(self, settings: ComputeSettings) -> None:
        """Apply new settings from the next tick on; counters continue."""
        self._settings, self._deriver = settings, Deriver(settings)
        self._tracker.reconfigure(settings.plausibility, settings.health.forget_after)
        self.health_evaluator.reconfigure(settings.health)
        for stages in self._stages.values():
            stages.debouncer.reconfigure(settings.workload.hold)
            stages.counters.accumulator.reconfigure(settings.real_utilization.histogram, settings.idle.held_memory)
            stages.plausibility.reconfigure(settings.plausibility)

    def watch(self, is_watched: Callable[[Device], bool]) -> None:
        """Set which devices are read; others are not missing."""
        self._tracker.absence.watch(is_watched)

    @property
    def absent(self) -> Sequence[GpuTrack]:
        """The whole GPUs that can be forgotten: they are remembered, and are not in the newest tick."""
        return self._tracker.absence.boards

    def forget(self, track: GpuTrack) -> tuple[Removal, ComputedTick | None]:
        """Forget an absent GPU; return the removal, and the newest tick without the GPU."""
        removal, last = self._tracker.forget(track), self._last
        self._counters.drop(self._key(track))
        health = self.health_evaluator.forget(track)
        if last is None or health is None:
            return removal, last
        entity = track.device.entity
        kept = [at for at, device in enumerate(last.devices) if at not in last.lost or device.entity != entity]
        self._last = replace(
            last,
            devices=tuple([last.devices[at] for at in kept]),
            readings=tuple([last.readings[at] for at in kept]),
            results=tuple([last.results[at] for at in kept]),
            lost={new: last.lost[at] for new, at in enumerate(kept) if at in last.lost},
        )
        return removal, self._last

    def compute(self, tick: CanonicalTick) -> ComputedTick:
        """Compute the results of the next tick."""
        tracked = self._tracker.track(tick)
        if tracked.gpus is not self._gpus:
            self._enroll(tracked.gpus)
        for track, removal in tracked.removed.items():
            if removal.reason != "moved":
                self._counters.drop(self._key(track))
        settings, tracks = self._settings, tracked.gpus.tracks
        readings, anomalies = self._filter(tick, tracks)
        health = self.health_evaluator.evaluate(tick, readings, tracked)
        deriver, boards = self._deriver, self._boards
        bounds, rounding = list(map(deriver.bounds, readings)), tick.layout.rounding
        transcoding = {
            instance  # any of them: media engines are measured of the board alone
            for position, board in boards.items()
            if media_of(readings[position]) >= settings.workload.thresholds.idle_media_ratio
            for instance in board.instances
        }
        results: list[Result] = []
        changes: list[ClassChange] = []
        standby: list[int] = []
        for position, (track, stages, device, reading, gpu_health, shares) in enumerate(
            zip(
                tracks,
                self._tick_stages,
                tick.devices,
                readings,
                health.healths,
                health.clock_event_shares,
                strict=True,
            )
        ):
            own, narrow, unpartitioned = bounds[position], None, None
            if (board := boards.get(position)) is not None:
                unpartitioned = board.rollup.unpartitioned
                if settings.missing != "zero":
                    of_instances = board.rollup.bounds([bounds[instance] for instance in board.instances])
                    own = narrow = narrowed(own, of_instances)
            utilization, workload, saturation = stages.derive(deriver, device, reading, own, rounding)
            if position in transcoding and not workload.has_other_work:
                workload = replace(workload, has_other_work=None)
            before = stages.debouncer.held
            held = stages.take(
                tracked.now, tick.interval, track, reading, utilization.ratio, workload, settings.workload.hold
            )
            if not stages.is_counted:
                standby.append(position)
            if held.changes != before.changes:
                changes.append(ClassChange(position, before.workload_class, held.workload_class, held.since or 0.0))
            gpu_health = stages.counters.events.apply(
                stages.source, gpu_health, is_counted=stages.is_counted, is_new=track.inputs.state == "present"
            )
            counters = stages.counters.accumulator.snapshot()
            results.append(
                Result(
                    utilization,
                    workload,
                    saturation,
                    held,
                    counters,
                    gpu_health,
                    shares,
                    unpartitioned,
                    narrow,
                    stages.counters.accumulator.idle_kind,
                )
            )
        if standby or self._standby:
            self._standby = self._standby if self._standby == frozenset(standby) else frozenset(standby)
        lost = {len(results) + number: gone.last_seen for number, gone in enumerate(health.lost)}
        results += [self._lost(gone) for gone in health.lost]
        self._last = ComputedTick(
            tick.raw,
            devices=self._with_lost(tick.devices, health.lost) if lost else tick.devices,
            readings=(*readings, *([NOTHING] * len(lost))),
            results=tuple(results),
            now=tracked.now,
            standby=self._standby,
            anomalies=anomalies,
            passing=tick.passing,
            changes=tuple(changes),
            lost=lost,
            health_changes=health.changes,
            removed=tuple(tracked.removed.values()),
            xids=health.xids,
        )
        return self._last

    def _filter(
        self, tick: CanonicalTick, tracks: tuple[GpuTrack, ...]
    ) -> tuple[list[Reading], Mapping[int, tuple[str, ...]]]:
        """Return the readings of a tick without implausible inputs, and all anomalies by position."""
        hold = self._settings.workload.hold  # a short gap must not clear a proven reason
        readings: list[Reading] = []
        anomalies = tick.anomalies
        for position, (track, stages, reading) in enumerate(zip(tracks, self._tick_stages, tick.readings, strict=True)):
            filtered, reasons = stages.plausibility.apply(reading, track.decision.continued(hold), track.inputs.state)
            readings.append(filtered)
            if reasons:
                anomalies = {**anomalies, position: (*anomalies.get(position, ()), *reasons)}
        return readings, anomalies

    def _with_lost(self, devices: tuple[Device, ...], lost: tuple[LostGpu, ...]) -> tuple[Device, ...]:
        """Return the devices followed by the lost ones; the same tuple as long as nothing changes."""
        together = (*devices, *(gone.device for gone in lost))
        if together != self._shown:
            self._shown = together
        return self._shown

    def _lost(self, gone: LostGpu) -> Result:
        """Return what remains of a GPU that is gone: its health and its counters."""
        stages = self._stages.get(gone.track)
        counters = stages.counters.accumulator.snapshot() if stages is not None else NOTHING_COUNTED
        derived = self._deriver.derive(gone.device, NOTHING, self._deriver.bounds(NOTHING))
        return Result(*derived, counters=counters, health=gone.health)

    def _enroll(self, gpus: TickGpus) -> None:
        """Find the stages of the GPUs of a tick."""
        self._gpus = gpus
        self._tick_stages = []
        for track in gpus.tracks:
            stages = self._stages.get(track)
            if stages is None:
                stages = self._stages[track] = _Stages(self._settings, self._counters_of(track))
            self._tick_stages.append(stages)
        self._boards = _partitioned_boards(gpus)

    def _counters_of(self, track: GpuTrack) -> GpuCounters:
        settings = self._settings
        return self._counters.of(
            self._key(track),
            lambda: Accumulator(track.time, settings.real_utilization.histogram, settings.idle.held_memory),
        )

    def _key(self, track: GpuTrack) -> str:
        """Return the key of a GPU among those of all targets."""
        return track.key if track.device.entity.node else f"{self._node}{track.key}"


class _PartitionedBoard(NamedTuple):
    """A board that is in the tick beside its MIG instances; these by their positions."""

    instances: tuple[int, ...]
    rollup: MigRollup


def _partitioned_boards(gpus: TickGpus) -> dict[int, _PartitionedBoard]:
    """Return the boards with MIG instances, by position."""
    positions = {id(track): position for position, track in enumerate(gpus.tracks)}
    instances: dict[int, list[int]] = {}
    for position, (track, board) in enumerate(zip(gpus.tracks, gpus.boards, strict=True)):
        if track is not board and track.device.entity.kind == "mig":
            instances.setdefault(positions[id(board)], []).append(position)
    return {
        board: _PartitionedBoard(tuple(found), MigRollup([gpus.tracks[position].device for position in found]))
        for board, found in instances.items()
    }


class _Stages:
    """The stages of one GPU that keep state."""

    __slots__ = ("__weakref__", "_derived", "_inputs", "counters", "debouncer", "is_counted", "plausibility", "source")

    def __init__(self, settings: ComputeSettings, counters: GpuCounters) -> None:
        self.debouncer = ClassDebouncer(settings.workload.hold)
        self.counters = counters
        self.is_counted = True
        self.source: Source = ref(self)
        self.plausibility = PlausibilityFilter(settings.plausibility)
        self._inputs: tuple[Deriver, Device, Reading, Bounds] | None = None

    def derive(
        self, deriver: Deriver, device: Device, reading: Reading, bounds: Bounds, rounding: float
    ) -> tuple[RealUtilization, Workload, Saturation]:
        """Return the results of a reading; those of the sample before if the source repeats it."""
        inputs, before = (deriver, device, reading, bounds), self._inputs
        if before is None or reading is not before[2] or inputs != before:
            self._inputs, self._derived = inputs, deriver.derive(device, reading, bounds, rounding)
        return self._derived

    def take(
        self,
        now: float,
        interval: float,
        track: GpuTrack,
        reading: Reading,
        ratio: Value,
        workload: Workload,
        hold: float,
    ) -> HeldWorkload:
        """Count the newest sample, if no other target's is counted, and debounce its class; return the held one."""
        sample, debouncer = track.decision, self.debouncer
        kind, covered = sample.kind, sample.covered
        if kind == "repeat":
            return debouncer.held
        self.is_counted = self.counters.take(
            self.source,
            CountedSample(kind, covered, now, interval, track.device, reading, ratio, workload, track.inputs.refresh),
        )
        if kind == "next":
            debouncer.update(workload, covered, track.time)
        else:
            if sample.continued(hold):
                debouncer.update(workload, 0.0, track.time)  # too short to forget the class, and no proof of another
            else:
                debouncer.reset(workload, track.time)
        return debouncer.held
