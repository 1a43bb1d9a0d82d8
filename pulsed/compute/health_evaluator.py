"""Health of all GPUs of one target, sample by sample, with those that are missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pulsed.compute.gpu_table import GpuState, GpuTable
from pulsed.compute.health.check import HISTORY_SECONDS
from pulsed.compute.health.gpu import GpuHealth, NodeFacts
from pulsed.compute.health.link_faults import LINK_XIDS, LinkDown, fault_text, link_severity
from pulsed.compute.health.xid_log import XidRecord
from pulsed.compute.health.xids import RECOVERY_ADVICE
from pulsed.compute.presence import ExpectedGpu
from pulsed.compute.sample import SampleDecision
from pulsed.compute.saved_state import dumped, validated
from pulsed.compute.target_gpus import TrackedTick, Tracker
from pulsed.model.clocks import Unix
from pulsed.model.health import Health, HealthChange, XidEvent
from pulsed.model.raw_tick import KernelEvent, Layout
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import NOTHING

FORGET_SECONDS = HISTORY_SECONDS
"""Age at which saved health is dropped: nothing in it matters for longer."""

MAX_WAITING_EVENTS = 1000
"""Messages of the kernel log that wait for a tick that is evaluated; older ones are dropped."""


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

    def evaluate(self, tick: Tick, tracked: TrackedTick) -> Sequence[GpuState]:
        """Evaluate the health of all GPUs of a tick, and add the changes to it.

        Args:
            tick: the sample; its rows are without implausible inputs.
            tracked: what the tracker decided about it.

        Returns:
            The missing GPUs that the tick has to show.
        """
        decision, raw = tracked.decision, tick.raw
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
        updated: list[GpuHealth] = []
        for state in tracked.states:
            if state.board is not state:
                continue
            row, gpu = state.row, self._table.health_of(state)
            # The health of one that is back was updated while it was missing.
            sample = state.sample(decision if state.status == "back" else state.decision)
            own_events = _events_of(events, state) if events else ()
            gpu.record_sample(sample, row, state.delivered, node, own_events)
            updated.append(gpu)
        if tick.lists_gpus:
            self._named.clear()
        unlisted: list[GpuState] = []
        named: list[GpuState] = []
        for state in tracked.missing:
            if (missing := self._health_of_missing(state)) is None:
                if state.counters is not None:  # it was listed, and never had a value
                    unlisted.append(state)
                continue
            gpu = missing
            own_events = _events_of(events, state)
            if own_events and not tick.lists_gpus:
                self._named.add(state.key)
            # A page without any GPU, or about other hosts only, is not evidence about this one.
            is_about_it = tick.lists_gpus and not self._tracker.presence.is_elsewhere(state, tick.now)
            if is_about_it or own_events or gpu.has_fallen_off_bus:
                shared = node._replace(is_layout_new=False)
                gpu.record_sample(state.sample(decision), state.row, NOTHING, shared, own_events)
                updated.append(gpu)
            unlisted.append(state)
            if gpu.reachability.is_missing or state.key in self._named:
                named.append(state)
        self._evaluate(updated, tick)
        # A tick of the kernel log is about the GPUs that it names, and a page without any GPU is shown if one is lost.
        return unlisted if tick.lists_gpus or (named and tick.raw.layout.series) else named

    def _health_of_missing(self, state: GpuState) -> GpuHealth | None:
        """Return the health of a GPU that is missing; None if it never answered."""
        if state.health is None and not self._table.was_saved(state):
            return None
        health = self._table.health_of(state)
        return health if health.reachability.last_seen else None

    def _evaluate(self, updated: Sequence[GpuHealth], tick: Tick) -> None:
        """Evaluate the GPUs that are due.

        The samples of all GPUs must be recorded before, because a fault of one GPU may cause a fault of another.
        """
        changes: list[HealthChange] = []
        xids: list[XidEvent] = []
        links_down: list[tuple[Unix, LinkDown]] = []
        if any(gpu.is_due for gpu in updated):
            links_down = [(gpu.epoch, fault) for gpu in updated if (fault := gpu.link_down) is not None]
            _compare_links(updated, is_virtual=tick.host is not None and bool(tick.host.is_virtual))
        for gpu in updated:
            if gpu.xids:
                xids += _new_xids(gpu)
            if gpu.is_due:
                before = gpu.health
                gpu.evaluate(links_down)
                if gpu.changes or gpu.health.state != before.state:
                    changes += _changes(gpu, before)
        tick.health_changes, tick.xids = tuple(changes), tuple(xids)

    def _due_events(self, new: tuple[KernelEvent, ...], decision: SampleDecision) -> tuple[KernelEvent, ...]:
        """Return the kernel's messages to evaluate; messages of a tick that is not evaluated wait for the next one."""
        events = (*self._waiting_events, *new)
        is_skipped = decision.kind == "repeat"
        self._waiting_events = events[-MAX_WAITING_EVENTS:] if is_skipped else ()
        return () if is_skipped else events

    def dump(self) -> dict[str, object]:
        """Return the state that must survive a restart: small, plain JSON."""
        return dumped(self._target, self._table.save(self._tracker))

    def restore(self, document: Mapping[str, object], now: Unix) -> None:
        """Continue with saved state, before the first tick.

        Args:
            document: what `dump` returned.
            now: in Unix seconds.

        Raises:
            ValueError: it is something else, or of another version. Nothing was restored then.
        """
        saved = validated(document)
        recent = [gpu for gpu in saved.gpus.values() if now - gpu.saved < FORGET_SECONDS]
        self._target = saved.target
        self._table.restore(self._tracker, recent, self._here)
        boards = [ExpectedGpu(gpu.device, gpu.last_seen) for gpu in recent if gpu.entity.kind == "gpu"]
        self._tracker.presence.expect(saved.target, boards)


