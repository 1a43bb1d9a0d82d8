"""Health of all GPUs of one target, sample by sample, with those that are missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pulsed.compute.absence import ExpectedGpu
from pulsed.compute.gpu_tracks import GpuTrack
from pulsed.compute.health.check import HISTORY_SECONDS
from pulsed.compute.health.gpu import EnabledChecks, GpuHealth, NodeFacts
from pulsed.compute.health.link_faults import LINK_XIDS, fault_text, link_severity
from pulsed.compute.health.link_origins import LinkOrigins, faults_of
from pulsed.compute.health.saved_state import SavedGpuState, dumped, restore, save, validated
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.sample import SampleDecision
from pulsed.compute.tracker import TickGpus, TrackedTick, Tracker
from pulsed.model.canonical_tick import CanonicalTick
from pulsed.model.gpu import Device
from pulsed.model.health import Health, HealthChange, XidEvent
from pulsed.model.raw_tick import KernelEvent, Layout
from pulsed.model.vocabulary import NOTHING, Reading

FORGET_SECONDS = HISTORY_SECONDS
"""Age at which saved health is dropped: nothing in it matters for longer."""

EMPTY_POLLS = 2
"""Samples in a row without any GPU that are tolerated."""

EMPTY_SECONDS = 60.0
"""Time without any GPU that is tolerated: an exporter that has just been started has none yet, dcgm-exporter for its
interval of 30 s by default."""

MOST_WAITING_EVENTS = 1000
"""Messages of the kernel log that wait for a tick that is evaluated; older ones are dropped."""


@dataclass(frozen=True, slots=True)
class LostGpu:
    """A GPU that is missing since a time in Unix seconds: `gpu_lost` is critical, latched states are kept."""

    track: GpuTrack
    device: Device
    since: float
    last_seen: float
    health: Health


@dataclass(frozen=True, slots=True)
class HealthTick:
    """Health of all devices after one sample.

    Attributes:
        healths: one per device of the sample; a MIG instance or vGPU has the very object of its board.
        changes: caused by this sample.
        clock_event_shares: one per device: by reason, the share of the last minute in which the clocks were reduced
            for it (`power_cap`, `sw_thermal`, ...), benign reasons included.
        xids: that happened since the sample before.
    """

    healths: tuple[Health, ...]
    lost: tuple[LostGpu, ...]
    changes: tuple[HealthChange, ...] = ()
    clock_event_shares: tuple[tuple[tuple[str, float], ...], ...] = ()
    xids: tuple[XidEvent, ...] = ()


class HealthEvaluator:
    """Evaluates the health of all GPUs of one target, in the order of its ticks.

    Args:
        settings: the checks and their thresholds.
        tracker: of the target; `restore` registers the GPUs of the saved state with it.
        origins: the faults of NVLinks of all targets.
        here: the node of GPUs whose source does not name it.
    """

    def __init__(
        self, settings: HealthSettings, tracker: Tracker, origins: LinkOrigins | None = None, here: str = ""
    ) -> None:
        self._enabled = EnabledChecks(settings)
        self._tracker = tracker
        self._origins, self._here = origins or LinkOrigins(), here
        self._gpus: WeakKeyDictionary[GpuTrack, GpuHealth] = WeakKeyDictionary()
        self._restored: dict[str, SavedGpuState] = {}
        self._target = ""
        self._tick_gpus: TickGpus | None = None
        self._gpu_of_device: list[GpuHealth] = []
        self._boards: list[tuple[int, GpuTrack, GpuHealth]] = []
        self._missing: list[tuple[GpuTrack, GpuHealth]] = []
        self._empty, self._empty_seconds = 0, 0.0
        self._waiting_events: tuple[KernelEvent, ...] = ()
        self._layout: Layout | None = None
        self._time = 0.0

    @property
    def latched(self) -> Mapping[str, int]:
        """By GPU a number; they change with everything that must survive a restart."""
        return dict.fromkeys(self._restored, -1) | {track.key: gpu.latched for track, gpu in self._gpus.items()}

    def reconfigure(self, settings: HealthSettings) -> None:
        """Continue with other settings; latched states stay, rates and shares start again."""
        if settings == self._enabled.settings:
            return
        self._enabled = EnabledChecks(settings)
        for track, old in self._gpus.items():
            new = self._gpus[track] = self._new_gpu(track, old.device)
            restore(new, save(old), old.time)
            new.started, new.inputs.xids.begun = old.started, old.inputs.xids.begun
        self._tick_gpus = None

    def evaluate(self, tick: CanonicalTick, readings: Sequence[Reading], tracked: TrackedTick) -> HealthTick:
        """Evaluate the health of all devices of a tick.

        Args:
            tick: the sample.
            readings: one per device, without implausible inputs.
            tracked: what the tracker decided about it.
        """
        gpus, decision, removed, _ = tracked
        for track in removed:
            self._drop(track)
        if gpus is not self._tick_gpus:
            self._target = tick.target
            self._enroll(gpus)
        self._empty_seconds = self._empty_seconds + decision.elapsed if self._empty else 0.0
        self._empty = 0 if tick.devices else self._empty + 1
        extras, events = tick.extras, self._due_events(tick, decision)
        is_layout_new, self._layout = tick.layout is not self._layout, tick.layout
        node = NodeFacts(
            tick.interval,
            tick.epoch,
            has_peers=any([track.inputs.is_answered for track in gpus.tracks]),  # noqa: C419  # a hot path
            reads_kernel_log=tick.kernel_events is not None,
            is_layout_new=is_layout_new,
        )
        taken: list[tuple[int, GpuHealth]] = []
        for position, track, gpu in self._boards:
            gpu.take(
                track,
                decision if track.status == "back" else track.decision,  # it was taken while it was missing
                readings[position],
                node,
                extras.get(position) if extras else None,
                _events_of(events, track) if events else (),
            )
            taken.append((position, gpu))
        if self._missing and not self._is_empty_tolerated:
            node = node._replace(has_peers=True, is_layout_new=False)
            for track, gpu in self._missing:
                gpu.take(track, decision, NOTHING, node, kernel_events=_events_of(events, track))
                taken.append((-1, gpu))
        changes: list[HealthChange] = []
        xids: list[XidEvent] = []
        for position, gpu in taken:  # all were taken before: a fault of one may follow from that of another
            xids += _new_xids(gpu)
            if gpu.is_due:
                before = gpu.health
                gpu.evaluate()
                changes += _changes(position, gpu, before)
        self._time = tick.time
        return self._tick(changes, xids)

    @property
    def _is_empty_tolerated(self) -> bool:
        """Whether the tick has no GPU, and so few before it had none that the source may still be starting."""
        return self._empty > 0 and (self._empty <= EMPTY_POLLS or self._empty_seconds < EMPTY_SECONDS)

    def _due_events(self, tick: CanonicalTick, decision: SampleDecision) -> tuple[KernelEvent, ...]:
        """Return the kernel's messages to evaluate; those of a tick that is not evaluated wait for the next one."""
        if tick.kernel_events is None:
            return ()
        events = (*self._waiting_events, *tick.kernel_events)
        is_skipped = decision.kind == "repeat" or self._is_empty_tolerated
        self._waiting_events = events[-MOST_WAITING_EVENTS:] if is_skipped else ()
        return () if is_skipped else events

    def forget(self, track: GpuTrack) -> HealthTick | None:
        """Drop the state of an absent GPU that the tracker has forgotten; return the health of the others.

        Returns:
            None if nothing was evaluated so far.
        """
        self._drop(track)
        self._missing = [one for one in self._missing if one[0] is not track]
        return self._tick() if self._time else None

    def _drop(self, track: GpuTrack) -> None:
        self._gpus.pop(track, None)
        for key in (track.key, *track.other_keys):
            self._restored.pop(key, None)
            self._origins.report(self._origin_key(key), ())

    def dump(self) -> dict[str, object]:
        """Return the state that must survive a restart: small, plain JSON."""
        restored = dict(self._restored)
        return dumped(self._target, restored | {track.key: save(gpu) for track, gpu in self._gpus.items()})

    def restore(self, document: Mapping[str, object], now: float) -> None:
        """Continue with saved state, before the first tick.

        Args:
            document: what `dump` returned.
            now: in Unix seconds.

        Raises:
            ValueError: it is something else, or of another version. Nothing was restored then.
        """
        saved = validated(document)
        self._restored = {key: gpu for key, gpu in saved.gpus.items() if now - gpu.saved < FORGET_SECONDS}
        self._target = saved.target
        for key, gpu in self._restored.items():  # before any target is read: else a follower is an origin until then
            faults = faults_of(gpu.xids, gpu.saved - gpu.now, gpu.device, self._here, ())
            self._origins.report(self._origin_key(key), faults)
        boards = [gpu for gpu in self._restored.values() if gpu.entity.kind == "gpu"]
        self._tracker.absence.expect(
            saved.target, [ExpectedGpu(gpu.device, gpu.last_seen, gpu.boot_id) for gpu in boards]
        )

    def _enroll(self, gpus: TickGpus) -> None:
        """Find the state of the GPUs of a tick; a part of a board shares the board's."""
        self._tick_gpus = gpus
        self._boards, health = [], {}
        for position, track in enumerate(gpus.tracks):
            if gpus.boards[position] is track:
                health[track] = self._find(track)
                self._boards.append((position, track, health[track]))
        self._gpu_of_device = [health[board] for board in gpus.boards]
        known = [track for track in gpus.missing if track in self._gpus or _saved_key(track, self._restored)]
        self._missing = [(track, gpu) for track in known if (gpu := self._find(track)).reachability.last_seen]

    def _find(self, track: GpuTrack) -> GpuHealth:
        gpu = self._gpus.get(track)
        if gpu is None:
            gpu = self._gpus[track] = self._new_gpu(track, track.device)
            key = _saved_key(track, self._restored)
            if key:
                restore(gpu, self._restored.pop(key), track.time)
                if key != track.key:
                    self._origins.report(self._origin_key(key), ())
        return gpu

    def _new_gpu(self, track: GpuTrack, device: Device) -> GpuHealth:
        return GpuHealth(self._enabled, device, self._origins, self._origin_key(track.key), self._here)

    def _origin_key(self, key: str) -> str:
        return f"{self._target} {key}"

    def _tick(self, changes: Sequence[HealthChange] = (), xids: Sequence[XidEvent] = ()) -> HealthTick:
        return HealthTick(
            tuple([gpu.health for gpu in self._gpu_of_device]),
            tuple([_lost(track, gpu, self._time) for track, gpu in self._missing if gpu.is_lost]),
            tuple(changes),
            tuple([gpu.inputs.clock_events.shares for gpu in self._gpu_of_device]),
            tuple(xids),
        )


