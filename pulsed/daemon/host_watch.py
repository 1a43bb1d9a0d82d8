"""Reads this host, where its own GPUs are read: every minute for the checks of the node, more often for its jobs.

Each part is read in a thread of its own, as the read may hang.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from prometheus_client.metrics_core import Metric

from pulsed.background_tasks import aligned_sleep
from pulsed.collector.this_host import are_of_this_host, kernel_log_of
from pulsed.compute.sample import GAP_INTERVALS
from pulsed.config.configuration import Config
from pulsed.daemon.accounts import AccountsFeature
from pulsed.daemon.changes import log_node_checks
from pulsed.daemon.feature import Feature, FeatureParts
from pulsed.daemon_thread import SharedCall
from pulsed.host.kernel_files import read_pci_gpus, read_ports, read_stuck_processes, read_usage
from pulsed.host.node_checks import DEAD_GPU_XIDS, NODE_CHECK_IDS, NodeView
from pulsed.host.node_evaluator import NodeEvaluator
from pulsed.host.virtual_machine import is_virtual_machine
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.gpu import node_of
from pulsed.model.host import HostFacts, InfinibandPort, JobHostUsage, PciGpu, ShownGpu, StuckProcess
from pulsed.model.raw_tick import KernelEvent
from pulsed.model.tick import Tick
from pulsed.owners.accounting.account import OwnerAccount
from pulsed.owners.accounting.host_balances import TRAFFIC, BalanceRecorder
from pulsed.owners.attribution.mapping_directory import boot_time
from pulsed.present.exposition.host_families import cpu_families, node_families
from pulsed.reader.kernel_log import KernelLog
from pulsed.translate.identity import is_same_host

log = logging.getLogger(__name__)

_T = TypeVar("_T")

READ_SECONDS = 10.0
"""Timeout of a part, in seconds. A part that takes longer is unknown; its thread continues."""


class HostPart(SharedCall[_T]):
    """A part of this host.

    Args:
        name: for the log.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"host {name}")
        self._name = name
        self._is_failing = False

    async def read(self, read: Callable[[], _T]) -> _T | None:
        """Return what a function returns in the thread; None if it fails or hangs, which is logged once."""
        try:
            async with asyncio.timeout(READ_SECONDS):
                facts = await self.call(read)
        except OSError as error:  # or a TimeoutError
            if not self._is_failing:
                fields = {"part": self._name, "error": str(error) or "it hangs"}
                log.warning("a part of the host cannot be read", extra=fields)
            self._is_failing = True
            return None
        self._is_failing = False
        return facts


POLLS = 32
"""Reads of the kernel log per look: 32,000 records, as many as a large buffer of the kernel has."""


MAX_SWITCH_ERRORS = 1000
"""SXIDs that are kept: a node has up to 6 NVSwitches, and the driver some 300 codes."""


