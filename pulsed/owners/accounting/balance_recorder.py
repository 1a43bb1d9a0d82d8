"""Adds to the balances of owners what their GPUs, and network and processors of this host did between two readings."""

from __future__ import annotations

from collections.abc import Sequence

from pulsed.model.host import CpuReading, InfinibandPort
from pulsed.owners.accounting.account import OwnerAccount
from pulsed.owners.accounting.balance import gpu_totals
from pulsed.owners.accounting.host_network import HostNetwork
from pulsed.owners.accounting.host_totals import HostTotals


class BalanceRecorder:
    """Records the balances of the owners of the GPUs of this host.

    The interval of an owner ends with its newest sample, at which the totals of the network are interpolated, so that
    samples may be rarer than readings.
    """

    def __init__(self) -> None:
        self._network = HostNetwork()
        self._cpu_power = HostTotals(2)
        self._before: dict[OwnerAccount, tuple[float, Sequence[float]]] = {}

    def add_ports(self, now: float, ports: Sequence[InfinibandPort] | None, limit: float) -> None:
        """Take a reading of the ports, as `HostNetwork.add`."""
        self._network.add(now, ports, limit)

    def add_cpus(self, now: float, cpus: Sequence[CpuReading], limit: float) -> None:
        """Take readings of the host's processors: seconds and energy, where the power of all of them is known."""
        watts, elapsed = [cpu.power_watts for cpu in cpus], now - self._cpu_power.last
        is_known = watts and None not in watts and 0.0 < elapsed <= limit
        gains = [elapsed, elapsed * sum(each or 0.0 for each in watts)] if is_known else None
        self._cpu_power.add(now, gains, limit)

    def add_balances(self, accounts: Sequence[OwnerAccount], limit: float) -> None:
        """Add to the balances what happened since the last call.

        Args:
            accounts: of all owners of a GPU, settled.
            limit: seconds of an interval; of a longer one nothing counts.
        """
        before, self._before = self._before, {}
        for account in accounts:
            gpus = gpu_totals(gpu.estimate for gpu in account.gpus.values())
            now = account.now
            reading = self._before[account] = (now, [*gpus, *self._network.totals.at(now), *self._cpu_power.at(now)])
            last = before.get(account)
            if last is not None and 0.0 < reading[0] - last[0] <= limit:
                is_shared = any(other is not account and not other.is_of_leaked_memory for other in accounts)
                account.balance.add_interval(
                    [new - old for old, new in zip(last[1], reading[1], strict=True)], is_shared=is_shared
                )
