"""Health of all GPUs of one target, sample by sample, with those that are missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pulsed.compute.absence import ExpectedGpu
from pulsed.compute.gpu_table import GpuState, GpuTable
from pulsed.compute.health.check import HISTORY_SECONDS
from pulsed.compute.health.gpu import GpuHealth, NodeFacts, Presence
from pulsed.compute.health.link_faults import LINK_XIDS, fault_text, link_severity
from pulsed.compute.health.xid_log import XidRecord
from pulsed.compute.health.xids import RECOVERY_ADVICE
from pulsed.compute.sample import SampleDecision
from pulsed.compute.saved_state import SavedGpuState, dumped, validated
from pulsed.compute.target_gpus import TrackedTick, Tracker
from pulsed.model.canonical_tick import CanonicalTick
from pulsed.model.gpu import Device
from pulsed.model.health import Health, HealthChange, XidEvent
from pulsed.model.host import NVIDIA_DRIVER
from pulsed.model.raw_tick import KernelEvent, Layout
from pulsed.model.vocabulary import NOTHING, Reading

FORGET_SECONDS = HISTORY_SECONDS
"""Age at which saved health is dropped: nothing in it matters for longer."""

MAX_WAITING_EVENTS = 1000
"""Messages of the kernel log that wait for a tick that is evaluated; older ones are dropped."""


@dataclass(frozen=True, slots=True)
class MissingGpu:
    """A GPU that is missing since a time in Unix seconds: `gpu_lost` or `telemetry` is raised, latches are kept."""

    state: GpuState
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
    missing: tuple[MissingGpu, ...]
    changes: tuple[HealthChange, ...] = ()
    clock_event_shares: tuple[tuple[tuple[str, float], ...], ...] = ()
    xids: tuple[XidEvent, ...] = ()


class HealthEvaluator:
    """Evaluates the health of all GPUs of one target, in the order of its ticks.

    Args:
        table: the states of all GPUs.
        tracker: of the target; `restore` registers the GPUs of the saved state with it.
        here: the node of GPUs whose source does not name it.
    """

    def __init__(self, table: GpuTable, tracker: Tracker, here: str = "") -> None:
        self._table, self._tracker, self._here = table, tracker, here
        self._target = ""
        self._waiting_events: tuple[KernelEvent, ...] = ()
        self._named: set[str] = set()
        """GPUs that the kernel log has named since the source lists none; they are shown without a sample."""
        self._layout: Layout | None = None

    def concern(self, events: tuple[KernelEvent, ...]) -> bool:
        """Return whether any of these messages, or of those that wait, is about a GPU that the target had."""
        waiting = (*self._waiting_events, *events)
        return any(_events_of(waiting, state) for state in self._table.absent(self._tracker, ()))

    def defer(self, events: tuple[KernelEvent, ...]) -> None:
        """Evaluate these messages with the next tick."""
        self._waiting_events = (*self._waiting_events, *events)[-MAX_WAITING_EVENTS:]

    @property
    def latched(self) -> Mapping[str, int]:
        """By GPU a number; they change with everything that must survive a restart."""
        return self._table.latched(self._tracker)

    def evaluate(self, tick: CanonicalTick, readings: Sequence[Reading], tracked: TrackedTick) -> HealthTick:
        """Evaluate the health of all devices of a tick.

        Args:
            tick: the sample.
            readings: one per device, without implausible inputs.
            tracked: what the tracker decided about it.
        """
        gpus, decision = tracked.gpus, tracked.decision
        raw = tick.raw
        self._target = raw.target
        events = () if tick.kernel_events is None else self._due_events(tick.kernel_events, decision)
        is_layout_new, self._layout = raw.layout != self._layout, raw.layout
        node = NodeFacts(
            raw.interval,
            tick.epoch,
            has_peers=tracked.is_answered,
            reads_kernel_log=tick.kernel_events is not None,
            is_layout_new=is_layout_new,
        )
        updated: list[tuple[int, GpuHealth]] = []
        for position, (state, board) in enumerate(zip(gpus.states, gpus.boards, strict=True)):
            if state is not board or position in tracked.duplicates:
                continue
            gpu = self._table.health_of(state)
            # The health of one that is back was updated while it was missing.
            sample = state.sample(decision if state.status == "back" else state.decision)
            own_events = _events_of(events, state) if events else ()
            reading, delivered = readings[position], tick.readings[position]
            gpu.record_sample(sample, reading, delivered, node, tick.extras.get(position), own_events)
            updated.append((position, gpu))
        if tick.lists_gpus:
            self._named.clear()
        missing = [(state, health) for state in gpus.missing if (health := self._health_of_missing(state)) is not None]
        node = node._replace(is_layout_new=False)
        for state, gpu in missing:
            own_events = _events_of(events, state)
            if own_events and not tick.lists_gpus:
                self._named.add(state.key)
            # A source without any GPU is not evidence about one of them.
            if tick.lists_gpus or own_events or gpu.has_fallen_off_bus:
                presence = _presence(state.device, tick)
                sample = state.sample(decision)
                gpu.record_sample(sample, NOTHING, NOTHING, node, kernel_events=own_events, presence=presence)
                updated.append((-1, gpu))
        changes, xids = self._evaluate(updated)
        boards = [self._table.health_of(board) for board in gpus.boards]
        return HealthTick(
            tuple([gpu.health for gpu in boards]),
            tuple(
                [_missing(state, gpu, raw.time) for state, gpu in missing if gpu.is_missing or state.key in self._named]
            ),
            tuple(changes),
            tuple([gpu.inputs.clock_events.shares for gpu in boards]),
            tuple(xids),
        )

    def _health_of_missing(self, state: GpuState) -> GpuHealth | None:
        """Return the health of a GPU that is missing; None if it never answered."""
        if state.health is None and not self._table.was_saved(state):
            return None
        health = self._table.health_of(state)
        return health if health.reachability.last_seen else None

    def _evaluate(self, updated: Sequence[tuple[int, GpuHealth]]) -> tuple[list[HealthChange], list[XidEvent]]:
        """Evaluate the GPUs that are due, by position.

        The samples of all GPUs were recorded before, because a fault of one may follow from that of another.
        """
        changes: list[HealthChange] = []
        xids: list[XidEvent] = []
        verdicts = self._table.fault_verdicts() if any(gpu.is_due and gpu.faults for _, gpu in updated) else {}
        for position, gpu in updated:
            if gpu.xids:
                xids += _new_xids(gpu)
            if gpu.is_due:
                before = gpu.health
                gpu.evaluate(verdicts)
                if gpu.changes or gpu.health.state != before.state:
                    changes += _changes(position, gpu, before)
        return changes, xids

    def _due_events(self, new: tuple[KernelEvent, ...], decision: SampleDecision) -> tuple[KernelEvent, ...]:
        """Return the kernel's messages to evaluate; those of a tick that is not evaluated wait for the next one."""
        events = (*self._waiting_events, *new)
        is_skipped = decision.kind == "repeat"
        self._waiting_events = events[-MAX_WAITING_EVENTS:] if is_skipped else ()
        return () if is_skipped else events

    def dump(self) -> dict[str, object]:
        """Return the state that must survive a restart: small, plain JSON."""
        return dumped(self._target, self._table.save(self._tracker))

    def restore(self, document: Mapping[str, object], now: float) -> None:
        """Continue with saved state, before the first tick.

        Args:
            document: what `dump` returned.
            now: in Unix seconds.

        Raises:
            ValueError: it is something else, or of another version. Nothing was restored then.
        """
        saved = validated(document)
        recent = {key: gpu for key, gpu in saved.gpus.items() if now - gpu.saved < FORGET_SECONDS}
        self._target = saved.target
        by_key = {self._key(key, gpu): gpu for key, gpu in recent.items()}
        self._table.restore(self._tracker, by_key, self._here)
        self._tracker.absence.expect(
            saved.target,
            [
                ExpectedGpu(gpu.device, gpu.last_seen, gpu.boot_id)
                for gpu in recent.values()
                if gpu.entity.kind == "gpu"
            ],
        )

    def _key(self, key: str, gpu: SavedGpuState) -> str:
        """Return the key of a saved GPU in the table: the file of an earlier version has none of this node."""
        return f"{self._here}{key}" if key.startswith("|") and not gpu.entity.node else key


