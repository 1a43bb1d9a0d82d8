"""Compute for the ticks of one target: plausibility, derived values, counters, class and health of every GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pulsed.compute.accumulator import Accumulator
from pulsed.compute.activity import media_of
from pulsed.compute.gpu_table import GpuState, GpuTable
from pulsed.compute.health_evaluator import HealthEvaluator
from pulsed.compute.mig_rollup import MigRollup, narrowed, with_memory
from pulsed.compute.target_gpus import Tracker
from pulsed.model.clocks import EPOCH
from pulsed.model.counters import NOTHING_COUNTED
from pulsed.model.gpu import Device, Presence
from pulsed.model.owner import Owners
from pulsed.model.result import ClassChange, Removal, Result, Workload
from pulsed.model.tick import GpuRow, Tick
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
        self._last: Tick | None = None
        self._instances: list[GpuState] = []
        self._boards: Mapping[GpuState, _PartitionedBoard] = {}

    def watch(self, is_watched: Callable[[Device], bool]) -> None:
        """Set which devices are read; others are not missing."""
        self._tracker.presence.watch(is_watched)

    def close(self) -> None:
        """Let other targets continue the GPUs of this one."""
        self.table.release(self._tracker)

    @property
    def absent(self) -> Sequence[GpuState]:
        """The whole GPUs that can be forgotten: they are remembered, and are not in the newest tick."""
        return self._tracker.presence.boards

    def forget(self, state: GpuState) -> tuple[Removal, Tick | None]:
        """Forget an absent GPU; return the removal, and the newest tick without the GPU."""
        removal, board = self._tracker.forget(state), state.device.entity.board
        if self._last is not None:
            kept = [row for row in self._last.gpus if row.is_listed or row.device.entity.board != board]
            self._last = replace(self._last, gpus=kept)
        return removal, self._last

    def compute(self, tick: Tick) -> Tick:
        """Compute the results of the next tick, in its rows, and add those that last without being listed."""
        tracked = self._tracker.track(tick)
        for state in tracked.states:
            self._filter(state, state.row)
        missing = self.health_evaluator.evaluate(tick, tracked)
        parts = tracked.parts if tick.lists_gpus or missing else ()
        for state in (*missing, *parts):
            state.row.presence = self._presence(state)
        if (instances := [*tracked.states, *parts]) != self._instances:
            self._instances, self._boards = instances, _partitioned_boards(instances)
        for state, board in self._boards.items():
            state.row.is_split = True
            state.row.reading = with_memory(state.row.reading, [each.row.reading for each in board.instances])
        rounding, transcoding = tick.raw.layout.rounding, self._transcoding_instances() if self._boards else ()
        changes: list[ClassChange] = []
        for state in tracked.states:
            row, before = state.row, state.debouncer.shown_class
            row.result = self._result(state, row, rounding, is_transcoding=state in transcoding)
            if (held := row.result.shown_class).changes != before.changes:
                since, classes = held.since or EPOCH, (before.workload_class, held.workload_class)
                changes.append(ClassChange(row.device, *classes, since, held.bottleneck))
        tick.changes = tuple(changes)
        for state in (*missing, *parts):
            state.row.result = self._without_values(state)
            tick.gpus.append(state.row)
        self._last = tick
        return tick

    def _result(self, state: GpuState, row: GpuRow, rounding: float, *, is_transcoding: bool) -> Result:
        """Return the result of a sample, which is counted."""
        settings, deriver, reading = self.table.settings, self.table.deriver, row.reading
        bounds, narrow, unpartitioned = deriver.bounds(reading), None, None
        if (board := self._boards.get(state)) is not None:
            unpartitioned = board.rollup.unpartitioned
            if settings.missing == "bounds":
                of_instances = [deriver.bounds(instance.row.reading) for instance in board.instances]
                bounds = narrow = narrowed(bounds, board.rollup.bounds(of_instances))
        utilization, workload, saturation = deriver.derive(row.device, reading, bounds, rounding)
        if is_transcoding and not workload.has_other_work:
            workload = replace(workload, has_other_work=None)
        counters = state.counters
        if counters is None:
            counters = state.counters = Accumulator(state.time)
        if state.decision.kind == "gap" and state.cycles.measured.is_new:
            self._count_gap(state, counters, row.owners, state.cycles.measured.of_gap(reading))
        self._count(state, counters, row, utilization.ratio.value, workload)
        health = self.table.health_of(state.board)
        return Result(
            utilization,
            workload,
            saturation,
            state.debouncer.shown_class,
            counters.snapshot(),
            health.health,
            health.inputs.clock_events.shares,
            unpartitioned,
            narrow,
            counters.idle_kind,
            health.inputs.errors.values,
            health.shown_seconds,
        )

    def _presence(self, state: GpuState) -> Presence:
        """Return whether a GPU that is not listed is lost."""
        health = self.table.health_of(state.board)
        return "lost" if health.reachability.is_lost else "unlisted"

    def _filter(self, state: GpuState, row: GpuRow) -> None:
        """Remove the implausible inputs of a sample, and note the reasons."""
        settings, decision, reading = self.table.settings, state.decision, row.reading
        if decision.kind != "repeat":
            state.cycles.update(reading, state.inputs.state in ("repeated", "stale"))
        if state.cycles.measured.values:
            reading = reading._replace(**state.cycles.measured.values)
        seconds = decision.continued(settings.workload.hold)  # a short gap clears no proven reason
        reading = state.unmeasured.apply(reading, row.device.model)
        row.reading, reasons = state.plausibility.apply(self.table.plausibility, reading, seconds, state.inputs.state)
        if reasons:
            row.anomalies = (*row.anomalies, *reasons)

    def _transcoding_instances(self) -> set[GpuState]:
        """Return the MIG instances that may use the media engines, which are measured for the whole board only."""
        idle = self.table.settings.workload.thresholds.idle_media_ratio
        return {
            instance
            for state, board in self._boards.items()
            if media_of(state.row.reading) >= idle
            for instance in board.instances
        }

    def _count(
        self,
        state: GpuState,
        counters: Accumulator,
        row: GpuRow,
        ratio: Value,
        workload: Workload,
    ) -> None:
        """Count the newest sample, and debounce its class."""
        decision, debouncer, settings = state.decision, state.debouncer, self.table.settings
        if decision.kind == "repeat":
            return
        if decision.covered > 0.0:
            counters.add(settings, decision.covered, row.owners, row.reading, ratio, workload, state.inputs.refresh)
        else:
            counters.start(settings, row.owners, row.reading, ratio, workload)
        hold = settings.workload.hold
        if decision.kind == "next" or decision.continued(hold):
            # Too short a gap to forget the class proves no other one.
            debouncer.update(workload, decision.covered, state.time, hold)
        else:
            debouncer.reset(workload, state.time)

    def _count_gap(self, state: GpuState, counters: Accumulator, owners: Owners | None, reading: Reading) -> None:
        """Count the time since the sample before, in which samples were lost, by what is known of all of it."""
        settings, deriver = self.table.settings, self.table.deriver
        if settings.missing == "zero":
            return  # what the cycle counters do not have would count as idle
        utilization, workload, _ = deriver.derive(state.device, reading, deriver.bounds(reading))
        counters.add(settings, state.decision.elapsed, owners, reading, utilization.ratio.value, workload)

    def _without_values(self, state: GpuState) -> Result:
        """Return what remains of a GPU without a sample: its health and its counters."""
        deriver, counters, health = self.table.deriver, state.counters, self.table.health_of(state.board)
        derived = deriver.derive(state.device, NOTHING, deriver.bounds(NOTHING))
        counted = counters.snapshot() if counters is not None else NOTHING_COUNTED
        return Result(*derived, counters=counted, health=health.health, health_seconds=health.shown_seconds)


class _PartitionedBoard(NamedTuple):
    """The MIG instances of a board that is listed."""

    instances: Sequence[GpuState]
    rollup: MigRollup


def _partitioned_boards(states: Sequence[GpuState]) -> dict[GpuState, _PartitionedBoard]:
    """Return the boards with MIG instances."""
    instances: dict[GpuState, list[GpuState]] = {}
    for state in states:
        if state.device.entity.kind == "mig" and state.board is not state:
            instances.setdefault(state.board, []).append(state)
    return {
        board: _PartitionedBoard(parts, MigRollup([state.device for state in parts]))
        for board, parts in instances.items()
    }
