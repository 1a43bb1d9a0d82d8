"""The GPUs of one target, tick by tick: which GPU a sample belongs to, whether the sample is counted and what time it
covers, and whether its inputs are fresh. Which GPUs are missing is decided in `absence`.

All are decided here, once per tick and GPU, for plausibility, counters, workload class, health and history. This module
must not depend on any stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pulsed.compute.absence import AbsenceTracker
from pulsed.compute.gpu_table import GpuState, GpuTable
from pulsed.compute.sample import FIRST, GAP_INTERVALS, ROUNDING, Freshness, Moment, SampleClock, SampleDecision
from pulsed.model.canonical_tick import CanonicalTick
from pulsed.model.computed_tick import Removal
from pulsed.model.gpu import Device
from pulsed.model.vocabulary import NOTHING, Reading

LATE_INTERVALS = 2.0
"""A target is late after this number of its intervals without a sample of a GPU: another one then continues it."""


@dataclass(frozen=True, slots=True, eq=False)
class TickGpus:
    """The GPUs of a tick.

    Attributes:
        states: one per device of the tick.
        boards: one per device: of a MIG instance or vGPU the state of its board, if that is in the tick; otherwise its
            own.
        missing: whole GPUs that were in a tick before, are still watched, and are not in this one, not even by a part.
    """

    states: tuple[GpuState, ...]
    boards: tuple[GpuState, ...]
    missing: tuple[GpuState, ...]


class TrackedTick(NamedTuple):
    """The decisions about one tick.

    Attributes:
        gpus: the GPUs, each with the decision of its own sample.
        decision: of the tick as a whole: how it relates to the previous tick of the target.
        removed: whole GPUs that were missing and are not expected any more.
        now: seconds of the clock of the ticks; see `SampleClock`.
        duplicates: positions of samples that are not counted, because another target updates the GPU.
        is_answered: whether any GPU answers in this target; if none does, the target itself may be silent.
    """

    gpus: TickGpus
    decision: SampleDecision
    removed: Mapping[GpuState, Removal]
    now: float
    duplicates: frozenset[int]
    is_answered: bool


class Tracker:
    """Identifies the GPUs of one target and decides what time their samples cover.

    A sample covers the time since the previous sample of the same GPU. It covers nothing if it is the first, if it
    comes late, or if the clock restarted, as with another source of the same name. The tracker is the owner of the GPUs
    that its target updates.

    Args:
        table: the states of all GPUs.
        here: the node of devices whose source does not name it.

    Attributes:
        absence: which GPUs are absent.
    """

    def __init__(self, table: GpuTable, here: str = "") -> None:
        self._table, self._here, self._rank = table, here, table.next_rank()
        self.absence = AbsenceTracker(table, here)
        self._clock = SampleClock()
        self._devices: tuple[Device, ...] | None = None
        self._gpus = TickGpus((), (), ())
        self._is_settled = True
        self._inputs: dict[str, Freshness] = {}
        """By GPU, the freshness of its inputs in this target, also while another one updates it."""

    def forget(self, state: GpuState) -> Removal:
        """Forget an absent GPU by request; if it returns, it is another one."""
        return self.absence.forget(state, self._clock.time)

    def track(self, tick: CanonicalTick) -> TrackedTick:
        """Decide about the next tick of the target."""
        interval, before, time_before = tick.raw.interval, self._clock.moment, self._clock.time
        decision = self._clock.advance(tick)
        is_due = self.absence.begin_tick(tick, self, self._clock.now)
        are_devices_new = tick.devices != self._devices or is_due
        if are_devices_new:
            self._leave_tick(before, time_before)
            self._register(tick)
            self._is_settled = False
        elif not self._is_settled:
            self._is_settled = True
            for state in self._gpus.states:
                if state.owner is self:
                    state.status = "present"
        is_new = decision.kind != "repeat"
        duplicates = []
        for position, (state, reading) in enumerate(zip(self._gpus.states, tick.readings, strict=True)):
            if state.owner is not self:
                inputs = self._inputs.setdefault(state.key, Freshness())
                if is_new:
                    now = self._clock.now - state.started
                    inputs.update(reading, now, interval, self._table.settings.plausibility)
                if not is_new or not self._may_take_over(state, inputs):
                    duplicates.append(position)
                    continue
                self._take_over(state, tick.devices[position], interval, decision.covered, inputs)
                self._advance(state, reading, interval, is_new=False)
                continue
            if are_devices_new and state.last_sample.tick != before.tick:
                state.decision = self._clock.decide_since(state.last_sample, interval)
            else:
                state.decision = decision
            self._advance(state, reading, interval, is_new=is_new)
        for state in self._gpus.missing:
            self._advance(state, NOTHING, interval, is_new=is_new)
        is_answered = any(self._inputs.get(state.key, state.inputs).is_answered for state in self._gpus.states)
        removed, self.absence.removed = self.absence.removed, {}
        return TrackedTick(self._gpus, decision, removed, self._clock.now, frozenset(duplicates), is_answered)

    def _may_take_over(self, state: GpuState, inputs: Freshness) -> bool:
        """Return whether this target may update a GPU of another one, by the freshness of its inputs here.

        It may if that one is late, or if this one has current values and that one has none, or if that one comes later
        and the values of this one move: a page that returns may be an old one.
        """
        if state.is_free(self._clock.now):
            return True
        if not inputs.is_fresh or self._clock.now < state.started + state.now:
            return False
        return not state.inputs.is_fresh or (self._rank < state.rank and inputs.has_moved)

    def _advance(self, state: GpuState, reading: Reading, interval: float, *, is_new: bool) -> None:
        """Take the time of the tick, and of a new sample the freshness of its inputs."""
        now = self._clock.now
        state.now, state.time, state.interval = now - state.started, self._clock.time, interval
        state.claimed_until = now + LATE_INTERVALS * interval + ROUNDING
        if is_new:
            state.inputs.update(reading, state.now, interval, self._table.settings.plausibility)
            if state.is_page_old and state.inputs.has_moved:
                state.end_old_page()

    def _take_over(self, state: GpuState, device: Device, interval: float, covered: float, inputs: Freshness) -> None:
        """Become the owner of a GPU; its time continues, whatever clock the owner before had.

        Args:
            covered: seconds since the tick before, if that was not long ago: it may have had a duplicate.
            inputs: the freshness of its inputs in this target.
        """
        now, newest = self._clock.now, state.started + state.now
        elapsed = now - (state.last_sample.now if state.status == "gone" else newest)
        if state.counters is None:
            state.decision, state.status = FIRST, "new"
        else:
            limit = GAP_INTERVALS * max(interval, state.interval) + ROUNDING
            if elapsed < -limit:  # another clock
                state.decision = SampleDecision("restart")
            elif elapsed <= limit + covered:
                state.decision = SampleDecision("next", max(elapsed, 0.0), max(elapsed, 0.0))
            else:
                state.decision = SampleDecision("gap", elapsed)
            state.status = "back" if state.status == "gone" else "present"
        state.started += min(now - newest, 0.0)
        state.change_owner(self, self._rank, device, inputs)
        self._is_settled = False

    def _leave_tick(self, moment: Moment, time: float) -> None:
        """Note the time of the newest sample of all GPUs of the tick before, which is that of this tick."""
        for state in self._gpus.states:
            if state.owner is self:
                state.last_sample, state.last_seen = moment, time

    def _register(self, tick: CanonicalTick) -> None:
        """Find the states of new devices, and forget those that are not expected any more."""
        self._devices = tick.devices
        now = self._clock.now
        restarted = self.absence.add_expected(tick, self, now) if tick.devices else set[str]()
        states: dict[str, GpuState] = {}
        boards: dict[tuple[str, str], GpuState] = {}
        for device in tick.devices:
            state = self._table.find(device, self._here, self, states.keys(), now)
            if state.owner is None and state.counters is None:
                state.owner = self
            if state.owner is self:
                state.rank, self._inputs[state.key] = self._rank, state.inputs
                is_first = not state.last_sample.tick  # since the restart
                state.status = "new" if is_first else "back" if state.status == "gone" else "present"
            states[state.key] = state
            if device.entity.kind == "gpu":
                boards[device.entity.board] = state
        absent = self._table.absent(self, states)
        remembered = states.keys() | {state.key for state in absent}
        self._inputs = {key: inputs for key, inputs in self._inputs.items() if key in remembered}
        self.absence.update(tick, states, absent, restarted, now)
        gpu_states = tuple(states.values())
        self._gpus = TickGpus(
            gpu_states,
            tuple(
                [boards.get(device.entity.board, state) for device, state in zip(tick.devices, gpu_states, strict=True)]
            ),
            self.absence.missing,
        )