def _compare_links(gpus: Sequence[GpuHealth], *, is_virtual: bool) -> None:
    """Compare the PCIe lanes of GPUs of the same model and node."""
    groups: dict[tuple[str, str], list[GpuHealth]] = {}
    for gpu in gpus:
        if gpu.inputs.widest_link:
            groups.setdefault((gpu.device.entity.node, gpu.device.model), []).append(gpu)
    for group in groups.values():
        widest = {gpu.inputs.widest_link for gpu in group}
        for gpu in group:
            if gpu.is_due:
                gpu.compare_links(widest, is_virtual=is_virtual)


def _events_of(events: tuple[KernelEvent, ...], state: GpuState) -> tuple[KernelEvent, ...]:
    """Return the kernel's messages about a GPU, which they name by its PCI address."""
    address = state.device.pci_bus_id
    return tuple([event for event in events if event.pci_bus_id == address and event.kind in ("xid", "bus_loss")])


def _changes(gpu: GpuHealth, before: Health) -> list[HealthChange]:
    changes = [
        HealthChange(new.id, old.state, new.state, gpu.time, new.message, new.remedy, gpu.device)
        for old, new in gpu.changes
    ]
    after, whole = gpu.health, before.state
    if whole != after.state and (before.checks or after.severity > 0):
        applying = [check for check in after.checks if check.applies]
        worst = max(applying, key=lambda check: check.severity, default=None)
        message, remedy = (worst.message, worst.remedy) if worst is not None else ("", "")
        changes.append(HealthChange("", whole, after.state, gpu.time, message, remedy, gpu.device))
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
            yield XidEvent(gpu.device, code, severity, Unix(gpu.epoch + record.last), count, record.count, detail)


def _detail(record: XidRecord) -> str:
    """Return what the driver states in addition to the code."""
    if record.cause:
        return f"caused by XID {record.cause}"
    if record.action is None:
        return ""
    advice = RECOVERY_ADVICE.get(record.action)
    return f"recovery action {record.action}" + (f": {advice}" if advice else "")
