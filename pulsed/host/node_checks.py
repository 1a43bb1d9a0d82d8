"""The checks of a node: the table of possible problems of this host, apart from the samples of its GPUs.

A rule is a pure function of a `NodeView`. Without evidence it returns `UNKNOWN` or `OK`: a container without /sys, a
GPU that belongs to a virtual machine or that this container is not given are not faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

from pulsed.durations import DAY, HOUR, MINUTE, in_words
from pulsed.host.port_history import PORT_LIMITS, PortHistory
from pulsed.model.health import SEVERITY, State
from pulsed.model.host import HostFacts, InfinibandPort, ShownGpu, StuckProcess, is_given_away

ExpectedGpus = int | Mapping[str, int] | Literal["auto"] | None
"""A number of GPUs, or one by product name; `auto`: all that were there and were not forgotten; None: any number."""

STUCK_LOOKS, MISSED_LOOKS = 5, 1
"""Looks at which a process must be stuck, and others in between at which it may not be. A process that waits for a disk
or a file server is also in state D for moments. gpud's rule: 2,305 processes of healthy nodes did not fulfil it."""

MAX_NAMED = 8
"""Processes or ports that a message names."""

RECENT_SECONDS = 10 * MINUTE
"""Age of a message about a failed start that counts although no source shows which GPUs work now. The driver tries
again, and logs it again, whenever a program opens the GPU."""

FATAL_SECONDS, NONFATAL_SECONDS = DAY, HOUR
"""Time for which an SXID counts, as an XID of that severity does."""

DEAD_GPU_XIDS = frozenset({62, 79, 119, 120})
"""XIDs after which a GPU cannot be used until it is reset: a source that starts later does not show it."""

MIN_SAME_RATE = 2
"""Other ports of the same kind that must have a rate before it is the usual one."""


class NodeView(NamedTuple):
    """The inputs of the rules.

    Attributes:
        shown: the boards of this host that fresh sources show or miss; None while one of its sources does not deliver.
        is_selected: whether the key `gpus` leaves out some.
        expected: the key `health.expected_gpus`.
        stuck_looks: by process, the number of looks at which it was stuck.
        ports: the history of the ports, by name.
    """

    facts: HostFacts
    shown: tuple[ShownGpu, ...] | None
    is_selected: bool = False
    expected: ExpectedGpus = None
    stuck_looks: Mapping[StuckProcess, int] = MappingProxyType({})
    ports: Mapping[str, PortHistory] = MappingProxyType({})


class Finding(NamedTuple):
    """The result of a rule: the state, its cause in words, and the numbers that decided."""

    state: State
    detail: str = ""
    evidence: tuple[tuple[str, float], ...] = ()


UNKNOWN, OK = Finding("unknown"), Finding("ok")

NodeRule = Callable[[NodeView], Finding | None]
"""Returns None if the check does not apply to this host."""

Problem = tuple[State, str]
"""What one process or port raises, and how the message names it."""


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """A check of a node; `id`, `title`, `remedy`, `critical` and `source` mean the same as in a check of GPUs.

    Attributes:
        rule: when it is raised, in words.
        states: that it can raise.
        find: the rule.
        looks: the number of looks in a row that must find it.
    """

    id: str
    title: str
    rule: str
    states: tuple[State, ...]
    find: NodeRule
    remedy: str
    source: str
    critical: str = ""
    looks: int = 2

    def remedy_at(self, state: State) -> str:
        """Return what to do in a state that it can raise."""
        return (state == "crit" and self.critical) or self.remedy


