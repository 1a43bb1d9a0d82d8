"""The GPUs of one target, tick by tick: which GPU a sample belongs to, what time it covers, whether its inputs are
fresh, and which GPUs are missing.

All are decided here, once per tick and GPU, for plausibility, counters, workload class, health and history. This module
must not depend on any stage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pulsed.compute.absence import FORGET_SECONDS, AbsenceTracker
from pulsed.compute.gpu_tracks import GpuTrack, GpuTracks
from pulsed.compute.plausibility_rules import DEFAULT_PLAUSIBILITY, PlausibilitySettings
from pulsed.compute.sample import SampleClock, SampleDecision
from pulsed.model.canonical_tick import CanonicalTick
from pulsed.model.computed_tick import Removal
from pulsed.model.gpu import Device
from pulsed.model.vocabulary import NOTHING


@dataclass(frozen=True, slots=True, eq=False)
class TickGpus:
    """The GPUs of a tick; the same object for as long as they do not change.

    Attributes:
        tracks: one per device of the tick.
        boards: one per device: of a MIG instance or vGPU the track of its board, if that is in the tick; else its own.
        missing: whole GPUs that were in a tick before, are still watched, and are not in this one, not even by a part.
    """

    tracks: tuple[GpuTrack, ...]
    boards: tuple[GpuTrack, ...]
    missing: tuple[GpuTrack, ...]


class TrackedTick(NamedTuple):
    """The decisions about one tick.

    Attributes:
        gpus: the GPUs, each with the decision of its own sample.
        decision: of the tick as a whole: how it relates to the previous tick of the target.
        removed: whole GPUs that were missing and are not expected any more.
        now: seconds of the clock of the ticks; see `SampleClock`.
    """

    gpus: TickGpus
    decision: SampleDecision
    removed: Mapping[GpuTrack, Removal]
    now: float


class Tracker:
    """Identifies the GPUs of one target and decides what time their samples cover.

    A sample covers the time since the previous sample of the same GPU. It covers nothing if there is none, if it comes
    late, or if the clock began anew, as with another source behind the same name.

    Args:
        settings: how long values may be constant before they are stale.
        forget_after: seconds without a GPU after which it is forgotten; 0: never.
        is_elsewhere: returns whether another target reported a UUID after a moment of the clock of the ticks.

    Attributes:
        absence: which GPUs are absent.
    """

    def __init__(
        self,
        settings: PlausibilitySettings = DEFAULT_PLAUSIBILITY,
        forget_after: float = FORGET_SECONDS,
        is_elsewhere: Callable[[str, float], bool] = lambda uuid, now: False,
    ) -> None:
        self._settings = settings
        self._tracks = GpuTracks()
        self.absence = AbsenceTracker(self._tracks, forget_after, is_elsewhere)
        self._clock = SampleClock()
        self._devices: tuple[Device, ...] | None = None
        self._gpus = TickGpus((), (), ())
        self._is_settled = True

    def reconfigure(self, settings: PlausibilitySettings, forget_after: float) -> None:
        """Apply other settings from the next tick on."""
        self._settings = settings
        self.absence.reconfigure(forget_after)

    def forget(self, track: GpuTrack) -> Removal:
        """Forget an absent GPU by request; if it returns, it is another one."""
        return self.absence.forget(track, self._clock.time)

    def track(self, tick: CanonicalTick) -> TrackedTick:
        """Decide about the next tick of the target."""
        self.absence.remove_moved(tick.time)
        are_devices_new = tick.devices is not self._devices or self._clock.now >= self.absence.expires
        if are_devices_new:
            self._leave_tick()
        before = self._clock.ticks
        decision = self._clock.advance(tick)
        if are_devices_new:
            self._register(tick)
            self._is_settled = False
        elif not self._is_settled:
            self._is_settled = True
            for track in self._gpus.tracks:
                track.status = "present"
        now, time = self._clock.now, self._clock.time
        is_new, interval, settings = decision.kind != "repeat", tick.interval, self._settings
        for track, reading in zip(self._gpus.tracks, tick.readings, strict=True):
            is_apart = are_devices_new and track.last_sample.tick != before
            track.decision = self._clock.decide_since(track.last_sample, interval) if is_apart else decision
            track.now, track.time = now - track.started, time
            if is_new:
                track.inputs.update(reading, track.now, interval, settings)
        for track in self._gpus.missing:
            track.now, track.time = now - track.started, time
            if is_new:
                track.inputs.update(NOTHING, track.now, interval, settings)
        return TrackedTick(self._gpus, decision, self.absence.pop_removed(), now)

    def _leave_tick(self) -> None:
        """Note the time of the newest sample of all GPUs of the tick, which is that of the newest tick."""
        moment, time = self._clock.moment, self._clock.time
        for track in self._gpus.tracks:
            track.last_sample, track.last_seen = moment, time

    def _register(self, tick: CanonicalTick) -> None:
        """Find the tracks of new devices, and forget those that are not expected any more."""
        self._devices = tick.devices
        now = self._clock.now
        restarted = self.absence.add_expected(tick, now) if tick.devices else set[str]()
        tracks: dict[str, GpuTrack] = {}
        boards: dict[tuple[str, str], GpuTrack] = {}
        for device in tick.devices:
            track = self._tracks.find(device, tracks.keys(), now)
            tracks[track.key] = track
            if device.entity.kind == "gpu":
                boards[device.entity.board] = track
        self.absence.update(tick, tracks, restarted, now)
        found = tuple(tracks.values())
        self._gpus = TickGpus(
            found, tuple([boards.get(track.device.entity.board, track) for track in found]), self.absence.missing
        )
