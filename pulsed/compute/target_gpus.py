"""The GPUs of one target, tick by tick: which GPU a sample belongs to, whether the sample is counted and what time it
covers, whether its inputs are fresh, and which GPUs are missing.

All are decided here, once per tick and GPU, for plausibility, counters, workload class, health and history. This module
must not depend on any stage.

A GPU that is absent is missing until it is forgotten: by request, after a time, when a new board has replaced it, or
when another target reports it. A page alone does not show whether a GPU was taken out of the list of an exporter or is
lost, because a lost GPU restarts exporters, too. Nor does a restart of its node without it. A GPU that another driver
has, as that of a virtual machine, was given away and is not missing.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from pulsed.compute.gpu_table import GpuState, GpuTable
from pulsed.compute.sample import FIRST, GAP_INTERVALS, ROUNDING, Freshness, Moment, SampleClock, SampleDecision
from pulsed.model.canonical_tick import CanonicalTick
from pulsed.model.computed_tick import Removal, RemovalReason
from pulsed.model.gpu import Device, Entity
from pulsed.model.host import is_given_away
from pulsed.model.raw_tick import is_another
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


KEPT = 256
"""Number of absent GPUs that are remembered: their counters continue when they return."""


class ExpectedGpu(NamedTuple):
    """A GPU that was there before a restart of the daemon.

    Attributes:
        device: what is known of it.
        last_seen: when it was seen last, in Unix seconds.
        boot_id: of its node at that time, opaque; empty if unknown.
    """

    device: Device
    last_seen: float
    boot_id: str = ""


class AbsenceTracker:
    """Remembers the absent GPUs of one target, and forgets those that are not expected any more.

    Args:
        table: the states of all GPUs.
        here: the node of devices whose source does not name it.

    Attributes:
        boards: whole GPUs that are remembered, and are not in the newest tick, not even by a part.
        missing: those of them that are watched, and that no other driver has.
        removed: GPUs that were missing and are not expected any more, until the tracker has taken them.
    """

    def __init__(self, table: GpuTable, here: str) -> None:
        self._table, self._here = table, here
        self._is_watched: Callable[[Device], bool] = lambda device: True
        self._expected: tuple[str, tuple[ExpectedGpu, ...]] = ("", ())
        self.removed: dict[GpuState, Removal] = {}
        self._is_due = False
        self._pci_drivers: Mapping[str, str] = {}
        self._gone_first = inf
        self.boards: tuple[GpuState, ...] = ()
        self.missing: tuple[GpuState, ...] = ()

    def begin_tick(self, tick: CanonicalTick, owner: object, now: float) -> bool:
        """Remove missing GPUs that another target has taken over; return whether `update` is due although the devices
        stay the same.

        Args:
            tick: the tick.
            owner: the target.
            now: seconds of the clock of the ticks.
        """
        for state in self.missing:
            if state.owner is not owner:
                self.removed[state] = Removal(state.device, state.last_seen, "moved", tick.time)
                self._is_due = True
        if tick.pci_drivers != self._pci_drivers:
            self._pci_drivers, self._is_due = tick.pci_drivers, True
        return self._is_due or now >= self._gone_first + (self._table.settings.health.forget_after or inf)

    def watch(self, is_watched: Callable[[Device], bool]) -> None:
        """Set which devices are read; others are remembered, but they are not missing."""
        self._is_watched, self._is_due = is_watched, True

    def expect(self, target: str, gpus: Iterable[ExpectedGpu]) -> None:
        """Register GPUs of an earlier run of the same target: they are missing if the first tick with GPUs does not
        have them."""
        self._expected = (target, tuple(gpus))

    def add_expected(self, tick: CanonicalTick, owner: object, now: float) -> set[str]:
        """Add the GPUs of an earlier run to the first tick with GPUs, at a moment of the clock; return the keys
        of those whose node was restarted since."""
        (target, gpus), self._expected = self._expected, ("", ())
        restarted: set[str] = set()
        for device, last_seen, before in gpus if target == tick.target else ():
            if (state := self._table.add(device, self._here, now)) is None:
                continue
            state.owner, state.status, state.last_seen, state.missed_since = owner, "gone", last_seen, now
            state.gone_at = now - max(tick.time - last_seen, 0.0)
            if is_another(tick.epoch.boot, before):
                restarted.add(state.key)
        return restarted

    def update(
        self,
        tick: CanonicalTick,
        present: Mapping[str, GpuState],
        absent: Sequence[GpuState],
        restarted: Container[str],
        now: float,
    ) -> None:
        """Take a tick with other devices; also forget those that have been absent for longest if there are many.

        Args:
            tick: the tick.
            present: the states of its devices, by key.
            absent: the other states of the target, those absent for longest first.
            restarted: keys of GPUs of an earlier run whose node was restarted since.
            now: seconds of the clock of the ticks.
        """
        new = [state.device for state in present.values() if state.status == "new" and not state.last_seen]
        replacements = _replacements(absent, new, restarted) if absent else {}
        too_many, forget_after = max(0, len(absent) - KEPT), self._table.settings.health.forget_after or inf
        for state in absent[:too_many]:
            self._table.forget(state)
        uuids = {device.entity.uuid for device in tick.devices if device.entity.kind == "gpu"}
        for state in absent[too_many:]:
            if state.device.entity.uuid and state.device.entity.uuid in uuids:  # its exporter names another host
                self._table.forget(state)
                continue
            is_divided = state.device.entity.kind == "gpu" and _is_divided(state.device.entity, tick.devices)
            if is_divided or state.status != "gone" or state.gone_at == inf:
                state.status, state.missed_since = "gone", now
                state.gone_at = inf if is_divided else now
            if replacement := replacements.get(state.key):
                self._remove(state, "replaced", tick.time, replacement)
            elif now - state.gone_at >= forget_after:
                self._remove(state, "expired", tick.time)
        kept = [state for state in absent[too_many:] if state in self._table]
        self._gone_first, self._is_due = min([state.gone_at for state in kept], default=inf), False
        self.boards = tuple([state for state in kept if state.device.entity.kind == "gpu" and state.gone_at != inf])
        self.missing = tuple([state for state in self.boards if self._is_missing(state.device)])

    def _is_missing(self, device: Device) -> bool:
        """Return whether an absent GPU is watched, and no other driver has it."""
        return self._is_watched(device) and not is_given_away(self._pci_drivers.get(device.pci_bus_id, ""))

    def forget(self, state: GpuState, time: float) -> Removal:
        """Forget an absent GPU by request, at a time in Unix seconds."""
        self._table.forget(state)
        self.boards = tuple([one for one in self.boards if one is not state])
        self._is_due = True
        return Removal(state.device, state.last_seen, "forgotten", time)

    def _remove(self, state: GpuState, reason: RemovalReason, time: float, replacement: Device | None = None) -> None:
        """Forget an absent GPU, and report it if it was missing."""
        self._table.forget(state)
        if state.device.entity.kind == "gpu" and self._is_watched(state.device):
            self.removed[state] = Removal(state.device, state.last_seen, reason, time, replacement)


def _replacements(absent: Iterable[GpuState], new: Iterable[Device], restarted: Container[str]) -> dict[str, Device]:
    """Return the new boards that replace absent ones, by the key of these.

    That is the board in the same slot. After a restart of the node it is also any other new board of the node, one for
    each: a virtual machine may continue on another host.
    """
    spare = {device.entity.uuid: device for device in new if device.entity.kind == "gpu" and device.entity.uuid}
    slots = {slot: device for device in spare.values() if (slot := _slot(device))}
    replacements: dict[str, Device] = {}
    for state in absent:
        if (slot := _slot(state.device)) and (device := slots.get(slot)):
            replacements[state.key] = spare.pop(device.entity.uuid, device)
    for state in absent:
        entity = state.device.entity
        if state.key in restarted and state.key not in replacements and entity.uuid:
            uuid = next((uuid for uuid, device in spare.items() if device.entity.node == entity.node), "")
            if uuid:
                replacements[state.key] = spare.pop(uuid)
    return replacements


def _slot(device: Device) -> tuple[str, str, str] | None:
    """Return where in its node a whole GPU is: index and PCI address; None if that, or its UUID, is unknown."""
    entity = device.entity
    is_known = entity.kind == "gpu" and entity.uuid and entity.gpu and device.pci_bus_id
    return (entity.node, entity.gpu, device.pci_bus_id) if is_known else None


def _is_divided(board: Entity, devices: Iterable[Device]) -> bool:
    """Return whether a board is in a tick only by its parts: then it was partitioned, and is not missing.

    dmon does not always name the board of a part: such a part may be of any board.
    """
    return any(
        entity.kind != "gpu"
        and entity.node == board.node
        and (
            (not entity.uuid and not entity.gpu)
            or (entity.uuid == board.uuid if entity.uuid and board.uuid else entity.gpu == board.gpu)
        )
        for entity in (device.entity for device in devices)
    )
