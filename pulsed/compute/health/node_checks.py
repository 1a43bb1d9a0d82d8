"""The checks of a node: the table of what can be wrong with this host, apart from the samples of its GPUs.

A rule is a pure function of a `NodeView`. Without evidence it returns `UNKNOWN` or `OK`: a container without /sys, a
GPU that belongs to a virtual machine or that this container is not given are no faults.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

from pulsed.compute.health.port_history import PORT_LIMITS, PortHistory, is_down, most_neighbours_are_up, usual_rate
from pulsed.compute.health.rule import MINUTE, duration
from pulsed.model.health import State
from pulsed.model.host import HostFacts, PciGpu, ShownGpu, StuckProcess

ExpectedGpus = int | Mapping[str, int] | Literal["auto"] | None
"""A number of GPUs, or one by product name; `auto`: all that were there and were not forgotten; None: any number."""

STUCK_LOOKS, MISSED_LOOKS = 5, 1
"""Looks at which a process must be stuck, and others in between at which it may not be. A process that waits for a disk
or a file server is in state D for moments, too. gpud's rule: 2,305 processes of healthy nodes did not fulfil it."""

MAX_NAMED = 8
"""Processes or ports that a message names."""

RECENT_SECONDS = 10 * MINUTE
"""Age of a message about a failed start that counts although no source shows which GPUs work now. The driver tries
again, and logs it again, whenever a program opens the GPU."""


class Sleep(NamedTuple):
    """At how many looks a process was stuck, and at how many since then it was not."""

    looks: int
    missed: int


Sleeps = Mapping[StuckProcess, Sleep]


def sleeps_of(before: Sleeps, stuck: Collection[StuckProcess]) -> Sleeps:
    """Return how long processes have been stuck, after a look that found some of them."""
    sleeps = {process: Sleep(before.get(process, Sleep(0, 0)).looks + 1, 0) for process in stuck}
    for process, sleep in before.items():
        missed = sleep.missed + (process not in sleeps)
        if missed <= MISSED_LOOKS:
            sleeps[process] = sleeps.get(process, sleep)._replace(missed=missed)
        elif process in sleeps:
            sleeps[process] = Sleep(1, 0)
    return sleeps


class NodeView(NamedTuple):
    """What the rules are about.

    Attributes:
        shown: the boards of this host that fresh sources show or miss; None while one of its sources does not deliver.
        is_selected: whether the key `gpus` leaves out some.
        expected: the key `health.expected_gpus`.
        sleeps: how long processes have been stuck.
        ports: the history of the ports, by name.
    """

    facts: HostFacts
    shown: tuple[ShownGpu, ...] | None
    is_selected: bool = False
    expected: ExpectedGpus = None
    sleeps: Sleeps = MappingProxyType({})
    ports: Mapping[str, PortHistory] = MappingProxyType({})


class Finding(NamedTuple):
    """The result of a rule: the state, what was found in words, and numbers that decided."""

    state: State
    detail: str = ""
    evidence: tuple[tuple[str, float], ...] = ()


UNKNOWN, OK = Finding("unknown"), Finding("ok")

