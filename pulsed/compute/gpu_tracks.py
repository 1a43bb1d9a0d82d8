"""Identity of the GPUs of one target: which GPU a device of a tick is.

This module must not depend on any stage.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from typing import Literal

from pulsed.compute.sample import FIRST, NEVER, Freshness
from pulsed.model.gpu import Device, Entity, EntityLocation

TrackStatus = Literal["new", "present", "back", "gone"]


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
        started: when it was first seen, in seconds of the clock of the ticks.
        last_sample: the tick of its newest sample, up to date while it is absent.
        gone_at: when it became absent, by the same clock; `inf` for a board that is there by its parts.
        last_seen: when an absent GPU was in a tick last, in Unix seconds; 0 if it was in none before.
        missed_since: the first tick without an absent GPU, in seconds of the clock of the ticks.
    """

    def __init__(self, device: Device, keys: tuple[str, ...], started: float) -> None:
        self.key, self.other_keys = keys[0], keys[1:]
        self.device = device
        self.status: TrackStatus = "new"
        self.decision = FIRST
        self.inputs = Freshness()
        self.now = self.time = self.last_seen = self.missed_since = self.gone_at = 0.0
        self.started = started
        self.last_sample = NEVER


class GpuTracks:
    """The tracks of all GPUs of one target that are remembered."""

    def __init__(self) -> None:
        self._by_key: dict[str, GpuTrack] = {}
        """Those absent for longest come first."""
        self._by_location: dict[EntityLocation, GpuTrack] = {}

    def __contains__(self, track: GpuTrack) -> bool:
        return self._by_key.get(track.key) is track

    def find(self, device: Device, taken: Collection[str], now: float) -> GpuTrack:
        """Return the track of a device of a tick, a new one if it is unknown; `taken` has the keys of the tracks of
        other devices of the tick."""
        entity = device.entity
        keys = entity.saved_keys
        while keys[0] in taken:  # the source does not distinguish two devices
            keys = (f"{keys[0]}|again",)
        track = self._by_key.pop(keys[0], None)
        if track is None:
            track = self._find_at_location(entity, taken)
            if track is not None:
                del self._by_key[track.key]
                track.other_keys = (track.key, *track.other_keys)
                track.key = keys[0]
        if track is None:
            track = GpuTrack(device, keys, now)
        elif not track.last_sample.tick:
            track.status = "new"  # since the restart
        else:
            track.status = "back" if track.status == "gone" else "present"
        track.device = device
        self._add(track)
        return track

    def add(self, device: Device, now: float) -> GpuTrack | None:
        """Return the track of a GPU that is in no tick; None if it is known."""
        keys = device.entity.saved_keys
        if keys[0] in self._by_key:
            return None
        track = GpuTrack(device, keys, now)
        self._add(track)
        return track

    def others(self, keys: Container[str]) -> list[GpuTrack]:
        """Return the tracks with other keys, those absent for longest first."""
        return [track for key, track in self._by_key.items() if key not in keys]

    def drop(self, track: GpuTrack) -> None:
        """Forget a GPU."""
        self._by_key.pop(track.key, None)
        if self._by_location.get(location := track.device.entity.location) is track:
            del self._by_location[location]

    def drop_with_parts(self, track: GpuTrack) -> None:
        """Forget a GPU, and if it is a board its MIG instances and vGPUs."""
        is_board = track.device.entity.kind == "gpu"
        parts = [part for key, part in self._by_key.items() if is_board and key.startswith(f"{track.key}|")]
        for one in (track, *parts):
            self.drop(one)

    def _add(self, track: GpuTrack) -> None:
        self._by_key[track.key] = track
        self._by_location[track.device.entity.location] = track

    def _find_at_location(self, entity: Entity, taken: Container[str]) -> GpuTrack | None:
        """Return the track of a GPU whose UUID has become known only now, or is not known any more."""
        track = self._by_location.get(entity.location) if entity.gpu else None
        if track is None or track.key in taken or (track.device.entity.uuid and entity.uuid):
            return None
        return track