def _events_of(events: tuple[KernelEvent, ...], track: GpuTrack) -> tuple[KernelEvent, ...]:
    """Return the kernel's messages about a GPU, which they name by its PCI address."""
    address = track.device.pci_bus_id
    return tuple([event for event in events if event.pci_bus_id == address and event.kind in ("xid", "bus_loss")])


def _saved_key(track: GpuTrack, saved: Mapping[str, SavedGpuState]) -> str:
    """Return the key under which the state of a GPU was saved; empty if there is none."""
    return next((key for key in (track.key, *track.other_keys) if key in saved), "")


def _lost(track: GpuTrack, gpu: GpuHealth, time: float) -> LostGpu:
    since, last_seen = gpu.reachability.missed_since, gpu.reachability.last_seen
    return LostGpu(track, gpu.device, since or time, last_seen, gpu.health)


def _changes(position: int, gpu: GpuHealth, before: Health) -> list[HealthChange]:
    found = [
        HealthChange(position, new.id, old.state, new.state, gpu.time, new.message, new.remedy, gpu.device)
        for old, new in gpu.changes
    ]
    after, whole = gpu.health, before.state
    if whole != after.state and (before.checks or after.severity > 0):
        applying = [check for check in after.checks if check.applies]
        worst = max(applying, key=lambda check: check.severity, default=None)
        message, remedy = (worst.message, worst.remedy) if worst is not None else ("", "")
        found.append(HealthChange(position, "", whole, after.state, gpu.time, message, remedy, gpu.device))
    return found


def _new_xids(gpu: GpuHealth) -> Iterator[XidEvent]:
    """Yield the XIDs that happened since the sample before."""
    for code, count in gpu.xids.items():
        record = gpu.inputs.xids.records.get(code)
        if record is not None:  # else there are too many codes
            severity = gpu.severity_of_xid(code)
            if code in LINK_XIDS:
                severity = link_severity(code, severity, record.fault)
            cause = f"caused by XID {record.cause}" if record.cause else ""
            detail = fault_text(code, record.fault, record.fault.link) if record.fault else cause
            yield XidEvent(gpu.device, code, severity, gpu.epoch + record.last, count, record.count, detail)
