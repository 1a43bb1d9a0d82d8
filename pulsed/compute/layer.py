"""Compute for the ticks of one target: plausibility, derived values, counters, class and health of every GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pulsed.compute.accumulator import Accumulator
from pulsed.compute.activity import media_of
from pulsed.compute.gpu_table import GpuState, GpuTable
from pulsed.compute.health_evaluator import HealthEvaluator
from pulsed.compute.mig_rollup import MigRollup, narrowed
from pulsed.compute.plausibility_filter import PlausibilityFilter, without_unmeasured
from pulsed.compute.target_gpus import Tracker
from pulsed.model.canonical_tick import CanonicalTick
from pulsed.model.computed_tick import (
    ClassChange,
    ComputedTick,
    Removal,
    Result,
    Workload,
)
from pulsed.model.counters import NOTHING_COUNTED
from pulsed.model.gpu import Device
from pulsed.model.health import Health
from pulsed.model.vocabulary import NOTHING, Reading, Value


class ComputeLayer:
    """Compute for one target, with what it remembers of the target between ticks.

    Args:
        table: the states of all GPUs, and the settings of all stages.
        here: the host of GPUs whose source does not name one.

    Attributes:
        health_evaluator: evaluates the health of all GPUs; its latched states outlive a restart of the daemon.
    """

    def __init__(self, table: GpuTable | None = None, here: str = "") -> None:
        self.table = table or GpuTable()
        self._tracker = Tracker(self.table, here)
        self.health_evaluator = HealthEvaluator(self.table, self._tracker, here)
        self._last: ComputedTick | None = None
        self._devices: tuple[Device, ...] = ()
        self._boards: Mapping[int, _PartitionedBoard] = {}

    def watch(self, is_watched: Callable[[Device], bool]) -> None:
        """Set which devices are read; others are not missing."""
        self._tracker.absence.watch(is_watched)

    def close(self) -> None:
        """Let other targets continue the GPUs of this one."""
        self.table.release(self._tracker)

    @property
    def absent(self) -> Sequence[GpuState]:
        """The whole GPUs that can be forgotten: they are remembered, and are not in the newest tick."""
        return self._tracker.absence.boards

    def forget(self, state: GpuState) -> tuple[Removal, ComputedTick | None]:
        """Forget an absent GPU; return the removal, and the newest tick without the GPU."""
        removal, last = self._tracker.forget(state), self._last
        if last is None:
            return removal, None
        entity = state.device.entity
        kept = [at for at, device in enumerate(last.devices) if at not in last.missing or device.entity != entity]
        self._last = replace(
            last,
            devices=tuple([last.devices[at] for at in kept]),
            readings=tuple([last.readings[at] for at in kept]),
            results=tuple([last.results[at] for at in kept]),
            missing={new: last.missing[at] for new, at in enumerate(kept) if at in last.missing},
        )
        return removal, self._last

    def compute(self, tick: CanonicalTick) -> ComputedTick:
        """Compute the results of the next tick."""
        tracked = self._tracker.track(tick)
        gpus, duplicates = tracked.gpus, tracked.duplicates
        if tick.devices != self._devices:
            self._devices, self._boards = tick.devices, _partitioned_boards(tick.devices)
        readings: list[Reading] = []
        anomalies = dict(tick.anomalies)
        for position, (state, reading) in enumerate(zip(gpus.states, tick.readings, strict=True)):
            plausible, reasons = self._filter(state, reading, is_counted=position not in duplicates)
            readings.append(plausible)
            if reasons:
                anomalies[position] = (*anomalies.get(position, ()), *reasons)
        health = self.health_evaluator.evaluate(tick, readings, tracked)
        transcoding = self._transcoding_instances(readings) if self._boards else ()
        settings, deriver, rounding = self.table.settings, self.table.deriver, tick.raw.layout.rounding
        results: list[Result] = []
        changes: list[ClassChange] = []
        for position, (state, device, reading) in enumerate(zip(gpus.states, tick.devices, readings, strict=True)):
            bounds, narrow, unpartitioned = deriver.bounds(reading), None, None
            if (board := self._boards.get(position)) is not None:
                unpartitioned = board.rollup.unpartitioned
                if settings.missing == "bounds":
                    of_instances = [deriver.bounds(readings[instance]) for instance in board.instances]
                    bounds = narrow = narrowed(bounds, board.rollup.bounds(of_instances))
            utilization, workload, saturation = deriver.derive(device, reading, bounds, rounding)
            if position in transcoding and not workload.has_other_work:
                workload = replace(workload, has_other_work=None)
            counters, before = state.counters, state.debouncer.held
            if counters is None:
                histogram, held_memory = settings.real_utilization.histogram, settings.idle.held_memory
                counters = state.counters = Accumulator(state.time, histogram, held_memory)
            if position not in duplicates:
                if state.decision.kind == "gap" and state.cycles.measured.is_new:
                    self._count_gap(state, counters, state.cycles.measured.of_gap(reading))
                self._count(state, counters, device, reading, utilization.ratio, workload)
            held = state.debouncer.held
            if held.changes != before.changes:
                changes.append(ClassChange(position, before.workload_class, held.workload_class, held.since or 0.0))
            results.append(
                Result(
                    utilization,
                    workload,
                    saturation,
                    held,
                    counters.snapshot(),
                    health.healths[position],
                    health.clock_event_shares[position],
                    unpartitioned,
                    narrow,
                    counters.idle_kind,
                )
            )
        missing = {len(gpus.states) + number: gone.last_seen for number, gone in enumerate(health.missing)}
        self._last = ComputedTick(
            tick.raw,
            devices=(*tick.devices, *[gone.device for gone in health.missing]),
            readings=(*readings, *([NOTHING] * len(missing))),
            results=(*results, *[self._without_values(gone.state, gone.health) for gone in health.missing]),
            now=tracked.now,
            standby=duplicates,
            anomalies=anomalies,
            passing=tick.passing,
            uses=tick.uses,
            changes=tuple(changes),
            missing=missing,
            health_changes=health.changes,
            removed=tuple(tracked.removed.values()),
            xids=health.xids,
            cpus=tick.cpus,
        )
        return self._last

    def _filter(self, state: GpuState, reading: Reading, *, is_counted: bool) -> tuple[Reading, tuple[str, ...]]:
        """Return the reading of a sample without its implausible inputs, and the reasons."""
        settings, decision = self.table.settings, state.decision
        if not is_counted:  # what takes time to prove is proven by the samples of the other target
            reading = without_unmeasured(reading, state.device.model)
            return PlausibilityFilter(settings.plausibility).apply(reading, 0.0, "present")
        if decision.kind != "repeat":
            state.cycles.update(reading, state.inputs.state in ("repeated", "stale"))
        if state.cycles.measured.values:
            reading = reading._replace(**state.cycles.measured.values)
        seconds = decision.continued(settings.workload.hold)  # a short gap clears no proven reason
        return state.plausibility.apply(without_unmeasured(reading, state.device.model), seconds, state.inputs.state)

    def _transcoding_instances(self, readings: Sequence[Reading]) -> set[int]:
        """Return the MIG instances of which any may use the media engines, which are measured of the board alone."""
        idle = self.table.settings.workload.thresholds.idle_media_ratio
        return {
            instance
            for position, board in self._boards.items()
            if media_of(readings[position]) >= idle
            for instance in board.instances
        }

    def _count(
        self,
        state: GpuState,
        counters: Accumulator,
        device: Device,
        reading: Reading,
        ratio: Value,
        workload: Workload,
    ) -> None:
        """Count the newest sample, and debounce its class."""
        decision, debouncer = state.decision, state.debouncer
        if decision.kind == "repeat":
            return
        if decision.covered > 0.0:
            counters.add(decision.covered, device, reading, ratio, workload, state.inputs.refresh)
        else:
            counters.start(device, reading, ratio, workload)
        if decision.kind == "next" or decision.continued(self.table.settings.workload.hold):
            # Too short a gap to forget the class proves no other one.
            debouncer.update(workload, decision.covered, state.time)
        else:
            debouncer.reset(workload, state.time)

    def _count_gap(self, state: GpuState, counters: Accumulator, reading: Reading) -> None:
        """Count the time since the sample before, in which samples were lost, by what is known of all of it."""
        if self.table.settings.missing == "zero":
            return  # what the cycle counters do not have would count as idle
        deriver = self.table.deriver
        utilization, workload, _ = deriver.derive(state.device, reading, deriver.bounds(reading))
        counters.add(state.decision.elapsed, state.device, reading, utilization.ratio, workload)

    def _without_values(self, state: GpuState, health: Health) -> Result:
        """Return what remains of a GPU without a sample: its health and its counters."""
        deriver, counters = self.table.deriver, state.counters
        derived = deriver.derive(state.device, NOTHING, deriver.bounds(NOTHING))
        return Result(
            *derived, counters=counters.snapshot() if counters is not None else NOTHING_COUNTED, health=health
        )


class _PartitionedBoard(NamedTuple):
    """A board that is in the tick next to its MIG instances; these by their positions."""

    instances: tuple[int, ...]
    rollup: MigRollup


def _partitioned_boards(devices: Sequence[Device]) -> dict[int, _PartitionedBoard]:
    """Return the boards with MIG instances, by position."""
    boards = {device.entity.board: at for at, device in enumerate(devices) if device.entity.kind == "gpu"}
    instances: dict[int, list[int]] = {}
    for position, device in enumerate(devices):
        if device.entity.kind == "mig" and (board := boards.get(device.entity.board)) is not None:
            instances.setdefault(board, []).append(position)
    return {
        board: _PartitionedBoard(tuple(positions), MigRollup([devices[position] for position in positions]))
        for board, positions in instances.items()
    }
