"""Adds to the balances of owners what their GPUs and the network of this host did between two readings."""

from __future__ import annotations

from collections.abc import Sequence

from pulsed.model.host import InfinibandPort
from pulsed.owners.accounting.account import OwnerAccount
from pulsed.owners.accounting.balance import gpu_totals
from pulsed.owners.accounting.host_network import HostNetwork


class BalanceRecorder:
    """Records the balances of the owners of the GPUs of this host.

    The interval of an owner ends with its newest sample, at which the totals of the network are interpolated, so that
    samples may be rarer than readings.
    """

    def __init__(self) -> None:
        self._network = HostNetwork()
        self._before: dict[OwnerAccount, tuple[float, Sequence[float]]] = {}

    def take_ports(self, now: float, ports: Sequence[InfinibandPort] | None, limit: float) -> None:
        """Take a reading of the ports, as `HostNetwork.add`."""
        self._network.add(now, ports, limit)

    def take(self, accounts: Sequence[OwnerAccount], limit: float) -> None:
        """Add to the balances what happened since the last call.

        Args:
            accounts: of all owners of a GPU, settled.
            limit: seconds of an interval; of a longer one nothing counts.
        """
        before, self._before = self._before, {}
        for account in accounts:
            gpus = gpu_totals(gpu.estimate for gpu in account.gpus.values())
            reading = self._before[account] = (account.now, [*gpus, *self._network.totals_at(account.now)])
            last = before.get(account)
            if last is not None and 0.0 < reading[0] - last[0] <= limit:
                is_shared = any(other is not account and not other.is_of_leaked_memory for other in accounts)
                account.balance.take(
                    [new - old for old, new in zip(last[1], reading[1], strict=True)], is_shared=is_shared
                )