NodeRule = Callable[[NodeView], Finding | None]
"""Returns None if the check does not apply to this host."""


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """A check of a node; `id`, `title`, `remedy`, `critical` and `source` as those of `Check`.

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
    since = 0.0 if shown is not None else view.facts.time - RECENT_SECONDS
    reasons = {event.pci_bus_id: event.text for event in view.facts.kernel_events if event.time >= since}
    of_driver = [gpu for gpu in gpus if gpu.driver in ("", "nvidia")]  # vfio-pci: for a virtual machine
    named = {gpu: reasons[gpu.address] for gpu in of_driver if gpu.address in reasons}
    others = [gpu for gpu in of_driver if gpu not in named and _is_expected(gpu, has_reason="" in reasons)]
    if shown is None and not named:
        return UNKNOWN
    missing = {gpu.address: text for gpu, text in named.items() if gpu.address not in addresses}
    state: State = "crit" if missing else "warn"
    if shown is not None:
        missing |= {gpu.address: reasons.get("", "") for gpu in others if gpu.address not in addresses}
    if not missing:
        return OK if any(gpu.address in addresses for gpu in gpus) else UNKNOWN
    texts = [f"{address} ({text})" if text else address for address, text in sorted(missing.items())]
    evidence = (("gpus_missing", float(len(missing))), ("pci_gpus", float(len(gpus))))
    return Finding(state, ", ".join(texts), evidence)


def _is_expected(gpu: PciGpu, *, has_reason: bool) -> bool:
    """Return whether a source should show a GPU: the driver lists it for this process, or could not start one."""
    return gpu.is_usable or (gpu.driver == "" and has_reason)


def _gpu_count(view: NodeView) -> Finding | None:
    """Find fewer GPUs than expected."""
    expected, shown = view.expected, view.shown
    if expected is None:
        return None
    if shown is None:
        return UNKNOWN
    present = [gpu.model for gpu in shown if not gpu.is_lost]
    wanted = expected if isinstance(expected, Mapping) else {"": len(shown) if expected == "auto" else expected}
    counts = {model: present.count(model) if model else len(present) for model in wanted}
    short = {model: count for model, count in counts.items() if count < wanted[model]}
    if not short:
        return OK
    texts = [f"{count} of {wanted[model]} {model}".rstrip() for model, count in short.items()]
    evidence = (("gpus", float(sum(counts.values()))), ("expected_gpus", float(sum(wanted.values()))))
    return Finding("crit", ", ".join(texts), evidence)


def _driver_hung(view: NodeView) -> Finding | None:
    """Find processes that have been stuck in the driver: critical if NVIDIA's own are among them."""
    if view.facts.stuck_processes is None:
        return UNKNOWN
    stuck = [process for process, sleep in view.sleeps.items() if sleep.looks >= STUCK_LOOKS]
    stuck.sort(key=lambda process: (not _is_of_nvidia(process), process.pid))
    texts = [f"{process.name} (process {process.pid})" for process in stuck]
    return _finding("crit" if any(map(_is_of_nvidia, stuck)) else "warn", texts, "stuck_processes")


def _is_of_nvidia(process: StuckProcess) -> bool:
    return process.name.startswith("nvidia")


def _ib_link_down(view: NodeView) -> Finding | None:
    """Find ports that are down: critical if one was up before."""
    if not view.facts.ports:
        return None if view.facts.ports is not None else UNKNOWN
    down = [port for port in view.facts.ports if is_down(port)]
    was_up = [port.name for port in down if view.ports[port.name].was_up]
    others = [port.name for port in down if port.name not in was_up and most_neighbours_are_up(port, view.facts.ports)]
    state: State = "crit" if was_up else "warn"
    return _finding(state, [*was_up, *(f"{name} (most of its kind are up)" for name in others)])


def _ib_link_degraded(view: NodeView) -> Finding | None:
    """Find ports that are slower than they were, or than others of their kind."""
    if not view.facts.ports:
        return None if view.facts.ports is not None else UNKNOWN
    texts = []
    for port in view.facts.ports:
        best = max(view.ports[port.name].best, usual_rate(port, view.facts.ports) or 0.0)
        if port.is_active and port.bytes_per_second is not None and port.bytes_per_second < best:
            texts.append(f"{port.name} ({8e-9 * port.bytes_per_second:g} of {8e-9 * best:g} Gbit/s)")
    return _finding("warn", texts)


def _ib_errors(view: NodeView) -> Finding | None:
    """Find ports with more errors than a limit."""
    if not view.facts.ports:
        return None if view.facts.ports is not None else UNKNOWN
    texts = []
    for port in view.facts.ports:
        for limit in PORT_LIMITS:
            count = view.ports[port.name].increase_of(limit, view.facts.time)
            if count > limit.maximum:
                texts.append(f"{port.name} ({count} {limit.text})")
    return _finding("warn", texts)


def _finding(state: State, texts: Sequence[str], number: str = "findings") -> Finding:
    """Return a finding that names some of what was found, and has its number; ok if nothing was found."""
    if not texts:
        return OK
    more = [f"{len(texts) - MAX_NAMED} more"] if len(texts) > MAX_NAMED else []
    return Finding(state, ", ".join([*texts[:MAX_NAMED], *more]), ((number, float(len(texts))),))