def _gpu_missing(view: NodeView) -> Finding | None:
    """Find GPUs on the bus that no source shows: critical with a message of the kernel about this very GPU."""
    gpus, shown = view.facts.pci_gpus, view.shown
    if not gpus or view.is_selected or any(not gpu.address for gpu in shown or ()):
        return UNKNOWN
    addresses = {gpu.address for gpu in shown or ()}
    reasons = _failures(view)
    missing: list[Problem] = []
    for gpu in gpus:
        if gpu.address in addresses or is_given_away(gpu.driver):
            continue
        is_expected = gpu.is_usable or (gpu.driver == "" and "" in reasons)  # listed, or the driver could not start one
        if gpu.address in reasons or (is_expected and shown is not None):
            text = reasons.get(gpu.address, reasons.get("", ""))
            state: State = "crit" if gpu.address in reasons else "warn"
            missing.append((state, f"{gpu.address} ({text})" if text else gpu.address))
    if not missing:
        return OK if any(gpu.address in addresses for gpu in gpus) else UNKNOWN
    evidence = (("gpus_missing", float(len(missing))), ("pci_gpus", float(len(gpus))))
    return Finding(_worst(missing), ", ".join([text for _, text in missing]), evidence)


def _failures(view: NodeView) -> Mapping[str, str]:
    """Return what the kernel log has about GPUs that failed, by address; empty for a message without one."""
    since = 0.0 if view.shown is not None else view.facts.time - RECENT_SECONDS
    return {
        event.pci_bus_id: f"XID {event.text}" if event.kind == "xid" else event.text
        for event in view.facts.kernel_events
        if event.time >= since
    }


def _gpu_count(view: NodeView) -> Finding | None:
    """Find fewer GPUs than expected; a GPU that no source lists may be there if it is on the bus and has not failed."""
    expected, shown = view.expected, view.shown
    if expected is None:
        return None
    if shown is None:
        return UNKNOWN
    bus = {gpu.address: gpu for gpu in view.facts.pci_gpus or ()}
    failed = _failures(view)
    on_bus = {address for address, gpu in bus.items() if gpu.is_usable and address not in failed}
    present = [gpu.model for gpu in shown if gpu.shown_as == "listed" or gpu.address in on_bus]
    unlisted = [gpu for gpu in shown if gpu.shown_as == "unlisted" and gpu.address not in on_bus]
    possible = [
        gpu.model
        for gpu in unlisted
        if gpu.address not in failed and (not bus or gpu.address in bus or not gpu.address)
    ]
    never_listed = 0 if expected == "auto" else len(on_bus - {gpu.address for gpu in shown})
    expected_counts = (
        expected if isinstance(expected, Mapping) else {"": len(shown) if expected == "auto" else expected}
    )
    counts = {model: present.count(model) if model else len(present) for model in expected_counts}
    short = {model: count for model, count in counts.items() if count < expected_counts[model]}
    if not short:
        return OK
    if all(
        count + never_listed + (possible.count(model) if model else len(possible)) >= expected_counts[model]
        for model, count in short.items()
    ):
        return UNKNOWN
    texts = [f"{count} of {expected_counts[model]} {model}".rstrip() for model, count in short.items()]
    evidence = (("gpus", float(sum(counts.values()))), ("expected_gpus", float(sum(expected_counts.values()))))
    return Finding("crit", ", ".join(texts), evidence)


def _driver_hung(view: NodeView) -> Finding | None:
    """Find processes that have been stuck in the driver: critical if NVIDIA's own are among them."""
    if view.facts.stuck_processes is None:
        return UNKNOWN
    stuck = [process for process, looks in view.stuck_looks.items() if looks >= STUCK_LOOKS]
    problems: list[Problem] = [
        ("crit" if process.name.startswith("nvidia") else "warn", f"{process.name} (process {process.pid})")
        for process in sorted(stuck, key=lambda process: process.pid)
    ]
    return _finding(problems, "stuck_processes")


def _nvswitch_errors(view: NodeView) -> Finding | None:
    """Find errors of NVSwitches: critical if the driver classifies one as fatal."""
    if view.facts.switch_errors is None:
        return UNKNOWN
    problems: list[Problem] = [
        ("crit" if event.is_fatal else "warn", f"{event.pci_bus_id} (SXID {event.text})")
        for event in sorted(view.facts.switch_errors, key=lambda event: event.time, reverse=True)
        if view.facts.time - event.time < (FATAL_SECONDS if event.is_fatal else NONFATAL_SECONDS)
    ]
    return _finding(problems, "nvswitch_errors")


