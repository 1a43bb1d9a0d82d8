"""The absent GPUs of one target: which of them are missing, and which are not expected any more.

A GPU that is absent is missing until it is forgotten: by request, after a time, when a new board has replaced it, or
when another target reports it. A page alone does not show whether a GPU was taken out of the list of an exporter or is
lost, because a lost GPU restarts exporters, too. Nor does a restart of its node without it. A GPU that another driver
has, as that of a virtual machine, was given away and is not missing. This module must not depend on any stage.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from pulsed.compute.gpu_table import GpuState, GpuTable
from pulsed.model.canonical_tick import CanonicalTick
from pulsed.model.computed_tick import Removal, RemovalReason
from pulsed.model.gpu import Device, Entity
from pulsed.model.host import is_given_away
from pulsed.model.raw_tick import is_another

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