NODE_CHECKS: tuple[NodeCheck, ...] = (
    NodeCheck(
        "gpu_missing",
        "A GPU on the PCI bus is not shown by the source",
        "crit: the kernel log has the reason (`RmInitAdapter failed`, `fallen off the bus` and "
        "others), without a source that delivers within the last 10 minutes; warn: the driver lists it, or it has no "
        "driver and the log has such a message without an address. Not one that another driver has (vfio-pci), that is "
        "withheld from this container, or that is `gpu_lost`; not with the key `gpus`",
        ("warn", "crit"),
        _gpu_missing,
        remedy="Compare `nvidia-smi -L` with `lspci -d 10de:` and restart the host engine or exporter; if nvidia-smi "
        "lacks the GPU, look at the kernel log, drain the node and restart it.",
        critical="The driver could not start the GPU: drain the node and power-cycle it; if it repeats, reseat or "
        "replace the board.",
        source="/sys/bus/pci: vendor 0x10de, classes 0x0300 and 0x0302; the kernel log",
    ),
    NodeCheck(
        "gpu_count",
        "The node has fewer GPUs than expected",
        "crit: its sources show fewer than `health.expected_gpus`; `auto`: than were ever there, but for those that "
        "were replaced or forgotten. Without this key it does not apply",
        ("crit",),
        _gpu_count,
        remedy="Drain the node and restart it; if GPUs are still absent, reseat or replace them. After planned removal "
        "change health.expected_gpus, or with auto run `pulsed health --forget GPU`.",
        source="the configuration",
    ),
    NodeCheck(
        "driver_hung",
        "Processes hang in the NVIDIA driver",
        "a process named `nvidia*`, `dcgm*` or `nv-hostengine`, or one that has a GPU open, is in uninterruptible sleep"
        f" (state D) at {STUCK_LOOKS} looks, with at most {MISSED_LOOKS} in between at which it is not: crit if one is "
        "named `nvidia*`, else warn. Needs the host's processes (in a pod `host.root`, or `hostPID: true`), and root "
        "for those that have a GPU open",
        ("warn", "crit"),
        _driver_hung,
        remedy="These processes cannot be killed. If their file servers and disks answer, the driver hangs: look at "
        "the kernel log, drain the node and restart it.",
        critical="The driver does not return from calls, and what uses the GPUs will hang, too: drain the node and "
        "restart it.",
        source="gpud",
        looks=1,
    ),
    NodeCheck(
        "ib_link_down",
        "An InfiniBand or RoCE link is down",
        "crit: a port was active since pulsed was started and is not now; warn: it is not, and more than half of the "
        "ports of its kind are. Not one that an administrator has disabled",
        ("warn", "crit"),
        _ib_link_down,
        remedy="Check cable, transceiver and switch port (`ibstat`, `mlxlink -d DEVICE`), or disable the port if it is "
        "not used.",
        critical="Jobs over several nodes fail or wait: drain the node, then check cable, transceiver, switch port and "
        "subnet manager (`ibstat`, `mlxlink -d DEVICE`).",
        source="/sys/class/infiniband",
    ),
    NodeCheck(
        "ib_link_degraded",
        "An InfiniBand or RoCE link is slower than it can be",
        "warn: the rate of an active port is below its own since pulsed was started, or below that of two or more "
        "other ports of its kind",
        ("warn",),
        _ib_link_degraded,
        remedy="One slow link slows all nodes of a job: check cable and transceiver, and reset the port "
        "(`ibportstate`, `mlxlink`).",
        source="/sys/class/infiniband",
    ),
    NodeCheck(
        "ib_errors",
        "Errors on an InfiniBand or RoCE link",
        "warn: more than "
        + "; ".join(f"{limit.maximum} {limit.text} in {duration(limit.window)}" for limit in PORT_LIMITS),
        ("warn",),
        _ib_errors,
        remedy="Clean or replace cable and transceiver; if errors continue, check the switch port and the adapter.",
        source="NVSentinel's limits; 120 symbol errors an hour are InfiniBand's bit error rate of 1e-12",
        looks=1,
    ),
)
"""All checks of nodes, in the order in which they are published."""

NODE_CHECK_IDS = tuple(check.id for check in NODE_CHECKS)