def _events_of(events: tuple[KernelEvent, ...], state: GpuState) -> tuple[KernelEvent, ...]:
    """Return the kernel's messages about a GPU, which they name by its PCI address."""
    address = state.device.pci_bus_id
    return tuple([event for event in events if event.pci_bus_id == address and event.kind in ("xid", "bus_loss")])


def _presence(device: Device, tick: CanonicalTick) -> Presence:
    """Return whether the driver or the PCI bus shows that a GPU that is not in a tick is lost.

    It is if it has no driver while another GPU has NVIDIA's.
    """
    drivers = tick.pci_drivers
    is_without_driver = drivers.get(device.pci_bus_id) == "" and NVIDIA_DRIVER in drivers.values()
    return "lost" if device.entity.uuid in tick.raw.lost or is_without_driver else "unlisted"


def _missing(state: GpuState, gpu: GpuHealth, time: float) -> MissingGpu:
    return MissingGpu(state, gpu.device, gpu.reachability.missed_since or time, gpu.reachability.last_seen, gpu.health)


def _changes(position: int, gpu: GpuHealth, before: Health) -> list[HealthChange]:
    changes = [
        HealthChange(position, new.id, old.state, new.state, gpu.time, new.message, new.remedy, gpu.device)
        for old, new in gpu.changes
    ]
    after, whole = gpu.health, before.state
    if whole != after.state and (before.checks or after.severity > 0):
        applying = [check for check in after.checks if check.applies]
        worst = max(applying, key=lambda check: check.severity, default=None)
        message, remedy = (worst.message, worst.remedy) if worst is not None else ("", "")
        changes.append(HealthChange(position, "", whole, after.state, gpu.time, message, remedy, gpu.device))
    return changes


def _new_xids(gpu: GpuHealth) -> Iterator[XidEvent]:
    """Yield the XIDs that happened since the sample before."""
    for code, count in gpu.xids.items():
        record = gpu.inputs.xids.records.get(code)
        if record is not None:  # otherwise there are too many codes
            severity = gpu.severity_of_xid(code)
            if code in LINK_XIDS:
                severity = link_severity(code, severity, record.fault)
            detail = fault_text(code, record.fault, record.fault.link) if record.fault else _detail(record)
            yield XidEvent(gpu.device, code, severity, gpu.epoch + record.last, count, record.count, detail)


def _detail(record: XidRecord) -> str:
    """Return what the driver states in addition to the code."""
    if record.cause:
        return f"caused by XID {record.cause}"
    if record.action is None:
        return ""
    advice = RECOVERY_ADVICE.get(record.action)
    return f"recovery action {record.action}" + (f": {advice}" if advice else "")