def _of_ports(problems_of: Callable[[InfinibandPort, NodeView], Iterator[Problem]]) -> NodeRule:
    """Return a rule for hosts with ports, by a function that yields the problems of one port."""

    def find(view: NodeView) -> Finding | None:
        if not view.facts.ports:
            return None if view.facts.ports is not None else UNKNOWN
        return _finding([problem for port in view.facts.ports for problem in problems_of(port, view)])

    return find


def _link_down(port: InfinibandPort, view: NodeView) -> Iterator[Problem]:
    """Yield a port that is down and not disabled: critical if it was up before."""
    if not port.state or port.is_active or port.physical_state == "Disabled":
        return
    same_kind = [other.is_active for other in view.facts.ports or () if other.board == port.board]
    if view.ports[port.name].was_up:
        yield "crit", port.name
    elif 2 * sum(same_kind) > len(same_kind):
        yield "warn", f"{port.name} (most of its kind are up)"


def _link_degraded(port: InfinibandPort, view: NodeView) -> Iterator[Problem]:
    """Yield a port that is slower than it was, or than others of its kind."""
    best = max(view.ports[port.name].best, _usual_rate(port, view.facts.ports or ()))
    if port.is_active and port.bytes_per_second is not None and port.bytes_per_second < best:
        yield "warn", f"{port.name} ({8e-9 * port.bytes_per_second:g} of {8e-9 * best:g} Gbit/s)"


def _usual_rate(port: InfinibandPort, ports: Iterable[InfinibandPort]) -> float:
    """Return the most frequent rate of other active ports of the same kind; 0 if too few have it."""
    rates = Counter(
        other.bytes_per_second
        for other in ports
        if other is not port and other.board == port.board and other.is_active and other.bytes_per_second
    )
    count, rate = max([(count, rate) for rate, count in rates.items()], default=(0, 0.0))
    return rate if count >= MIN_SAME_RATE else 0.0


def _link_errors(port: InfinibandPort, view: NodeView) -> Iterator[Problem]:
    """Yield the counters of a port that have increased by more than their limit."""
    for limit in PORT_LIMITS:
        count = view.ports[port.name].increase_of(limit, view.facts.time)
        if count > limit.maximum:
            yield "warn", f"{port.name} ({count} {limit.text})"


def _worst(problems: Sequence[Problem]) -> State:
    return max([state for state, _ in problems], key=SEVERITY.__getitem__)


def _finding(problems: Sequence[Problem], number: str = "findings") -> Finding:
    """Return a finding with the number of the problems that names the worst of them; ok without any."""
    if not problems:
        return OK
    worst_first = sorted(problems, key=lambda problem: SEVERITY[problem[0]], reverse=True)
    texts = [text for _, text in worst_first[:MAX_NAMED]]
    more = [f"{len(problems) - MAX_NAMED} more"] if len(problems) > MAX_NAMED else []
    return Finding(_worst(problems), ", ".join([*texts, *more]), ((number, float(len(problems))),))


