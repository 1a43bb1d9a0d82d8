"""Identity, time and freshness of the GPUs of one target: which GPU a sample belongs to, how much time the sample
covers, and whether its inputs are fresh.

All are decided here, once per tick and GPU, for plausibility, counters, workload class, health and history. Time is
measured with the clock of the ticks, which never steps; the wall clock only dates events, and bridges a restart of the
clock. This module must not depend on any stage.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pulsed.compute.freshness import Freshness
from pulsed.compute.plausibility.rules import DEFAULT_PLAUSIBILITY, PlausibilitySettings
from pulsed.translate.tick import CanonicalTick, Device, Entity
from pulsed.translate.vocabulary import NOTHING

GAP_INTERVALS = 3.0
"""A sample that comes more than this many intervals after the previous one covers no time."""

ROUNDING = 1e-6
"""Tolerance of the gap limit, in intervals: clocks are floats."""

KEPT = 256
"""Number of absent GPUs that are remembered: their counters continue when they return."""

EXPECTED_SECONDS = 86400.0
"""A GPU seen within this time before a restart of the daemon counts as missing if it is absent after it."""

SampleKind = Literal["first", "next", "gap", "restart", "repeat"]
TrackStatus = Literal["new", "present", "back", "gone"]


class SampleDecision(NamedTuple):
    """How a sample relates to the previous counted sample.

    Attributes:
        kind: `first`: there is none; `next`: it follows closely; `gap`: it comes too late; `restart`: the clock of the
            source began anew; `repeat`: it is no newer (a duplicate, or out of order), and must not be counted.
        elapsed: seconds since the previous counted sample, 0 or more; by the wall clock after a restart of the clock; 0
            for `first` and `repeat`.
        covered: seconds of observed time that the sample stands for: `elapsed` of a `next` sample, else 0.
        gap_intervals: `elapsed` in intervals, for `gap` and `restart`; else 0.
    """

    kind: SampleKind
    elapsed: float = 0.0
    covered: float = 0.0
    gap_intervals: float = 0.0

    @property
    def is_interrupted(self) -> bool:
        """Whether time passed since the previous sample that no sample covers."""
        return self.kind == "gap" or self.kind == "restart"

    def continued(self, bridged: float) -> float:
        """Return the seconds since the previous sample if it still counts as recent, else 0.

        Args:
            bridged: length in seconds of the longest gap that does not separate two samples.
        """
        return self.elapsed if self.kind == "gap" and self.elapsed <= bridged else self.covered


FIRST = SampleDecision("first")
REPEAT = SampleDecision("repeat")


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
    """

    __slots__ = (
        "__weakref__",
        "_clock_restarts",
        "_sampled",
        "_start",
        "_tick",
        "decision",
        "device",
        "inputs",
        "key",
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
        self.now = self.time = 0.0
        self._start = start
        self._sampled = 0.0
        self._tick = 0
        self._clock_restarts = 0


@dataclass(frozen=True, slots=True, eq=False)
class Roster:
    """The GPUs of a tick; the same object for as long as they do not change.

    Attributes:
        tracks: one per device of the tick.
        boards: one per device: of a MIG instance or vGPU the track of its board, if that is in the tick; else its own.
        missing: whole GPUs that were in a tick before, and are not in this one, not even by a part.
    """

    tracks: tuple[GpuTrack, ...]
    boards: tuple[GpuTrack, ...]
    missing: tuple[GpuTrack, ...]


class TrackedTick(NamedTuple):
    """The decisions about one tick.

    Attributes:
        roster: the GPUs, each with the decision of its own sample.
        decision: of the tick as a whole: how it relates to the previous tick of the target.
    """

    roster: Roster
    decision: SampleDecision


class ExpectedGpu(NamedTuple):
    """A GPU that was there before a restart of the daemon.

    Attributes:
        device: what is known of it.
        last_seen: when it was seen last, in Unix seconds.
    """

    device: Device
    last_seen: float


class Tracker:
    """Identifies the GPUs of one target and decides what time their samples cover.

    A sample covers the time since the previous sample of the same GPU. It covers nothing if there is none, if it comes
    late, or if the clock began anew, as with another source behind the same name.

    Attributes:
        settings: how long values may be constant before they are stale.
    """

    def __init__(self, settings: PlausibilitySettings = DEFAULT_PLAUSIBILITY) -> None:
        self.settings = settings
        self._tracks: dict[str, GpuTrack] = {}
        """By key; those absent for longest come first."""
        self._places: dict[_Place, GpuTrack] = {}
        self._devices: tuple[Device, ...] | None = None
        self._roster = Roster((), (), ())
        self._is_settled = True
        self._expected: tuple[str, tuple[ExpectedGpu, ...]] = ("", ())
        self._clock: float | None = None
        self._clock_restarts = 0
        self._ticks = 0
        self._now = self._time = 0.0

    def expect(self, target: str, gpus: Iterable[ExpectedGpu]) -> None:
        """Register GPUs of an earlier run, so that they are missing if the first tick with GPUs does not have them.

        Args:
            target: what was read then; nothing is expected of another target.
            gpus: the GPUs. Those not seen for `EXPECTED_SECONDS` are ignored.
        """
        self._expected = (target, tuple(gpus))

    def track(self, tick: CanonicalTick) -> TrackedTick:
        """Decide about the next tick of the target."""
        limit = (GAP_INTERVALS + ROUNDING) * tick.interval
        is_new_roster = tick.devices is not self._devices
        if is_new_roster:
            self._leave_roster()
        before = self._ticks
        decision = self._decide(tick, limit)
        if is_new_roster:
            self._register(tick)
            self._is_settled = False
        elif not self._is_settled:
            self._is_settled = True
            for track in self._roster.tracks:
                track.status = "present"
        now, time = self._now, self._time
        is_new, interval, settings = decision.kind != "repeat", tick.interval, self.settings
        for track, reading in zip(self._roster.tracks, tick.readings, strict=True):
            is_apart = is_new_roster and track._tick != before
            track.decision = self._decide_apart(track, interval, limit) if is_apart else decision
            track.now, track.time = now - track._start, time
            if is_new:
                track.inputs.follow(reading, track.now, interval, settings)
        for track in self._roster.missing:
            track.now, track.time = now - track._start, time
            if is_new:
                track.inputs.follow(NOTHING, track.now, interval, settings)
        return TrackedTick(self._roster, decision)

    def _decide(self, tick: CanonicalTick, limit: float) -> SampleDecision:
        """Decide about a tick as a whole, and advance the time of the target."""
        if self._clock is None:
            decision = FIRST
        else:
            elapsed = tick.clock - self._clock
            if 0.0 < elapsed <= limit:
                decision = SampleDecision("next", elapsed, elapsed)
            elif elapsed > limit:
                decision = _late("gap", elapsed, tick.interval)
            elif elapsed < -limit:
                self._clock_restarts += 1
                decision = _late("restart", max(tick.time - self._time, 0.0), tick.interval)
            else:
                return REPEAT
        self._clock, self._time = tick.clock, tick.time
        self._now += decision.elapsed
        self._ticks += 1
        return decision

    def _decide_apart(self, track: GpuTrack, interval: float, limit: float) -> SampleDecision:
        """Decide about the sample of a GPU that was not in the previous tick."""
        if not track._tick:
            return FIRST
        elapsed = self._now - track._sampled
        if track._clock_restarts != self._clock_restarts:
            return _late("restart", elapsed, interval)
        return SampleDecision("next", elapsed, elapsed) if elapsed <= limit else _late("gap", elapsed, interval)

    # Which GPUs there are.

    def _leave_roster(self) -> None:
        """Note the time of the newest sample of all GPUs of the roster, which is that of the newest tick."""
        for track in self._roster.tracks:
            track._tick, track._clock_restarts, track._sampled = self._ticks, self._clock_restarts, self._now

    def _register(self, tick: CanonicalTick) -> None:
        """Find the tracks of new devices, and forget GPUs that have been absent for longest if there are too many."""
        self._devices = tick.devices
        if tick.devices:
            self._add_expected(tick)
        tracks: dict[str, GpuTrack] = {}
        boards: dict[tuple[str, str], GpuTrack] = {}
        for device in tick.devices:
            track = self._find(device, tracks)
            tracks[track.key] = track
            if device.entity.kind == "gpu":
                boards[_board(device.entity)] = track
        found = tuple(tracks.values())
        absent = [track for key, track in self._tracks.items() if key not in tracks]
        for track in absent:
            track.status = "gone"
        for track in absent[: max(0, len(absent) - KEPT)]:
            del self._tracks[track.key]
            if self._places.get(place := _place(track.device.entity)) is track:
                del self._places[place]
        self._roster = Roster(
            found,
            tuple([boards.get(_board(track.device.entity), track) for track in found]),
            tuple(
                [
                    track
                    for track in absent[max(0, len(absent) - KEPT) :]
                    if track.device.entity.kind == "gpu" and not _is_divided(track.device.entity, tick.devices)
                ]
            ),
        )

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
            track = GpuTrack(device, keys, self._now)
        elif track._tick:
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

    def _add_expected(self, tick: CanonicalTick) -> None:
        target, gpus = self._expected
        if target == tick.target:
            for device, last_seen in gpus:
                keys = _keys(device.entity)
                if tick.time - last_seen < EXPECTED_SECONDS and keys[0] not in self._tracks:
                    track = self._tracks[keys[0]] = GpuTrack(device, keys, self._now)
                    self._places[_place(device.entity)] = track
        self._expected = ("", ())


_Place = tuple[str, str, str, str, str]
"""Where a GPU is, whatever its UUID: kind, node, index, MIG id and MIG profile."""


def _late(kind: SampleKind, elapsed: float, interval: float) -> SampleDecision:
    return SampleDecision(kind, elapsed, 0.0, elapsed / interval if interval > 0.0 else GAP_INTERVALS + 1.0)


def _keys(entity: Entity) -> tuple[str, ...]:
    """Return the key of a device, then others under which it may have been saved."""
    key = f"{entity.node}|{entity.uuid or f'gpu {entity.gpu}'}"
    if entity.kind == "gpu":
        return (key,)
    key = f"{key}|{entity.kind}|{entity.mig_id}"
    return (f"{key}|{entity.mig_profile}", key) if entity.mig_profile else (key,)


def _place(entity: Entity) -> _Place:
    return (entity.kind, entity.node, entity.gpu, entity.mig_id, entity.mig_profile)


def _board(entity: Entity) -> tuple[str, str]:
    return (entity.node, entity.uuid or entity.gpu)


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
