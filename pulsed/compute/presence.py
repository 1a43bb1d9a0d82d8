"""The GPUs of one target that a page leaves out: which of them last, and when each one leaves.

A row lasts until it is decided that its GPU is gone. A GPU leaves by request, after a time, when another target reports
it, or when another driver has it, such as a virtual machine's. A page alone does not show whether a GPU was removed
from the list of an exporter or is lost, because a lost GPU also restarts exporters. A MIG instance leaves when another
one has its slices, when its board is no longer partitioned, or after a time. This module must not depend on any stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from pulsed.compute.gpu_table import GpuState, GpuTable, TargetTracker
from pulsed.compute.mig_rollup import have_room
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.gpu import BoardKey, Device, Entity, Presence
from pulsed.model.host import NVIDIA_DRIVER, is_given_away
from pulsed.model.owner import UNKNOWN_OWNERS, Ownership
from pulsed.model.result import Removal, RemovalReason
from pulsed.model.tick import GpuRow, Tick, lasting
from pulsed.model.vocabulary import POSITION

LASTING_SECONDS = 300.0
"""A MIG instance lasts for this time without being listed while its board is, and so does the state of a GPU while the
pages of its target name other hosts: gaps of exporters are shorter."""

KEPT = 128
"""Number of absent GPUs that are remembered: their counters continue when they return."""

_MIG_MODE = POSITION["mig_mode"]


class ExpectedGpu(NamedTuple):
    """A GPU that was there before a restart of the daemon.

    Attributes:
        device: its known identity.
        last_seen: when it was seen last, in Unix seconds.
    """

    device: Device
    last_seen: Unix


class PresenceTracker:
    """Remembers the absent GPUs of one target, and forgets those that are gone.

    Args:
        table: the states of all GPUs.
        here: the node of devices whose source does not name it.

    Attributes:
        boards: whole GPUs that are remembered, and are not in the newest tick, not even by a part.
        missing: remembered boards that are watched, and that no other driver has.
        parts: MIG instances that are not listed and last: nothing shows yet that they are gone; and boards that are
            there by their instances, which were listed a while ago.
        removed: GPUs that were missing and are gone, until the tracker has taken them.
        hosts: the hosts that the target's pages name.
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
        self.parts: tuple[GpuState, ...] = ()
        self._parts_until = inf
        self.hosts = PageHosts()

    def begin_tick(self, tick: Tick, target: TargetTracker, now: Monotonic) -> bool:
        """Remove missing GPUs that another target has taken over; return whether `update` is due although the devices
        stay the same.

        Args:
            tick: the tick.
            target: the tracker of the tick's target.
            now: seconds of the clock of the ticks.
        """
        self.hosts.update({row.device.entity.node for row in tick.gpus}, now)
        for state in self.missing:
            if state.target is not target:
                self.removed[state] = Removal(state.device, state.last_seen, "moved", tick.time)
                self._is_due = True
        drivers = tick.host.pci_drivers() if tick.host is not None else {}
        if drivers != self._pci_drivers:
            self._pci_drivers, self._is_due = drivers, True
        forget_after = self._table.settings.health.forget_after or inf
        is_whole = bool(self.parts) and not _whole_boards(tick).isdisjoint(
            [state.device.entity.board for state in self.parts]
        )
        return self._is_due or is_whole or now >= min(self._gone_first + forget_after, self._parts_until)

    def watch(self, is_watched: Callable[[Device], bool]) -> None:
        """Set which devices are read; others are remembered, but they are not missing."""
        self._is_watched, self._is_due = is_watched, True

    def expect(self, target: str, gpus: Iterable[ExpectedGpu]) -> None:
        """Register GPUs of an earlier run of the same target: they are missing if the first tick with GPUs does not
        have them."""
        self._expected = (target, tuple(gpus))

    def add_expected(self, tick: Tick, target: TargetTracker, now: Monotonic) -> None:
        """Add the GPUs of an earlier run to the first tick with GPUs, at a moment of the clock."""
        (name, gpus), self._expected = self._expected, ("", ())
        for device, last_seen in gpus if name == tick.target else ():
            if (state := self._table.add(device, self._here, now)) is not None:
                state.target, state.status, state.last_seen, state.missed_since = target, "gone", last_seen, now
                state.gone_at = Monotonic(now - max(tick.time - last_seen, 0.0))

    def update(self, tick: Tick, present: Mapping[str, GpuState], absent: Sequence[GpuState], now: Monotonic) -> None:
        """Take a tick with other devices; also forget those that have been absent for longest if there are many.

        Args:
            tick: the tick.
            present: the states of its devices, by key.
            absent: the other states of the target, those absent for longest first.
            now: seconds of the clock of the ticks.
        """
        too_many, forget_after = max(0, len(absent) - KEPT), self._table.settings.health.forget_after or inf
        for state in absent[:too_many]:
            self._table.forget(state)
        for state in absent[too_many:]:
            is_divided = state.device.entity.kind == "gpu" and _is_divided(state.device.entity, tick.devices)
            if is_divided or state.status != "gone" or state.gone_at == inf:
                state.status, state.missed_since = "gone", now
                state.gone_at = Monotonic(inf) if is_divided else now
            if now - state.gone_at >= forget_after:
                self._remove(state, "expired", tick.time)
        kept = [state for state in absent[too_many:] if state in self._table]
        self._gone_first, self._is_due = min([state.gone_at for state in kept], default=inf), False
        self.boards = tuple([state for state in kept if state.device.entity.kind == "gpu" and state.gone_at != inf])
        self.missing = tuple([state for state in self.boards if self._is_missing(state.device)])
        self._keep_parts(tick, kept, present, now)

    def _keep_parts(
        self, tick: Tick, absent: Sequence[GpuState], present: Mapping[str, GpuState], now: Monotonic
    ) -> None:
        """Keep MIG instances that are not listed while nothing shows that they are gone, and boards of listed ones."""
        boards = {state.device.entity.board for state in (*present.values(), *self.missing)} - _whole_boards(tick)
        instances = [state.device for state in present.values() if state.device.entity.kind == "mig"]
        ids = {device.entity.key for device in instances}
        kept: set[GpuState] = set()
        for state in sorted(absent, key=lambda state: state.gone_at, reverse=True):  # the last one to go has precedence
            entity = state.device.entity
            is_recent = now - state.missed_since < LASTING_SECONDS and state.counters is not None
            if not is_recent or not self._is_watched(state.device):
                continue
            if state.gone_at == inf:
                kept.add(state)
            elif entity.kind == "mig" and entity.board in boards and entity.key not in ids:
                others = [device for device in instances if device.entity.board == entity.board]
                if have_room([*others, state.device]):
                    instances.append(state.device)
                    kept.add(state)
        self.parts = tuple([state for state in absent if state in kept])
        self._parts_until = min([state.missed_since + LASTING_SECONDS for state in kept], default=inf)

    def _is_missing(self, device: Device) -> bool:
        """Return whether an absent GPU is watched, and no other driver has it."""
        return self._is_watched(device) and not is_given_away(self._pci_drivers.get(device.pci_bus_id, ""))

    def _presence(self, state: GpuState, tick: Tick) -> Presence:
        """Return whether the driver or the PCI bus shows that a GPU that a tick does not list is lost.

        It is if it has no driver while another GPU has NVIDIA's.
        """
        drivers = self._pci_drivers
        is_without_driver = drivers.get(state.device.pci_bus_id) == "" and NVIDIA_DRIVER in drivers.values()
        return "lost" if state.device.entity.uuid in tick.raw.lost or is_without_driver else "unlisted"

    def row_of(self, state: GpuState, tick: Tick) -> GpuRow:
        """Return the row of a GPU that a tick does not list: its owners keep it for a time, its values are missing."""
        is_recent = tick.now - state.missed_since < LASTING_SECONDS
        ownership = Ownership(state.row.owners) if is_recent else UNKNOWN_OWNERS
        return lasting(state.device, state.last_seen, self._presence(state, tick), ownership)

    def is_elsewhere(self, state: GpuState, now: Monotonic) -> bool:
        """Return whether a tick shows nothing of a GPU that it does not list, since all of it is about other hosts."""
        return self.hosts.are_others(state.device.entity.node) and now - state.gone_at < LASTING_SECONDS

    def forget(self, state: GpuState, time: Unix) -> Removal:
        """Forget an absent GPU by request, at a time in Unix seconds."""
        self._table.forget(state)
        self.boards = tuple([one for one in self.boards if one is not state])
        self._is_due = True
        return Removal(state.device, state.last_seen, "forgotten", time)

    def _remove(self, state: GpuState, reason: RemovalReason, time: Unix) -> None:
        """Forget an absent GPU, and report it if it was missing."""
        self._table.forget(state)
        if state.device.entity.kind == "gpu" and self._is_watched(state.device):
            self.removed[state] = Removal(state.device, state.last_seen, reason, time)


