"""Identity and freshness of the GPUs of one target: which GPU a sample belongs to, whether its inputs are fresh, and
how long an absent GPU is remembered.

All are decided here, with `sample_decision` once per tick and GPU, for plausibility, counters, workload class, health
and history. This module must not depend on any stage.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Literal, NamedTuple

from pulsed.compute.freshness import Freshness
from pulsed.compute.plausibility.rules import DEFAULT_PLAUSIBILITY, PlausibilitySettings
from pulsed.compute.sample_decision import FIRST, NEVER, SampleClock, SampleDecision
from pulsed.translate.tick import CanonicalTick, Device, Entity
from pulsed.translate.vocabulary import NOTHING

KEPT = 256
"""Number of absent GPUs that are remembered: their counters continue when they return."""

FORGET_SECONDS = 86400.0
"""An absent GPU is forgotten after this time by default."""

TrackStatus = Literal["new", "present", "back", "gone"]
RemovalReason = Literal["replaced", "moved", "expired", "forgotten"]


class GpuTrack:
    """One GPU, MIG instance or vGPU of a target, for as long as it is remembered. Stages key their state by it.

    Attributes:
        key: identifies the GPU in the target, also after a restart of the daemon.
        other_keys: keys under which it may have been saved: before its UUID was known, or without its MIG profile.
        device: as last seen.
        status: `new`: this is its first sample; `present`; `back`: it was absent from the tick before; `gone`: it is
            absent from the newest tick.
        decision: of its newest sample.
        inputs: freshness of its inputs.
        now: seconds since its first sample; never decreases, and grows while the GPU is absent, too.
        time: of the newest tick of the target, in Unix seconds.
        last_seen: when an absent GPU was in a tick last, in Unix seconds; 0 if it was in none before.
        missed_since: time of the first tick without an absent GPU, in Unix seconds.
    """

    __slots__ = (
        "__weakref__",
        "_gone_at",
        "_last",
        "_start",
        "decision",
        "device",
        "inputs",
        "key",
        "last_seen",
        "missed_since",
        "now",
        "other_keys",
        "status",
        "time",
    )

    def __init__(self, device: Device, keys: tuple[str, ...], start: float) -> None:
        self.key, self.other_keys = keys[0], keys[1:]
        self.device = device
        self.status: TrackStatus = "new"
        self.decision = FIRST
        self.inputs = Freshness()
        self.now = self.time = self.last_seen = self.missed_since = 0.0
        self._start = start
        self._gone_at = 0.0
        self._last = NEVER


@dataclass(frozen=True, slots=True, eq=False)
class Roster:
    """The GPUs of a tick; the same object for as long as they do not change.

    Attributes:
        tracks: one per device of the tick.
        boards: one per device: of a MIG instance or vGPU the track of its board, if that is in the tick; else its own.
        missing: whole GPUs that were in a tick before, are still watched, and are not in this one, not even by a part.
    """

    tracks: tuple[GpuTrack, ...]
    boards: tuple[GpuTrack, ...]
    missing: tuple[GpuTrack, ...]


_REASONS: Mapping[RemovalReason, str] = {
    "replaced": "another board has replaced it",
    "moved": "another target reports it",
    "expired": "it was absent for health.forget_after",
    "forgotten": "it was forgotten by request",
}


class Removal(NamedTuple):
    """An absent GPU that is not expected any more; all of its state is dropped.

    Attributes:
        track: of the GPU.
        reason: `replaced`: a new board is in its slot, or came when its node was restarted; `moved`: another target
            reports it; `expired`: it was absent for too long; `forgotten`: by request.
        time: in Unix seconds.
        replacement: the new board, if it was replaced.
    """

    track: GpuTrack
    reason: RemovalReason
    time: float
    replacement: Device | None = None

    @property
    def message(self) -> str:
        """The reason as a sentence."""
        board = f": {self.replacement.entity.uuid}" if self.replacement is not None else ""
        return f"The GPU is no longer expected: {_REASONS[self.reason]}{board}"


class TrackedTick(NamedTuple):
    """The decisions about one tick.

    Attributes:
        roster: the GPUs, each with the decision of its own sample.
        decision: of the tick as a whole: how it relates to the previous tick of the target.
        removed: whole GPUs that were missing and are not expected any more.
    """

    roster: Roster
    decision: SampleDecision
    removed: tuple[Removal, ...] = ()


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


class Tracker:
    """Identifies the GPUs of one target and decides what time their samples cover.

    A sample covers the time since the previous sample of the same GPU. It covers nothing if there is none, if it comes
    late, or if the clock began anew, as with another source behind the same name.

    A GPU that is absent is missing until it is forgotten: by request, after `forget_after`, when a new board has
    replaced it, or when another target reports it. A page alone does not show whether a GPU was taken out of the list
    of an exporter or is lost, because a lost GPU restarts exporters, too. Nor does a restart of its node without it.

    Args:
        settings: how long values may be constant before they are stale.
        forget_after: seconds without a GPU after which it is forgotten; 0: never.
        is_elsewhere: returns whether another target reported a UUID after a time in Unix seconds.

    Attributes:
        absent: whole GPUs that are remembered, and are not in the newest tick, not even by a part.
    """

    def __init__(
        self,
        settings: PlausibilitySettings = DEFAULT_PLAUSIBILITY,
        forget_after: float = FORGET_SECONDS,
        is_elsewhere: Callable[[str, float], bool] = lambda uuid, time: False,
    ) -> None:
        self._settings, self._forget_after = settings, forget_after or inf
        self._is_elsewhere = is_elsewhere
        self._is_watched: Callable[[Device], bool] = lambda device: True
        self.absent: tuple[GpuTrack, ...] = ()
        self._expires = inf
        self._removed: list[Removal] = []
        self._tracks: dict[str, GpuTrack] = {}
        """By key; those absent for longest come first."""
        self._places: dict[_Place, GpuTrack] = {}
        self._devices: tuple[Device, ...] | None = None
        self._roster = Roster((), (), ())
        self._is_settled = True
        self._expected: tuple[str, tuple[ExpectedGpu, ...]] = ("", ())
        self._clock = SampleClock()

    def expect(self, target: str, gpus: Iterable[ExpectedGpu]) -> None:
        """Register GPUs of an earlier run, so that they are missing if the first tick with GPUs does not have them.

        Args:
            target: what was read then; nothing is expected of another target.
            gpus: the GPUs.
        """
        self._expected = (target, tuple(gpus))

    def reconfigure(self, settings: PlausibilitySettings, forget_after: float) -> None:
        """Apply other settings from the next tick on."""
        self._settings, self._forget_after = settings, forget_after or inf
        self._devices = None

    def watch(self, is_watched: Callable[[Device], bool]) -> None:
        """Set which devices are read; others are remembered, but they are not missing."""
        self._is_watched = is_watched
        self._devices = None

    def forget(self, track: GpuTrack) -> Removal:
        """Forget an absent GPU by request; if it returns, it is another one."""
        self._drop_with_parts(track)
        self.absent = tuple([one for one in self.absent if one is not track])
        missing = tuple([one for one in self._roster.missing if one is not track])
        self._roster = replace(self._roster, missing=missing)
        return Removal(track, "forgotten", self._clock.time)

    def track(self, tick: CanonicalTick, boot_id: str = "") -> TrackedTick:
        """Decide about the next tick of the target; `boot_id` is of its node, opaque, empty if unknown."""
        for track in self._roster.missing:
            if self._is_elsewhere(track.device.entity.uuid, track.missed_since):
                self._remove(track, "moved", tick.time)
                self._devices = None
        is_new_roster = tick.devices is not self._devices or self._clock.now >= self._expires
        if is_new_roster:
            self._leave_roster()
        before = self._clock.ticks
        decision = self._clock.advance(tick)
        if is_new_roster:
            self._register(tick, boot_id)
            self._is_settled = False
        elif not self._is_settled:
            self._is_settled = True
            for track in self._roster.tracks:
                track.status = "present"
        now, time = self._clock.now, self._clock.time
        is_new, interval, settings = decision.kind != "repeat", tick.interval, self._settings
        for track, reading in zip(self._roster.tracks, tick.readings, strict=True):
            is_apart = is_new_roster and track._last.tick != before
            track.decision = self._clock.decide_since(track._last, interval) if is_apart else decision
            track.now, track.time = now - track._start, time
            if is_new:
                track.inputs.update(reading, track.now, interval, settings)
        for track in self._roster.missing:
            track.now, track.time = now - track._start, time
            if is_new:
                track.inputs.update(NOTHING, track.now, interval, settings)
        removed, self._removed = tuple(self._removed), []
        return TrackedTick(self._roster, decision, removed)

    # Which GPUs there are.

    def _leave_roster(self) -> None:
        """Note the time of the newest sample of all GPUs of the roster, which is that of the newest tick."""
        moment, time = self._clock.moment, self._clock.time
        for track in self._roster.tracks:
            track._last, track.last_seen = moment, time

    def _register(self, tick: CanonicalTick, boot_id: str) -> None:
        """Find the tracks of new devices, and forget those that are not expected any more."""
        self._devices = tick.devices
        restarted = self._add_expected(tick, boot_id) if tick.devices else set[str]()
        tracks: dict[str, GpuTrack] = {}
        boards: dict[tuple[str, str], GpuTrack] = {}
        for device in tick.devices:
            track = self._find(device, tracks)
            tracks[track.key] = track
            if device.entity.kind == "gpu":
                boards[device.entity.board] = track
        found = tuple(tracks.values())
        self._update_absent(tick, tracks, restarted)
        self._roster = Roster(
            found,
            tuple([boards.get(track.device.entity.board, track) for track in found]),
            tuple([track for track in self.absent if self._is_watched(track.device)]),
        )

    def _update_absent(self, tick: CanonicalTick, present: Mapping[str, GpuTrack], restarted: Container[str]) -> None:
        """Forget GPUs that are not expected any more, and those that have been absent for longest if there are many."""
        absent = [track for key, track in self._tracks.items() if key not in present]
        new = [track.device for track in present.values() if track.status == "new" and not track.last_seen]
        replacements = _replacements(absent, new, restarted) if absent else {}
        too_many = max(0, len(absent) - KEPT)
        for track in absent[:too_many]:
            self._drop(track)
        for track in absent[too_many:]:
            is_divided = track.device.entity.kind == "gpu" and _is_divided(track.device.entity, tick.devices)
            if is_divided or track.status != "gone" or track._gone_at == inf:
                track.status, track._gone_at, track.missed_since = (
                    "gone",
                    inf if is_divided else self._clock.now,
                    tick.time,
                )
            if replacement := replacements.get(track.key):
                self._remove(track, "replaced", tick.time, replacement)
            elif self._clock.now - track._gone_at >= self._forget_after:
                self._remove(track, "expired", tick.time)
        kept = [track for track in absent[too_many:] if track.key in self._tracks]
        self._expires = min([track._gone_at for track in kept], default=inf) + self._forget_after
        self.absent = tuple([track for track in kept if track.device.entity.kind == "gpu" and track._gone_at != inf])

    def _remove(self, track: GpuTrack, reason: RemovalReason, time: float, replacement: Device | None = None) -> None:
        """Forget an absent GPU, and report it if it was missing."""
        self._drop_with_parts(track)
        if track.device.entity.kind == "gpu" and self._is_watched(track.device):
            self._removed.append(Removal(track, reason, time, replacement))

    def _drop_with_parts(self, track: GpuTrack) -> None:
        is_board = track.device.entity.kind == "gpu"
        parts = [part for key, part in self._tracks.items() if is_board and key.startswith(f"{track.key}|")]
        for one in (track, *parts):
            self._drop(one)

    def _drop(self, track: GpuTrack) -> None:
        self._tracks.pop(track.key, None)
        if self._places.get(place := _place(track.device.entity)) is track:
            del self._places[place]

    def _find(self, device: Device, taken: dict[str, GpuTrack]) -> GpuTrack:
        """Return the track of a device, a new one if it is unknown."""
        entity = device.entity
        keys = _keys(entity)
        while keys[0] in taken:  # the source does not distinguish two devices
            keys = (f"{keys[0]}|again",)
        track = self._tracks.pop(keys[0], None)
        if track is None:
            track = self._find_at_place(entity, taken)
            if track is not None:
                del self._tracks[track.key]
                track.other_keys = (track.key, *track.other_keys)
                track.key = keys[0]
        if track is None:
            track = GpuTrack(device, keys, self._clock.now)
        elif not track._last.tick:
            track.status = "new"  # since the restart
        else:
            track.status = "back" if track.status == "gone" else "present"
        track.device = device
        self._tracks[track.key] = track
        self._places[_place(entity)] = track
        return track

    def _find_at_place(self, entity: Entity, taken: dict[str, GpuTrack]) -> GpuTrack | None:
        """Return the track of a GPU whose UUID has become known only now, or is not known any more."""
        track = self._places.get(_place(entity)) if entity.gpu else None
        if track is None or track.key in taken or (track.device.entity.uuid and entity.uuid):
            return None
        return track

    def _add_expected(self, tick: CanonicalTick, boot_id: str) -> set[str]:
        """Add the GPUs of an earlier run; return the keys of those whose node was restarted since."""
        (target, gpus), self._expected = self._expected, ("", ())
        restarted: set[str] = set()
        for device, last_seen, before in gpus if target == tick.target else ():
            keys = _keys(device.entity)
            if keys[0] in self._tracks:
                continue
            track = self._tracks[keys[0]] = GpuTrack(device, keys, self._clock.now)
            self._places[_place(device.entity)] = track
            track.status, track.last_seen, track.missed_since = "gone", last_seen, tick.time
            track._gone_at = self._clock.now - max(tick.time - last_seen, 0.0)
            if boot_id and before and boot_id != before:
                restarted.add(track.key)
        return restarted


_Place = tuple[str, str, str, str, str]
"""Where a GPU is, whatever its UUID: kind, node, index, MIG id and MIG profile."""


def _keys(entity: Entity) -> tuple[str, ...]:
    """Return the key of a device, then others under which it may have been saved."""
    key = f"{entity.node}|{entity.uuid or f'gpu {entity.gpu}'}"
    if entity.kind == "gpu":
        return (key,)
    key = f"{key}|{entity.kind}|{entity.mig_id}"
    return (f"{key}|{entity.mig_profile}", key) if entity.mig_profile else (key,)


def _place(entity: Entity) -> _Place:
    return (entity.kind, entity.node, entity.gpu, entity.mig_id, entity.mig_profile)


def _slot(device: Device) -> tuple[str, str, str] | None:
    """Return where in its node a whole GPU is: index and PCI address; None if that, or its UUID, is unknown."""
    entity = device.entity
    is_known = entity.kind == "gpu" and entity.uuid and entity.gpu and device.pci_bus_id
    return (entity.node, entity.gpu, device.pci_bus_id) if is_known else None


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
