"""The absent GPUs of one target: which of them are missing, and how long they are remembered.

A GPU that is absent is missing until it is forgotten: by request, after a time, when a new board has replaced it, or
when another target reports it. A page alone does not show whether a GPU was taken out of the list of an exporter or is
lost, because a lost GPU restarts exporters, too. Nor does a restart of its node without it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from math import inf
from typing import NamedTuple

from pulsed.compute.gpu_tracks import GpuTrack, GpuTracks
from pulsed.model.canonical_tick import CanonicalTick
from pulsed.model.computed_tick import Removal, RemovalReason
from pulsed.model.gpu import Device, Entity
from pulsed.model.raw_tick import is_another

KEPT = 256
"""Number of absent GPUs that are remembered: their counters continue when they return."""

FORGET_SECONDS = 0.0
"""An absent GPU is forgotten after this time by default; 0: never, as a dead GPU must not turn silent by itself."""


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
        tracks: all GPUs of the target that are remembered.
        forget_after: seconds after which an absent GPU is forgotten; 0: never.
        is_elsewhere: returns whether another target reported a UUID after a moment of the clock of the ticks.

    Attributes:
        boards: whole GPUs that are remembered, and are not in the newest tick, not even by a part.
        missing: those of them that are watched.
        expires: when `update` is due although the devices stay the same, in seconds of the clock of the ticks.
    """

    def __init__(self, tracks: GpuTracks, forget_after: float, is_elsewhere: Callable[[str, float], bool]) -> None:
        self._tracks = tracks
        self._is_elsewhere = is_elsewhere
        self._is_watched: Callable[[Device], bool] = lambda device: True
        self._expected: tuple[str, tuple[ExpectedGpu, ...]] = ("", ())
        self._removed: dict[GpuTrack, Removal] = {}
        self.boards: tuple[GpuTrack, ...] = ()
        self.missing: tuple[GpuTrack, ...] = ()
        self.reconfigure(forget_after)

    def reconfigure(self, forget_after: float) -> None:
        """Apply another time from the next tick on."""
        self._forget_after, self.expires = forget_after or inf, -inf

    def watch(self, is_watched: Callable[[Device], bool]) -> None:
        """Set which devices are read; others are remembered, but they are not missing."""
        self._is_watched, self.expires = is_watched, -inf

    def expect(self, target: str, gpus: Iterable[ExpectedGpu]) -> None:
        """Register GPUs of an earlier run of the same target: they are missing if the first tick with GPUs does not
        have them."""
        self._expected = (target, tuple(gpus))

    def add_expected(self, tick: CanonicalTick, now: float) -> set[str]:
        """Add the GPUs of an earlier run to the first tick with GPUs, at a moment of the clock; return the keys
        of those whose node was restarted since."""
        (target, gpus), self._expected = self._expected, ("", ())
        restarted: set[str] = set()
        for device, last_seen, before in gpus if target == tick.target else ():
            if (track := self._tracks.add(device, now)) is None:
                continue
            track.status, track.last_seen, track.missed_since = "gone", last_seen, now
            track.gone_at = now - max(tick.time - last_seen, 0.0)
            if is_another(tick.epoch.boot, before):
                restarted.add(track.key)
        return restarted

    def update(
        self, tick: CanonicalTick, present: Mapping[str, GpuTrack], restarted: Container[str], now: float
    ) -> None:
        """Take a tick with other devices; also forget those that have been absent for longest if there are many.

        Args:
            tick: the tick.
            present: the tracks of its devices, by key.
            restarted: keys of GPUs of an earlier run whose node was restarted since.
            now: seconds of the clock of the ticks.
        """
        absent = self._tracks.others(present)
        new = [track.device for track in present.values() if track.status == "new" and not track.last_seen]
        replacements = _replacements(absent, new, restarted) if absent else {}
        too_many = max(0, len(absent) - KEPT)
        for track in absent[:too_many]:
            self._tracks.drop(track)
        for track in absent[too_many:]:
            is_divided = track.device.entity.kind == "gpu" and _is_divided(track.device.entity, tick.devices)
            if is_divided or track.status != "gone" or track.gone_at == inf:
                track.status, track.missed_since = "gone", now
                track.gone_at = inf if is_divided else now
            if replacement := replacements.get(track.key):
                self._remove(track, "replaced", tick.time, replacement)
            elif now - track.gone_at >= self._forget_after:
                self._remove(track, "expired", tick.time)
        kept = [track for track in absent[too_many:] if track in self._tracks]
        self.expires = min([track.gone_at for track in kept], default=inf) + self._forget_after
        self.boards = tuple([track for track in kept if track.device.entity.kind == "gpu" and track.gone_at != inf])
        self.missing = tuple([track for track in self.boards if self._is_watched(track.device)])

    def remove_moved(self, time: float) -> None:
        """Forget missing GPUs that another target reports; `time` is that of the tick, in Unix seconds."""
        for track in self.missing:
            if self._is_elsewhere(track.device.entity.uuid, track.missed_since):
                self._remove(track, "moved", time)
                self.expires = -inf

    def forget(self, track: GpuTrack, time: float) -> Removal:
        """Forget an absent GPU by request, at a time in Unix seconds."""
        self._tracks.drop_with_parts(track)
        self.boards = tuple([one for one in self.boards if one is not track])
        self.expires = -inf
        return Removal(track.device, track.last_seen, "forgotten", time)

    def pop_removed(self) -> Mapping[GpuTrack, Removal]:
        """Return the GPUs that were missing and are not expected any more since the last call."""
        removed, self._removed = self._removed, {}
        return removed

    def _remove(self, track: GpuTrack, reason: RemovalReason, time: float, replacement: Device | None = None) -> None:
        """Forget an absent GPU, and report it if it was missing."""
        self._tracks.drop_with_parts(track)
        if track.device.entity.kind == "gpu" and self._is_watched(track.device):
            self._removed[track] = Removal(track.device, track.last_seen, reason, time, replacement)


def _replacements(absent: Iterable[GpuTrack], new: Iterable[Device], restarted: Container[str]) -> dict[str, Device]:
    """Return the new boards that replace absent ones, by the key of these.

    That is the board in the same slot. After a restart of the node it is also any other new board of the node, one for
    each: a virtual machine may continue on another host.
    """
    spare = {device.entity.uuid: device for device in new if device.entity.kind == "gpu" and device.entity.uuid}
    slots = {slot: device for device in spare.values() if (slot := _slot(device))}
    found: dict[str, Device] = {}
    for track in absent:
        if (slot := _slot(track.device)) and (device := slots.get(slot)):
            found[track.key] = spare.pop(device.entity.uuid, device)
    for track in absent:
        entity = track.device.entity
        if track.key in restarted and track.key not in found and entity.uuid:
            uuid = next((uuid for uuid, device in spare.items() if device.entity.node == entity.node), "")
            if uuid:
                found[track.key] = spare.pop(uuid)
    return found


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
