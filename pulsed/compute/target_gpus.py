"""The GPUs of one target, tick by tick: which GPU a sample belongs to, whether the sample is counted and what time it
covers, and whether its inputs are fresh. Which GPUs last without being listed is decided in `presence`.

All are decided here, once per tick and GPU, for plausibility, counters, workload class, health and history. One target
has a GPU: the first that delivers it. When that one is late or gone, the next one continues the same state, and keeps
it; when that one has only blanks for the GPU, the next one that delivers values does. This module must not depend on
any stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pulsed.compute.gpu_table import LATE_INTERVALS, GpuState, GpuTable, LentOwners
from pulsed.compute.presence import PresenceTracker
from pulsed.compute.sample import FIRST, GAP_INTERVALS, ROUNDING, Moment, SampleClock, SampleDecision
from pulsed.model.clocks import GpuSeconds, Monotonic, Unix
from pulsed.model.gpu import BoardKey, Device
from pulsed.model.result import Removal
from pulsed.model.tick import GpuRow, Tick
from pulsed.model.vocabulary import NOTHING, Reading


class TrackedTick(NamedTuple):
    """The decisions about one tick.

    Attributes:
        states: of the GPUs that it lists and that this target has; each has its row.
        missing: whole GPUs that were in a tick before, are still watched, and are not in this one, not even by a part;
            each has its row.
        parts: MIG instances that last without being listed, and boards that are listed by their instances; likewise.
        decision: of the tick as a whole: how it relates to the previous tick of the target.
        is_answered: whether any GPU answers in this target; if none does, the target itself may be silent.
    """

    states: Sequence[GpuState]
    missing: Sequence[GpuState]
    parts: Sequence[GpuState]
    decision: SampleDecision
    is_answered: bool


class Tracker:
    """Identifies the GPUs of one target and decides what time their samples cover.

    A sample covers the time since the previous sample of the same GPU. It covers nothing if it is the first, if it
    comes late, or if the clock restarted, as with another source of the same name.

    Args:
        table: the states of all GPUs.
        here: the node of devices whose source does not name it.

    Attributes:
        name: of the target, as of its newest tick.
        presence: which GPUs are absent.
    """

    def __init__(self, table: GpuTable, here: str = "") -> None:
        self._table, self._here = table, here
        self.name = ""
        self.presence = PresenceTracker(table, here)
        self._clock = SampleClock()
        self._devices: Sequence[Device] | None = None
        self._found: Sequence[GpuState] = ()
        """One per device that the source lists; those that another target has among them."""
        self._is_settled = True

    def forget(self, state: GpuState) -> Removal:
        """Forget an absent GPU by request; if it returns, it is another one."""
        return self.presence.forget(state, self._clock.time)

    def track(self, tick: Tick) -> TrackedTick:
        """Decide about the next tick of the target; take the GPUs that another target has out of it."""
        interval, before, time_before = tick.raw.interval, self._clock.moment, self._clock.time
        self.name = tick.target
        decision = self._clock.advance(tick)
        tick.now = now = self._clock.now
        is_new, devices = decision.kind != "repeat", tick.devices
        is_due = self.presence.begin_tick(tick, self, now)
        are_devices_new = devices != self._devices or is_due
        if are_devices_new:
            self._leave_tick(before, time_before)
            self._register(tick, devices)
            self._is_settled = False
        elif not self._is_settled:
            self._is_settled = True
            for state in self._found:
                if state.target is self:
                    state.status = "present"
        states, continued = [], []
        duplicates: dict[str, int] = {}
        for state, row in zip(self._found, tick.gpus, strict=True):
            if state.target is self:
                is_known = are_devices_new and state.last_sample.tick != before.tick
                state.decision = self._clock.decide_since(state.last_sample, interval) if is_known else decision
            elif is_new and state.may_continue(row.reading, now):
                self._continue(state, row.device, interval, decision.covered)
                continued.append(state)
            else:
                name = state.target.name if state.target is not None else ""
                duplicates[name] = duplicates.get(name, 0) + 1
                if row.owners is not None:
                    state.lent = LentOwners(row.owners, Monotonic(now + LATE_INTERVALS * interval + ROUNDING))
                continue
            if state.lent is not None:
                _take_lent(state, row, now)
            state.row, state.delivered = row, row.reading
            states.append(state)
            self._advance(state, row.reading, interval, is_new=is_new)
            state.is_page_old |= state in continued
        tick.duplicates, tick.alternating_hosts = duplicates, self.presence.hosts.alternating
        tick.gpus = [state.row for state in states]
        for state in (*self.presence.missing, *self.presence.parts):
            self._advance(state, NOTHING, interval, is_new=is_new)
            state.row = self.presence.row_of(state, tick)
        tick.removed, self.presence.removed = tuple(self.presence.removed.values()), {}
        is_answered = any(state.inputs.is_answered for state in states)
        return TrackedTick(states, self.presence.missing, self.presence.parts, decision, is_answered)

    def _advance(self, state: GpuState, reading: Reading, interval: float, *, is_new: bool) -> None:
        """Take the time of the tick, and of a new sample the freshness of its inputs."""
        now = self._clock.now
        state.now, state.time, state.interval = GpuSeconds(now - state.started), self._clock.time, interval
        if is_new:
            state.inputs.update(reading, state.now, interval, self._table.settings.plausibility)
            state.row.has_moved = state.inputs.has_moved
            if state.is_page_old and state.inputs.has_moved:
                state.is_page_old = False
                if state.health is not None:  # its news may have happened while another target had the GPU
                    state.health.change_source()
        if state.inputs.is_answered or not state.claimed_until:
            state.claimed_until = Monotonic(now + LATE_INTERVALS * interval + ROUNDING)

    def _continue(self, state: GpuState, device: Device, interval: float, covered: float) -> None:
        """Continue a GPU of a target that is late; its time advances, regardless of the clock of that target.

        Args:
            covered: seconds since the tick before, if recent: that tick may also have listed the GPU.
        """
        now, newest = self._clock.now, state.started + state.now
        elapsed = now - (state.last_sample.now if state.status == "gone" else newest)
        limit = GAP_INTERVALS * max(interval, state.interval) + ROUNDING
        if state.counters is None:
            state.decision = FIRST
        elif elapsed < -limit:  # another clock
            state.decision = SampleDecision("restart")
        elif elapsed <= limit + covered:
            state.decision = SampleDecision("next", max(elapsed, 0.0), max(elapsed, 0.0))
        else:
            state.decision = SampleDecision("gap", elapsed)
        state.status = "new" if state.counters is None else "back" if state.status == "gone" else "present"
        state.started = Monotonic(state.started + min(now - newest, 0.0))
        state.target, state.device = self, device
        if state.health is not None:
            state.health.change_source()
        self._is_settled = False

    def _leave_tick(self, moment: Moment, time: Unix) -> None:
        """Record the moment and time of the newest sample for all GPUs of the tick before."""
        for state in self._found:
            if state.target is self:
                state.last_sample, state.last_seen = moment, time

    def _register(self, tick: Tick, devices: Sequence[Device]) -> None:
        """Find the states of new devices, and forget those that are gone."""
        self._devices, now = devices, self._clock.now
        if devices:
            self.presence.add_expected(tick, self, now)
        states: dict[str, GpuState] = {}
        boards: dict[BoardKey, GpuState] = {}
        for device in devices:
            state = self._table.find(device, self._here, self, states.keys(), now)
            if state.target is None and state.counters is None:
                state.target = self
            if state.target is self:
                is_first = not state.last_sample.tick  # since the restart
                state.status = "new" if is_first else "back" if state.status == "gone" else "present"
            states[state.key] = state
            if device.entity.kind == "gpu":
                boards[device.entity.board] = state
        self.presence.update(tick, states, self._table.absent(self, states), now)
        lasting = (*self.presence.missing, *self.presence.parts)
        boards |= {state.device.entity.board: state for state in lasting if state.device.entity.kind == "gpu"}
        for state in (*states.values(), *self.presence.missing, *self.presence.parts):
            board = boards.get(state.device.entity.board, state)
            state.split_board = None if board is state else board
        self._found = tuple(states.values())


def _take_lent(state: GpuState, row: GpuRow, now: Monotonic) -> None:
    """Give a GPU without known owners those that another target names."""
    if state.lent is None or now > state.lent.until:
        state.lent = None
    elif row.owners is None:
        row.ownership = replace(row.ownership, owners=state.lent.owners)