class PageHosts:
    """The hosts that the pages of one target name.

    An address behind which several exporters take turns shows a part of the GPUs at a time: all rows of a page name
    other hosts than the page before, and these hosts were there earlier.

    Attributes:
        alternating: the hosts that take turns; empty for none.
    """

    def __init__(self) -> None:
        self.alternating: tuple[str, ...] = ()
        self._names: frozenset[str] = frozenset()
        self._pages: dict[str, tuple[frozenset[str], Monotonic]] = {}
        self._returned = -inf

    def update(self, names: Iterable[str], now: Monotonic) -> None:
        """Take the hosts that a page names, at a moment of the clock of the ticks."""
        new = frozenset(names)
        if not new:
            return
        if self._names and new.isdisjoint(self._names) and not new.isdisjoint(self._pages):
            self._returned = now
        self._names = new
        recent = {name: page for name, page in self._pages.items() if now - page[1] < LASTING_SECONDS}
        self._pages = recent | dict.fromkeys(new, (new, now))
        is_alternating = now - self._returned < LASTING_SECONDS
        self.alternating = tuple(sorted(self._pages)) if is_alternating else ()

    def are_others(self, name: str) -> bool:
        """Return whether the newest page names none of the hosts with which this one was named last."""
        page = self._pages.get(name)
        return page is not None and bool(self._names) and self._names.isdisjoint(page[0])


def _whole_boards(tick: Tick) -> set[BoardKey]:
    """Return the boards that a tick shows as not partitioned: by their MIG mode; where that is unknown, by owners of a
    board itself while none of its instances is listed."""
    divided = {row.device.entity.board for row in tick.gpus if row.device.entity.kind == "mig"}
    return {
        row.device.entity.board
        for row in tick.gpus
        if row.reading[_MIG_MODE] == 0.0
        or (row.reading[_MIG_MODE] is None and row.owners and row.device.entity.board not in divided)
    }


def _is_divided(board: Entity, devices: Iterable[Device]) -> bool:
    """Return whether a board is in a tick only by its parts: then it was partitioned, and is not missing.

    dmon does not always name the board of a part: such a part may be of any board of its node.
    """

    def is_part(entity: Entity) -> bool:
        if entity.uuid and board.uuid:
            return entity.board == board.board
        return entity.node == board.node and entity.gpu in ("", board.gpu)

    return any(is_part(device.entity) for device in devices if device.entity.kind != "gpu")
