"""Compute for the ticks of one target: plausibility, derived values, counters, class and health of every GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

from pulsed.compute.bounds import bounds_of
from pulsed.compute.counters.accumulator import Accumulator
from pulsed.compute.counters.catalog import NOTHING_COUNTED
from pulsed.compute.debounce import ClassDebouncer
from pulsed.compute.derive import ComputeSettings, derive
from pulsed.compute.health.evaluator import HealthEvaluator
from pulsed.compute.health.model import LostGpu
from pulsed.compute.mig_rollup import MigRollup
from pulsed.compute.plausibility.filter import PlausibilityFilter
from pulsed.compute.tick import ClassChange, ComputedTick, Result
from pulsed.compute.tracker import GpuTrack, Roster, Tracker
from pulsed.translate.tick import CanonicalTick, Device
from pulsed.translate.vocabulary import NOTHING, Reading


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
        self._tracker = Tracker(settings.plausible)
        self.judge = HealthEvaluator(settings.health, self._tracker)
        self._shown: tuple[tuple[Device, ...], tuple[LostGpu, ...], tuple[Device, ...]] = ((), (), ())
        self._stages: WeakKeyDictionary[GpuTrack, _Stages] = WeakKeyDictionary()
        self._roster: Roster | None = None
        self._here: list[_Stages] = []
        self._boards: Mapping[int, _PartitionedBoard] = {}

    def reconfigure(self, settings: ComputeSettings) -> None:
        """Apply new settings from the next tick on; counters continue."""
        self._settings = settings
        self._tracker.settings = settings.plausible
        self.judge.reconfigure(settings.health)
        for stages in self._stages.values():
            stages.debouncer.reconfigure(settings.hold)
            stages.accumulator.reconfigure(settings.histogram, settings.held_memory_bytes)
            stages.plausibility.reconfigure(settings.plausible)

    def compute(self, tick: CanonicalTick) -> ComputedTick:
        """Compute the results of the next tick."""
        tracked = self._tracker.track(tick)
        if tracked.roster is not self._roster:
            self._enroll(tracked.roster)
        settings, tracks = self._settings, tracked.roster.tracks
        readings, anomalies = self._filter(tick, tracks)
        health = self.judge.evaluate(tick, readings, tracked, self._boot_id)
        classes, boards = settings.classifier, self._boards
        results: list[Result] = []
        changes: list[ClassChange] = []
        for track, stages, device, reading, well, shares in zip(
            tracks, self._here, tick.devices, readings, health.healths, health.clock_event_shares, strict=True
        ):
            rolled_up, unpartitioned = None, None
            if (board := boards.get(len(results))) is not None:
                rolled_up = board.rollup.bounds([bounds_of(readings[position]) for position in board.instances])
                unpartitioned = board.rollup.unpartitioned
            utilization, workload, saturation = derive(device, reading, settings, classes, rolled_up)
            sample, debouncer, accumulator = track.decision, stages.debouncer, stages.accumulator
            before = debouncer.held
            if sample.kind == "next":
                accumulator.cover(
                    sample.covered, device, reading, utilization.ratio, workload.raw_class, track.inputs.refresh
                )
                debouncer.follow(workload, sample.covered, tick.time)
            elif sample.kind != "repeat":
                accumulator.begin(device, reading, utilization.ratio, workload.raw_class)
                if sample.continued(settings.hold):
                    debouncer.follow(workload, 0.0, tick.time)  # too short to forget the class, and no proof of another
                else:
                    debouncer.settle(workload, tick.time)
            held = debouncer.held
            if held.changes != before.changes:
                changes.append(ClassChange(len(results), before.workload_class, held.workload_class, held.since or 0.0))
            results.append(
                Result(utilization, workload, saturation, held, accumulator.account(), well, shares, unpartitioned)
            )
        lost = {len(results) + number: gone.last_seen for number, gone in enumerate(health.lost)}
        results += [self._lost(gone) for gone in health.lost]
        return ComputedTick(
            target=tick.target,
            time=tick.time,
            clock=tick.clock,
            interval=tick.interval,
            devices=self._with_lost(tick.devices, health.lost) if lost else tick.devices,
            readings=(*readings, *([NOTHING] * len(lost))),
            results=tuple(results),
            layout=tick.layout,
            values=tick.values,
            rejected=tick.rejected,
            anomalies=anomalies,
            changes=tuple(changes),
            lost=lost,
            health_changes=health.changes,
            node_health=health.node,
        )

    def _filter(
        self, tick: CanonicalTick, tracks: tuple[GpuTrack, ...]
    ) -> tuple[list[Reading], Mapping[int, tuple[str, ...]]]:
        """Return the readings of a tick without implausible inputs, and all anomalies by position."""
        hold = self._settings.hold  # a short gap must not clear a proven reason
        readings: list[Reading] = []
        anomalies = tick.anomalies
        for position, (track, stages, reading) in enumerate(zip(tracks, self._here, tick.readings, strict=True)):
            filtered, reasons = stages.plausibility.apply(reading, track.decision.continued(hold), track.inputs.state)
            readings.append(filtered)
            if reasons:
                anomalies = {**anomalies, position: (*anomalies.get(position, ()), *reasons)}
        return readings, anomalies

    def _with_lost(self, devices: tuple[Device, ...], lost: tuple[LostGpu, ...]) -> tuple[Device, ...]:
        """Return the devices followed by the lost ones; the same tuple as long as nothing changes."""
        old_devices, old_lost, shown = self._shown
        if old_devices is not devices or old_lost is not lost:
            together = (*devices, *(gone.device for gone in lost))
            shown = shown if together == shown else together
            self._shown = (devices, lost, shown)
        return shown

    def _lost(self, gone: LostGpu) -> Result:
        """Return what remains of a GPU that is gone: its health and its counters."""
        stages = self._stages.get(gone.track)
        account = stages.accumulator.account() if stages is not None else NOTHING_COUNTED
        classes = self._settings.classifier
        derived = derive(gone.device, NOTHING, self._settings, classes)
        return Result(*derived, account=account, health=gone.health)

    def _enroll(self, roster: Roster) -> None:
        """Find the stages of the GPUs of a roster."""
        self._roster = roster
        self._here = []
        for track in roster.tracks:
            stages = self._stages.get(track)
            if stages is None:
                stages = self._stages[track] = _Stages(self._settings, track.time)
            self._here.append(stages)
        self._boards = _partitioned_boards(roster)


class _PartitionedBoard(NamedTuple):
    """A board that is in the tick beside its MIG instances; these by their positions."""

    instances: tuple[int, ...]
    rollup: MigRollup


def _partitioned_boards(roster: Roster) -> dict[int, _PartitionedBoard]:
    """Return the boards with MIG instances, by position."""
    positions = {id(track): position for position, track in enumerate(roster.tracks)}
    instances: dict[int, list[int]] = {}
    for position, (track, board) in enumerate(zip(roster.tracks, roster.boards, strict=True)):
        if track is not board and track.device.entity.kind == "mig":
            instances.setdefault(positions[id(board)], []).append(position)
    return {
        board: _PartitionedBoard(tuple(found), MigRollup([roster.tracks[position].device for position in found]))
        for board, found in instances.items()
    }


class _Stages:
    """The stages of one GPU that keep state."""

    __slots__ = ("accumulator", "debouncer", "plausibility")

    def __init__(self, settings: ComputeSettings, created: float) -> None:
        self.debouncer = ClassDebouncer(settings.hold)
        self.accumulator = Accumulator(created, settings.histogram, settings.held_memory_bytes)
        self.plausibility = PlausibilityFilter(settings.plausible)
