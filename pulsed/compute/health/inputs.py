"""The inputs of the rules of one GPU: its reading, facts that are not part of a reading, and its NVLinks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from pulsed.compute.health.link_faults import LinkDown
from pulsed.compute.health.windows import ClockEvents, ErrorCounters
from pulsed.compute.health.xid_log import XidLog
from pulsed.compute.health.xids import XidSeverity, severity_of
from pulsed.compute.products import nvlink_of
from pulsed.model.clocks import GPU_START, GpuSeconds
from pulsed.model.health import Nvlink
from pulsed.model.tick import Extras
from pulsed.model.vocabulary import NOTHING, POSITION, Value


@dataclass(slots=True, eq=False)
class NvlinkStates:
    """The states of the NVLinks of one GPU over time.

    Attributes:
        up: numbers of the links that have been up since the last reset.
        down: of those that are not up and should be.
        is_used: whether data has been sent over any link since the last reset.
    """

    up: frozenset[int] = frozenset()
    down: tuple[int, ...] = ()
    is_used: bool = False

    def reset(self) -> None:
        """Record a reset of the GPU."""
        self.up, self.is_used = frozenset(), False

    def update(self, extras: Extras, model: str, has_mig: bool) -> None:
        """Update which links are not up and should be.

        These are links that have been up, and on products whose links are all wired, the others once one is up. Links
        are off by design on boards without a bridge, in a partition of one GPU, and with MIG.
        """
        if extras.nvlink_states is None or has_mig:
            return
        up = frozenset([link for link, state in extras.nvlink_states if state])
        self.up |= up
        wired = nvlink_of(model)
        is_short = wired is not None and 0 < len(up) < wired.links
        down = [link for link, _ in extras.nvlink_states if link not in up and (is_short or link in self.up)]
        self.down = tuple(sorted(down))

    def shown(self, extras: Extras) -> tuple[Nvlink, ...]:
        """Return the links that the source has, by number."""
        states, counters = dict(extras.nvlink_states or ()), dict(extras.nvlink_counters or ())
        links = sorted(states.keys() | counters.keys())
        return tuple([Nvlink(link, states.get(link), link in self.down, counters.get(link, ())) for link in links])


def link_counts(extras: Extras | None, quantities: Collection[str]) -> list[tuple[int, float]] | None:
    """Return the links with their counts, of the largest of these quantities, the worst first; None without any."""
    if extras is None or extras.nvlink_counters is None:
        return None
    kinds = {name.removeprefix("nvlink_").removesuffix("_total") for name in quantities}
    links = [
        (link, max(counts))
        for link, counters in extras.nvlink_counters
        if (counts := [count for kind, count in counters if kind in kinds])
    ]
    return sorted(links, key=lambda link: -link[1]) or None


def links_text(counts: Iterable[tuple[int, float]]) -> str:
    """Return links and their counts in words.

    >>> links_text([(14, 505.0), (3, 2.0), (4, 0.0)])
    'link 14: 505, link 3: 2'
    """
    return ", ".join(f"link {link}: {count:.0f}" for link, count in counts if count)


ACTIVITY = "gpu_activity_ratio"
"""The larger of graphics engine activity and GPU utilization."""

LINK_LOAD, LINK_STATE = 0.2, 2.0
"""Activity at which a GPU without a P-state, and P-state in which an active GPU, uses its PCIe link at full speed."""


def pcie_load(performance_state: Value, activity: Value) -> Value:
    """Return 1 while a load keeps the PCIe link at full speed, 0 while none does; None if unknown."""
    if activity is None or not activity:
        return activity
    if performance_state is None:
        return float(activity > LINK_LOAD)
    return float(performance_state <= LINK_STATE)


IN_EXTRAS = ("health_watches", "nvlink_states", "nvlink_counters")
"""Inputs that are not numbers: they are in `GpuInputs.extras`."""

FACTS = (
    "polls_missed",
    "polls_unlisted",
    "inputs_age_seconds",
    "inputs_blank_ratio",
    ACTIVITY,
    "pcie_load",
    "kernel_log",
    "clock_event_hw_thermal",
    "clock_event_hw_power_brake",
    "xid_counts",
    *IN_EXTRAS,
)
"""Inputs that are not in a reading. `kernel_log` is 1 while the kernel log is read, and `xid_counts` while
dcgm-exporter counts XIDs."""

INPUT_POSITION: Mapping[str, int] = {name: position for position, name in enumerate((*POSITION, *FACTS))}
"""Index of an input in `GpuInputs.values`."""


XID_INPUTS = ("xid_last_code", "xid_counts", "kernel_log")

_CONFIRMS = {"recovery_action": "", "ecc_dbe_volatile_total": "memory", "nvlink_link_recoveries_failed_total": "nvlink"}
"""By input that above 0 confirms an XID of unknown age, the scope of the XIDs that it confirms; empty for all."""

SEVERITY_INPUTS = (*XID_INPUTS, *_CONFIRMS)
"""Inputs of rules that depend on the severity of a code."""

_XID_POSITIONS = tuple([INPUT_POSITION[name] for name in XID_INPUTS])
_CONFIRM_POSITIONS = tuple([(INPUT_POSITION[name], scope) for name, scope in _CONFIRMS.items()])

NO_INPUTS: tuple[Value, ...] = (*NOTHING, *[None] * len(FACTS))


@dataclass(slots=True, eq=False)
class GpuInputs:
    """The current inputs of one GPU.

    Attributes:
        model: product name.
        severity_of: returns the severity of an XID.
        pcie_width_max: lanes that the riser provides; 0: as the device reports.
        widest_link: most lanes since the first sample; 0 before.
        has_lanes_by_design: whether all GPUs of the model on the node have never had more lanes than this one has; in a
            virtual machine, whether this GPU never had.
        is_virtual: whether the node is known to be a virtual machine.
        severities: by check, its severity at this evaluation, of those that are evaluated before `dcgm_health`.
        values: the newest reading that is evaluated, followed by `FACTS`, by `INPUT_POSITION`.
        extras: dcgm-exporter's own metrics.
        measured_at: seconds of the GPU's clock when the reading was first seen; a repeated one is not another one.
        gap_seconds: time before this sample that no sample covers; 0 for none.
        links_down: links of other GPUs of the node that failed, dated by this GPU's clock.
        reads_xids: whether any input shows XIDs.
        confirmed_xids: scopes of the XIDs that other inputs confirmed when they were last there; empty for all.
    """

    model: str = ""
    severity_of: Callable[[int], XidSeverity] = severity_of
    pcie_width_max: int = 0
    widest_link: float = 0.0
    has_lanes_by_design: bool = False
    is_virtual: bool = False
    severities: dict[str, int] = field(default_factory=dict)
    values: tuple[Value, ...] = NO_INPUTS
    extras: Extras | None = None
    measured_at: GpuSeconds = GPU_START
    gap_seconds: float = 0.0
    links_down: tuple[LinkDown, ...] = ()
    reads_xids: bool = False
    confirmed_xids: frozenset[str] = frozenset()
    nvlinks: NvlinkStates = field(default_factory=NvlinkStates)
    clock_events: ClockEvents = field(default_factory=ClockEvents)
    errors: ErrorCounters = field(default_factory=ErrorCounters)
    xids: XidLog = field(default_factory=XidLog)

    def update_xids(self) -> None:
        """Update whether XIDs are read, and which the newest sample confirms, before rules about XIDs are evaluated."""
        self.reads_xids = any(self.values[position] is not None for position in _XID_POSITIONS)
        for position, scope in _CONFIRM_POSITIONS:  # a GPU that fails leaves them blank, which takes nothing back
            if (value := self.values[position]) is not None:
                others = self.confirmed_xids - {scope}
                self.confirmed_xids = others | {scope} if value > 0 else others

    def value(self, name: str) -> Value:
        """Return an input by name."""
        return self.values[INPUT_POSITION[name]]


def exporter_facts(extras: Extras, mask: Value) -> tuple[Value, Value, Value]:
    """Return the last three numbers of `FACTS`, without counts of clock events where there is a mask of reasons."""
    has_counts = 1.0 if extras.xid_counts is not None or extras.xid_totals is not None else None
    if extras.clock_events is None or mask is not None:
        return None, None, has_counts
    events = dict(extras.clock_events)
    return events.get("hw_thermal", 0.0), events.get("hw_power_brake", 0.0), has_counts