NODE_CHECKS: tuple[NodeCheck, ...] = (
    NodeCheck(
        "gpu_missing",
        "A GPU on the PCI bus is missing from the source",
        "crit: the kernel log has the reason (`RmInitAdapter failed`, `fallen off the bus`, or an XID "
        f"{', '.join(map(str, sorted(DEAD_GPU_XIDS)))}); warn: the driver lists it, or it has no driver and such a "
        "message has no address. Not with another driver (vfio-pci), nor with the key `gpus`",
        ("warn", "crit"),
        _gpu_missing,
        remedy="Compare `nvidia-smi -L` with `lspci -d 10de:` and restart the host engine or exporter; if nvidia-smi "
        "does not list the GPU, check the kernel log, then drain the node and restart it.",
        critical="The driver cannot use the GPU: drain the node and power-cycle it; if it repeats, reseat or "
        "replace the board.",
        source="/sys/bus/pci: vendor 0x10de, classes 0x0300 and 0x0302; the kernel log",
    ),
    NodeCheck(
        "gpu_count",
        "The node has fewer GPUs than expected",
        "crit: fewer than `health.expected_gpus`; `auto`: than were ever there, except those forgotten or "
        "given to another driver (vfio-pci). Unknown while an unlisted GPU may be there. Without this key it does not "
        "apply",
        ("crit",),
        _gpu_count,
        remedy="Drain the node and restart it; if GPUs are still missing, reseat or replace them. After a planned "
        "removal, change health.expected_gpus; with auto, run `pulsed health --forget GPU`.",
        source="the configuration",
    ),
    NodeCheck(
        "driver_hung",
        "Processes hang in the NVIDIA driver",
        f"a process of NVIDIA, or one that has a GPU open, is in state D at {STUCK_LOOKS} evaluations: crit if it is "
        "named `nvidia*`, otherwise warn. Needs the host's processes (in a pod `host.root` or `hostPID`), and root for "
        "those that have a GPU open",
        ("warn", "crit"),
        _driver_hung,
        remedy="These processes cannot be killed. If their file servers and disks answer, the driver hangs: check "
        "the kernel log, drain the node and restart it.",
        critical="Calls of the driver do not return, and programs that use the GPUs will also hang: drain the node "
        "and restart it.",
        source="gpud",
        looks=1,
    ),
    NodeCheck(
        "nvswitch_error",
        "Errors of an NVSwitch",
        f"crit: for {in_words(FATAL_SECONDS)} after an SXID that the driver classifies as fatal, or until the node is "
        f"restarted; warn: for {in_words(NONFATAL_SECONDS)} after another one",
        ("warn", "crit"),
        _nvswitch_errors,
        remedy="Jobs continue. If the SXID returns, check the link that it names.",
        critical="Jobs that use NVLink fail: drain the node and restart it; if the SXID returns, check the link that "
        "it names and open a replacement case.",
        source="the kernel log: SXIDs of the NVSwitch driver",
        looks=1,
    ),
    NodeCheck(
        "ib_link_down",
        "An InfiniBand or RoCE link is down",
        "crit: a port that was active is down; warn: it is down, and most ports of its kind are up. Not a disabled one",
        ("warn", "crit"),
        _of_ports(_link_down),
        remedy="Check cable, transceiver and switch port (`ibstat`, `mlxlink -d DEVICE`), or disable the port if it is "
        "not used.",
        critical="Jobs over several nodes fail or wait: drain the node, then check cable, transceiver, switch port and "
        "subnet manager.",
        source="/sys/class/infiniband",
    ),
    NodeCheck(
        "ib_link_degraded",
        "An InfiniBand or RoCE link is slower than possible",
        "warn: the rate of an active port is below its own earlier rate, or below two other ports of its kind",
        ("warn",),
        _of_ports(_link_degraded),
        remedy="One slow link slows all nodes of a job: check cable and transceiver, and reset the port "
        "(`ibportstate`, `mlxlink`).",
        source="/sys/class/infiniband",
    ),
    NodeCheck(
        "ib_errors",
        "Errors on an InfiniBand or RoCE link",
        "warn: more than "
        + "; ".join(f"{limit.maximum} {limit.text} in {in_words(limit.window)}" for limit in PORT_LIMITS),
        ("warn",),
        _of_ports(_link_errors),
        remedy="Clean or replace cable and transceiver; if errors continue, check the switch port and the adapter.",
        source="NVSentinel's limits; 120 symbol errors an hour are InfiniBand's bit error rate of 1e-12",
        looks=1,
    ),
)
"""All checks of nodes, in the order in which they are published."""

NODE_CHECK_IDS = tuple(check.id for check in NODE_CHECKS)
