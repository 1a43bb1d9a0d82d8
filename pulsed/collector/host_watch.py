"""Looks at this host every minute, in threads, and evaluates the checks of the node, where its own GPUs are read."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from pulsed.attribution.mapping_directory import boot_time
from pulsed.collector.health_log import log_node_checks
from pulsed.collector.this_host import is_of_this_host, kernel_log_of
from pulsed.compute.health.node_checks import NODE_CHECK_IDS, NodeView
from pulsed.compute.health.node_evaluator import NodeEvaluator
from pulsed.configuration import Config
from pulsed.daemon_thread import SharedCall
from pulsed.host.driver_processes import read_stuck_processes
from pulsed.host.infiniband import read_ports
from pulsed.host.pci_bus import read_pci_gpus
from pulsed.model.gpu import node_of
from pulsed.model.host import HostFacts, InfinibandPort, PciGpu, ShownGpu, StuckProcess
from pulsed.model.raw_tick import KernelEvent
from pulsed.model.target_store import Target, TargetStore
from pulsed.pauses import aligned_sleep, within
from pulsed.reader.kernel_log.log import KernelLog
from pulsed.translate.identity import is_same_host

log = logging.getLogger(__name__)

_T = TypeVar("_T")

LOOK_SECONDS = 10.0
"""A part of the host that takes longer to read is unknown; its thread goes on."""

POLLS = 32
"""Reads of the kernel log per look: 32,000 records, as many as a large buffer of the kernel has."""


class HostWatch:
    """Looks at this host.

    Args:
        store: has the targets, and takes what was found.
        config: by which it looks, until `apply` gives another one.
    """

    def __init__(self, store: TargetStore, config: Config) -> None:
        self._store = store
        self._evaluator = NodeEvaluator()
        self._bus: SharedCall[tuple[PciGpu, ...] | None] = SharedCall("host-bus")
        self._processes: SharedCall[tuple[StuckProcess, ...] | None] = SharedCall("host-processes")
        self._ports: SharedCall[tuple[InfinibandPort, ...] | None] = SharedCall("host-infiniband")
        self._log: SharedCall[None] = SharedCall("host-log")
        self._kernel_path, self._kernel_log = "", KernelLog("")
        self._events: dict[str, KernelEvent] = {}
        """By PCI address, the last message about a start that failed."""
        self.apply(config)

    def apply(self, config: Config) -> None:
        """Look by this configuration from the next look on."""
        self._config = config
        if (path := kernel_log_of(config)) != self._kernel_path:
            self._kernel_log.close()
            self._kernel_path, self._kernel_log, self._events = path, KernelLog(path), {}

    async def run(self) -> None:
        """Look regularly, until cancelled."""
        try:
            while True:
                try:
                    await self._look(self._config)
                except Exception:
                    log.exception("internal error in a look at the host; please report it")
                    self._store.set_host(None, None)
                await aligned_sleep(self._config.host.interval)
        finally:
            self._kernel_log.close()
            for thread in (self._bus, self._processes, self._ports, self._log):
                thread.close()

    async def _look(self, config: Config) -> None:
        targets = [target for target in self._store.targets if is_of_this_host(config, target.name)]
        enabled = set(NODE_CHECK_IDS) - set(config.health.disabled)
        if not targets or len(targets) < len(self._store.targets) or not enabled:
            self._store.set_host(None, None)
            return
        root = Path(config.host.root)
        await self._store.catch_up()
        pci_gpus, stuck, ports, _ = await asyncio.gather(
            _read(self._bus, "PCI bus", lambda: read_pci_gpus(root)),
            _read(self._processes, "processes", lambda: read_stuck_processes(root)),
            _read(self._ports, "InfiniBand", lambda: read_ports(root)),
            _read(self._log, "kernel log", self._read_kernel_log),
        )
        facts = HostFacts(time.time(), pci_gpus, tuple(self._events.values()), stuck, ports)
        view = NodeView(facts, self._shown(targets), config.gpus not in (None, "all"), config.health.expected_gpus)
        before, health = self._store.node_health, self._evaluator.evaluate(view, config.health.disabled)
        self._store.set_host(facts, health)
        log_node_checks(before, health, self._store.node)

    def _read_kernel_log(self) -> None:
        booted = boot_time()
        for _ in range(POLLS if self._kernel_path else 0):
            for event in self._kernel_log.poll() or ():
                if event.kind in ("not_started", "bus_loss") and event.time >= booted:
                    self._events[event.pci_bus_id] = event

    def _shown(self, targets: Sequence[Target]) -> tuple[ShownGpu, ...] | None:
        """Return the boards that the targets show, those of MIG instances among them; None if that is incomplete.

        It is while a target is not fresh, or if it names another host.
        """
        now, here = time.monotonic(), self._store.node
        shown: dict[tuple[str, str], ShownGpu] = {}
        for target in targets:
            if (tick := target.tick) is None or not target.fresh(now):
                return None
            for position, device in enumerate(tick.devices):
                if not is_same_host(node_of(device, here), here):
                    return None
                gpu = ShownGpu(device.pci_bus_id, device.model, position in tick.lost)
                shown.setdefault(device.entity.board, gpu)
        return tuple(shown.values())


async def _read(thread: SharedCall[_T], part: str, read: Callable[[], _T]) -> _T | None:
    """Return what a function returns in the thread of a part of the host; None if it fails or hangs."""
    try:
        return await within(LOOK_SECONDS, thread.call(read))
    except (OSError, asyncio.TimeoutError) as error:
        log.warning("a part of the host cannot be read", extra={"part": part, "error": str(error) or "it hangs"})
        return None
