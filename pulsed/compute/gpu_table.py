"""All that is remembered of GPUs between samples: one state for each, and the table of all of them.

One target has a GPU: the first that delivers it. When that one is late, is gone, or does not list the GPU any more, the
next one that does continues the state, and keeps it. Only this module decides which GPU a device of a tick is.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, NamedTuple, Protocol

from pulsed.compute.accumulator import Accumulator
from pulsed.compute.activity import CycleRatios
from pulsed.compute.dead_counters import UnmeasuredZeros
from pulsed.compute.derived_results import Deriver
from pulsed.compute.health.gpu import EnabledChecks, GpuHealth
from pulsed.compute.plausibility_filter import PlausibilityFilter, PlausibilityLimits
from pulsed.compute.sample import FIRST, NEVER, ROUNDING, Freshness, Moment, SampleDecision, TrackedSample, is_measured
from pulsed.compute.saved_state import SavedGpuState, restore, restore_checks, save
from pulsed.compute.settings import ComputeSettings
from pulsed.compute.workload import ClassDebouncer
from pulsed.model.clocks import EPOCH, GPU_START, START, GpuSeconds, Monotonic, Unix
from pulsed.model.gpu import Device, Entity, EntityLocation
from pulsed.model.owner import Owners
from pulsed.model.tick import GpuRow, lasting
from pulsed.model.vocabulary import NOTHING, Reading

LATE_INTERVALS = 2.0
"""A target is late after this number of its intervals without a value of a GPU: another one then continues it."""


class TargetTracker(Protocol):
    """The target that has a GPU.

    Attributes:
        name: as of its newest tick.
    """

    name: str


GpuStatus = Literal["new", "present", "back", "gone"]


class LentOwners(NamedTuple):
    """The owners of a GPU by a target that lists it and does not have it.

    Attributes:
        until: when they no longer count, in seconds of the clock of the ticks.
    """

    owners: Owners
    until: Monotonic


@dataclass(slots=True, eq=False)
class GpuState:
    """One GPU, MIG instance or vGPU: all that is remembered of it between samples, and the only place for it.

    Attributes:
        key: identifies it among the GPUs of all targets, across restarts of the daemon.
        other_keys: keys under which it may have been saved: before its UUID was known, or without its MIG profile.
        device: as last seen.
        node: its host.
        started: when it was first seen, in seconds of the clock of the ticks.
        unmeasured, plausibility, debouncer, health, counters: the stages that keep state; `health` is None for a part
            of a board, and `counters` before the first sample.
        target: the one that has it; None if that target is gone.
        claimed_until: when that target is late, in seconds of the clock of the ticks.
        row: its newest row, in the newest tick of its target.
        delivered: the reading of that row, with implausible inputs.
        split_board: of a part whose board is in the tick, the state of that; otherwise None.
        is_page_old: whether its target continued it from another one, and its values have not changed since.
        lent: its owners by another target that lists it; None without.
        status: `new`: this is its first sample; `present`; `back`: it was absent from the tick before; `gone`: it is
            absent from the newest tick of its target.
        decision: of its newest sample.
        inputs: freshness of its inputs.
        cycles: its cycle counters.
        now: seconds since its first sample; never decreases, and grows even while the GPU is absent.
        time: of the newest tick of its target, in Unix seconds.
        interval: nominal seconds between two samples of its target.
        last_sample: the tick of its newest sample, up to date while it is absent.
        gone_at: when it became absent, in seconds of the clock of the ticks; `inf` for a board that is there by its
            parts.
        last_seen: when an absent GPU was in a tick last, in Unix seconds; 0 if it was in none before.
        missed_since: the first tick without an absent GPU, in seconds of the clock of the ticks.
    """

    key: str
    other_keys: tuple[str, ...]
    device: Device
    node: str
    started: Monotonic
    unmeasured: UnmeasuredZeros = field(default_factory=UnmeasuredZeros)
    plausibility: PlausibilityFilter = field(default_factory=PlausibilityFilter)
    debouncer: ClassDebouncer = field(default_factory=ClassDebouncer)
    target: TargetTracker | None = None
    is_page_old: bool = False
    row: GpuRow = field(init=False)
    delivered: Reading = NOTHING
    split_board: GpuState | None = None
    lent: LentOwners | None = None
    health: GpuHealth | None = None
    counters: Accumulator | None = None
    claimed_until: Monotonic = START
    status: GpuStatus = "new"
    decision: SampleDecision = FIRST
    inputs: Freshness = field(default_factory=Freshness)
    cycles: CycleRatios = field(default_factory=CycleRatios)
    now: GpuSeconds = GPU_START
    time: Unix = EPOCH
    interval: float = 0.0
    last_sample: Moment = NEVER
    gone_at: Monotonic = START
    last_seen: Unix = EPOCH
    missed_since: Monotonic = START

    def __post_init__(self) -> None:
        self.row = lasting(self.device, EPOCH, "unlisted")

    @property
    def board(self) -> GpuState:
        """Of a part whose board is in the tick, the state of that; otherwise itself, which it must not refer to."""
        return self.split_board or self

    def sample(self, decision: SampleDecision) -> TrackedSample:
        """Return the newest sample, with a decision about it."""
        return TrackedSample(self.device, decision, self.inputs, self.now, self.time)

    def may_continue(self, reading: Reading, now: Monotonic) -> bool:
        """Return whether another target with a reading of it may continue it at this moment.

        Blanks take it from no target that still lists it.
        """
        return self.is_free(now) and (is_measured(reading) or not self._is_listed(now))

    def is_free(self, now: Monotonic) -> bool:
        """Return whether another target may update it from this moment of the clock of the ticks on."""
        return self.target is None or self.status == "gone" or self.counters is None or now > self.claimed_until

    def _is_listed(self, now: Monotonic) -> bool:
        """Return whether a target that is not late has it in its newest tick."""
        is_known = self.target is not None and self.status != "gone" and self.counters is not None
        return is_known and now - (self.started + self.now) <= LATE_INTERVALS * self.interval + ROUNDING


MAX_UNREAD = 1024
"""GPUs whose target is gone that are remembered: an exporter that is replaced is another target."""


def keys_of(entity: Entity, here: str) -> tuple[str, ...]:
    """Return the unique key of a device among all targets, then other keys under which it may have been saved.

    Args:
        here: the node of a device whose source does not name it.
    """
    is_of_node = bool(entity.node or entity.uuid)
    return tuple([key if is_of_node else f"{here}{key}" for key in entity.saved_keys])


class GpuTable:
    """The states of all GPUs, by key.

    Args:
        settings: of all stages.

    Attributes:
        deriver: derives the results of a sample by these settings.
        plausibility: the limits of inputs by these settings.
    """

    def __init__(self, settings: ComputeSettings | None = None) -> None:
        settings = settings or ComputeSettings()
        self._checks = EnabledChecks(settings.health)
        self._by_key: dict[str, GpuState] = {}
        """Those absent for longest come first."""
        self._by_location: dict[EntityLocation, GpuState] = {}
        self._saved: dict[str, tuple[TargetTracker, SavedGpuState]] = {}
        """GPUs of an earlier run that their target has not shown again yet, with that target."""
        self.configure(settings)

    def __contains__(self, state: GpuState) -> bool:
        return self._by_key.get(state.key) is state

    def configure(self, settings: ComputeSettings) -> None:
        """Compute by these settings from the next tick on; counters and latched health continue."""
        self.settings, self.deriver = settings, Deriver(settings)
        self.plausibility = PlausibilityLimits(settings.plausibility)
        if settings.health == self._checks.settings:
            return
        self._checks = EnabledChecks(settings.health)
        for state in self._by_key.values():
            if (health := state.health) is not None:
                saved = save(health)
                restore_checks(health.use(self._checks), saved, health.now)

    def find(
        self, device: Device, here: str, target: TargetTracker, used_keys: Collection[str], now: Monotonic
    ) -> GpuState:
        """Return the state of a device of a tick, a new one if it is unknown.

        Args:
            here: the node of a device whose source does not name it.
            target: the target of the tick.
            used_keys: the keys of the states of other devices of the tick.
            now: seconds of the clock of the ticks.
        """
        keys = keys_of(device.entity, here)
        while keys[0] in used_keys:  # the source does not distinguish two devices
            keys = (f"{keys[0]}|again",)
        state = self._by_key.pop(keys[0], None)
        if state is None:
            state = self._find_at_location(device.entity, here, target, used_keys, now)
            if state is None:
                state = self._new(device, here, keys, now)
            else:
                del self._by_key[state.key]
                state.other_keys = (state.key, *state.other_keys)
                state.key = keys[0]
        if state.target is target or state.is_free(now):
            self._leave_location(state)
            state.device = device
        self._add(state)
        return state

    def add(self, device: Device, here: str, now: Monotonic) -> GpuState | None:
        """Return the new state of a GPU that is in no tick; None if it is known."""
        keys = keys_of(device.entity, here)
        if keys[0] in self._by_key:
            return None
        state = self._new(device, here, keys, now)
        self._add(state)
        return state

    def absent(self, target: TargetTracker, keys: Container[str]) -> list[GpuState]:
        """Return the states of a target with other keys, those absent for longest first."""
        return [state for key, state in self._by_key.items() if state.target is target and key not in keys]

    def release(self, target: TargetTracker) -> None:
        """Let other targets continue the GPUs of a target that is gone. Too many of them are forgotten."""
        for state in self._by_key.values():
            if state.target is target:
                state.target = None
        unread = [state for state in self._by_key.values() if state.target is None]
        for state in islice(unread, max(0, len(unread) - MAX_UNREAD)):
            self.forget(state)

    def forget(self, state: GpuState) -> None:
        """Forget a GPU, and if it is a board its MIG instances and vGPUs. If it returns, it is another one."""
        is_board = state.device.entity.kind == "gpu"
        parts = [part for key, part in self._by_key.items() if is_board and key.startswith(f"{state.key}|")]
        for forgotten in (state, *parts):
            for key in (forgotten.key, *forgotten.other_keys):
                self._saved.pop(key, None)
            self._by_key.pop(forgotten.key, None)
            self._leave_location(forgotten)

    def health_of(self, state: GpuState) -> GpuHealth:
        """Return the health of a board; health from an earlier run continues."""
        if state.health is None:
            state.health = GpuHealth(self._checks, state.device, state.node)
            for key in (state.key, *state.other_keys):
                if (saved := self._saved.pop(key, None)) is not None:
                    restore(state.health, saved[1], state.time)
                    if saved[0] is not state.target:
                        state.health.change_source()
                    break
        return state.health

    def was_saved(self, state: GpuState) -> bool:
        """Return whether the health of an earlier run waits for a GPU."""
        return not self._saved.keys().isdisjoint((state.key, *state.other_keys))

    def save(self, target: TargetTracker) -> dict[str, SavedGpuState]:
        """Return what must survive a restart of the GPUs of a target, by key."""
        waiting = {key: gpu for key, (of_target, gpu) in self._saved.items() if of_target is target}
        return waiting | {state.key: save(health) for state, health in self._healths(target)}

    def latched(self, target: TargetTracker) -> dict[str, int]:
        """Return by GPU a number; they change with everything that `save` returns."""
        waiting = {key: -1 for key, (of_target, _) in self._saved.items() if of_target is target}
        return waiting | {state.key: health.latched for state, health in self._healths(target)}

    def restore(self, target: TargetTracker, saved: Iterable[SavedGpuState], here: str) -> None:
        """Continue with GPUs that a target had in an earlier run when they are seen."""
        self._saved |= {keys_of(gpu.entity, here)[0]: (target, gpu) for gpu in saved}

    def _healths(self, target: TargetTracker) -> Iterator[tuple[GpuState, GpuHealth]]:
        for state in self._by_key.values():
            if state.target is target and state.health is not None:
                yield state, state.health

    def _new(self, device: Device, here: str, keys: tuple[str, ...], now: Monotonic) -> GpuState:
        return GpuState(keys[0], keys[1:], device, device.entity.node or here, now)

    def _add(self, state: GpuState) -> None:
        self._by_key[state.key] = state
        self._by_location[_location(state)] = state

    def _leave_location(self, state: GpuState) -> None:
        if self._by_location.get(location := _location(state)) is state:
            del self._by_location[location]

    def _find_at_location(
        self, entity: Entity, here: str, target: TargetTracker, used_keys: Container[str], now: Monotonic
    ) -> GpuState | None:
        """Return the state of a GPU whose UUID has become known only now, or is not known any more."""
        state = self._by_location.get((entity.kind, entity.node or here, *entity.location[2:])) if entity.gpu else None
        if state is None or state.key in used_keys or (state.device.entity.uuid and entity.uuid):
            return None
        return state if state.target is target or state.is_free(now) else None


def _location(state: GpuState) -> EntityLocation:
    kind, _, *rest = state.device.entity.location
    return (kind, state.node, *rest)  # type: ignore[return-value]  # three texts
