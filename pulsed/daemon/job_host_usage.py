"""Reads regularly what jobs use of this host, where its own GPUs are read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

from pulsed.background_tasks import aligned_sleep
from pulsed.collector.this_host import are_of_this_host
from pulsed.compute.sample import GAP_INTERVALS
from pulsed.config.configuration import Config
from pulsed.daemon.accounts import AccountsFeature
from pulsed.daemon.feature import Feature, FeatureParts
from pulsed.daemon.host_part import HostPart
from pulsed.host.kernel_files import read_ports, read_usage
from pulsed.model.computed_tick import ComputedTick
from pulsed.model.host import InfinibandPort, JobHostUsage
from pulsed.owners.accounting.account import OwnerAccount
from pulsed.owners.accounting.host_balances import TRAFFIC, BalanceRecorder
from pulsed.translate.identity import is_same_host


class JobHostReader(Feature):
    """Reads what jobs use of this host, for their accounts."""

    name = "job_host"

    def __init__(self, parts: FeatureParts) -> None:
        self._store, self._config = parts.store, parts.config
        self._accounting = parts.feature(AccountsFeature).accounting
        self._groups: HostPart[list[tuple[OwnerAccount, JobHostUsage]]] = HostPart("control groups")
        self._ports: HostPart[tuple[float, tuple[InfinibandPort, ...] | None]] = HostPart("traffic of InfiniBand")
        self._balances = BalanceRecorder()

    def apply(self, config: Config) -> None:
        """Read by this configuration from the next reading on."""
        self._config = config

    def take_tick(self, tick: ComputedTick) -> None:
        """Take the power of the processors of superchips."""
        if tick.cpus and all(is_same_host(cpu.node or self._store.node, self._store.node) for cpu in tick.cpus):
            self._balances.add_cpus(tick.now, tick.cpus, self._limit())

    async def run(self) -> None:
        """Read regularly, until cancelled."""
        try:
            while True:
                await aligned_sleep(self._config.host.job_interval)
                await self.read()
        finally:
            self.close()

    async def read(self) -> None:
        """Read once; nothing where the jobs may be those of other hosts."""
        config, targets = self._config, self._store.targets
        owned = self._accounting.owned() if are_of_this_host(config, targets) else ()
        accounts = list(dict.fromkeys([each.account for each in owned]))
        if not accounts:
            self._balances = BalanceRecorder()
            return
        root = Path(config.host.root)
        usages, traffic = await asyncio.gather(
            self._groups.read(lambda: _read_groups(root, accounts)),
            self._ports.read(lambda: (time.monotonic(), read_ports(root, TRAFFIC))),
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
        return GAP_INTERVALS * max(self._config.host.job_interval, *intervals)

    def close(self) -> None:
        """End the threads."""
        self._groups.close()
        self._ports.close()


def _read_groups(root: Path, accounts: Iterable[OwnerAccount]) -> list[tuple[OwnerAccount, JobHostUsage]]:
    usages = [(account, read_usage(root, account.owner, account.host)) for account in accounts]
    return [(account, usage) for account, usage in usages if usage is not None]