class HostWatch(Feature):
    """Looks at this host, and stores what was found in the store of targets."""

    name = "host"

    def __init__(self, parts: FeatureParts) -> None:
        self._store, self._active = parts.store, parts.active
        self._evaluator = NodeEvaluator()
        self._bus: HostPart[tuple[PciGpu, ...] | None] = HostPart("PCI bus")
        self._processes: HostPart[tuple[StuckProcess, ...] | None] = HostPart("processes")
        self._ports: HostPart[tuple[InfinibandPort, ...] | None] = HostPart("InfiniBand")
        self._machine: HostPart[bool | None] = HostPart("virtual machine")
        self._log: HostPart[bool] = HostPart("kernel log")
        self._kernel_path, self._kernel_log = "", KernelLog("")
        self._events: dict[str, KernelEvent] = {}
        """By PCI address, the last message about a GPU that the driver could not start or has lost."""
        self._switch_errors: dict[tuple[str, int, bool], KernelEvent] = {}
        """By PCI address, code and whether it is fatal, the last SXID."""

    def metrics(self, now: Monotonic) -> Iterator[Metric]:
        """Yield the families of this host, and of processors that sources show."""
        yield from node_families(self._store)
        ticks = [target.tick for target in self._store.targets if target.tick is not None and target.fresh(now)]
        yield from cpu_families(self._store.node, (cpu for tick in ticks for cpu in tick.cpus))

    async def run(self) -> None:
        """Look regularly, until cancelled; afterwards nothing is known of the host."""
        try:
            while True:
                await self._evaluate(self._active.config)
                await aligned_sleep(self._active.config.host.interval)
        finally:
            self._store.set_host(None, None)
            self._kernel_log.close()
            for part in (self._bus, self._processes, self._ports, self._machine, self._log):
                part.close()

    async def _evaluate(self, config: Config) -> None:
        if (path := kernel_log_of(config)) != self._kernel_path:
            self._kernel_log.close()
            self._kernel_path, self._kernel_log, self._events = path, KernelLog(path), {}
            self._switch_errors = {}
        enabled = set(NODE_CHECK_IDS) - set(config.health.disabled)
        if not are_of_this_host(config, self._store.targets) or not enabled:
            self._store.set_host(None, None)
            return
        root = Path(config.host.root)
        pci_gpus, stuck, ports, is_virtual, reads_log = await asyncio.gather(
            self._bus.read(lambda: read_pci_gpus(root)),
            self._processes.read(lambda: read_stuck_processes(root)),
            self._ports.read(lambda: read_ports(root)),
            self._machine.read(lambda: is_virtual_machine(root)),
            self._log.read(self._read_kernel_log),
        )
        switch_errors = tuple(self._switch_errors.values()) if reads_log else None
        events = tuple(self._events.values())
        facts = HostFacts(Unix(time.time()), pci_gpus, events, stuck, ports, switch_errors, is_virtual)
        view = NodeView(facts, self._shown(), config.gpus not in (None, "all"), config.health.expected_gpus)
        before, health = self._store.node_health, self._evaluator.evaluate(view, config.health.disabled)
        self._store.set_host(facts, health)
        log_node_checks(before, health, self._store.node)

    def _read_kernel_log(self) -> bool:
        """Add what the kernel log has had since the look before; return whether it can be read."""
        booted, events = boot_time(), None
        for _ in range(POLLS if self._kernel_path else 0):
            events = self._kernel_log.poll()
            for event in events or ():
                if event.time >= booted:
                    self._add(event)
        return events is not None

    def _add(self, event: KernelEvent) -> None:
        if event.kind in ("not_started", "bus_loss") or (event.kind == "xid" and event.code in DEAD_GPU_XIDS):
            self._events[event.pci_bus_id] = event
        elif event.kind == "sxid" and event.is_fatal is not None:  # others have details of the one before
            self._switch_errors[event.pci_bus_id, event.code, event.is_fatal] = event
            if len(self._switch_errors) > MAX_SWITCH_ERRORS:
                del self._switch_errors[next(iter(self._switch_errors))]

    def _shown(self) -> tuple[ShownGpu, ...] | None:
        """Return the boards that the targets show, including the boards of MIG instances; None if that is incomplete.

        It is while a target is not fresh, or if it names another host.
        """
        now, here = Monotonic(time.monotonic()), self._store.node
        shown: dict[tuple[str, str], ShownGpu] = {}
        for target in self._store.targets:
            if (tick := target.tick) is None or not target.fresh(now):
                return None
            if not target.up and not tick.raw.layout.series:  # its GPUs are those that the kernel log names
                return None
            for row in tick.gpus:
                device = row.device
                if not is_same_host(node_of(device, here), here):
                    return None
                gpu = ShownGpu(device.pci_bus_id, device.model, row.presence)
                shown.setdefault(device.entity.board, gpu)
        return tuple(shown.values())


class JobHostReader(Feature):
    """Reads what jobs use of this host, for their accounts."""

    name = "job_host"

    def __init__(self, parts: FeatureParts) -> None:
        self._store, self._active = parts.store, parts.active
        self._accounting = parts.feature(AccountsFeature).accounting
        self._groups: HostPart[list[tuple[OwnerAccount, JobHostUsage]]] = HostPart("control groups")
        self._ports: HostPart[tuple[Monotonic, tuple[InfinibandPort, ...] | None]] = HostPart("traffic of InfiniBand")
        self._balances = BalanceRecorder()

    def take_tick(self, tick: Tick) -> None:
        """Take the power of the processors of superchips."""
        if tick.cpus and all(is_same_host(cpu.node or self._store.node, self._store.node) for cpu in tick.cpus):
            self._balances.add_cpus(tick.now, tick.cpus, self._limit())

    async def run(self) -> None:
        """Read regularly, until cancelled."""
        try:
            while True:
                await aligned_sleep(self._active.config.host.job_interval)
                await self.read()
        finally:
            self.close()

    async def read(self) -> None:
        """Read once; do nothing if the jobs may belong to other hosts."""
        config, targets = self._active.config, self._store.targets
        owned = self._accounting.owned() if are_of_this_host(config, targets) else ()
        accounts = list(dict.fromkeys([each.account for each in owned]))
        if not accounts:
            self._balances = BalanceRecorder()
            return
        root = Path(config.host.root)
        usages, traffic = await asyncio.gather(
            self._groups.read(lambda: _read_groups(root, accounts)),
            self._ports.read(lambda: (Monotonic(time.monotonic()), read_ports(root, TRAFFIC))),
        )
        for account, usage in usages or ():
            account.host = usage
        limit = self._limit()
        if traffic is not None:
            self._balances.add_ports(*traffic, limit)
        self._accounting.settle(accounts)
        self._balances.add_balances(accounts, limit)

    def _limit(self) -> float:
        """Return the seconds from which the difference between two readings does not count."""
        intervals = [target.interval for target in self._store.targets]
        return GAP_INTERVALS * max(self._active.config.host.job_interval, *intervals)

    def close(self) -> None:
        """End the threads."""
        self._groups.close()
        self._ports.close()


def _read_groups(root: Path, accounts: Iterable[OwnerAccount]) -> list[tuple[OwnerAccount, JobHostUsage]]:
    usages = [(account, read_usage(root, account.owner, account.host)) for account in accounts]
    return [(account, usage) for account, usage in usages if usage is not None]
