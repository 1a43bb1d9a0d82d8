"""What network and processors of this host did, for the balances of owners.

Readings of the host and samples of GPUs have times of their own: totals are interpolated between the readings.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from operator import add
from typing import NamedTuple

from pulsed.model.clocks import MONOTONIC_NEVER, Monotonic
from pulsed.model.host import CpuReading, InfinibandPort
from pulsed.owners.accounting.account import OwnerAccount
from pulsed.owners.accounting.balance import NETWORK, gpu_totals

TRAFFIC = ("receive_bytes", "transmit_bytes")
"""Counters of a port, of `PORT_COUNTERS`."""


class _Totals(NamedTuple):
    now: Monotonic
    values: Sequence[float]


class HostTotals:
    """Totals that never decrease, of readings that are more frequent or rarer than the moments that are requested."""

    def __init__(self, size: int) -> None:
        self._readings: deque[_Totals] = deque([_Totals(MONOTONIC_NEVER, [0.0] * size)])

    @property
    def last(self) -> Monotonic:
        """When the last reading was, in seconds of the clock of the ticks."""
        return self._readings[-1].now

    def add(self, now: Monotonic, gains: Sequence[float] | None, limit: float) -> None:
        """Add gains since the last reading, None if they are not known; readings older than `limit` are forgotten."""
        before = self._readings[-1].values
        self._readings.append(_Totals(now, before if gains is None else list(map(add, before, gains))))
        while now - self._readings[0].now > limit:
            self._readings.popleft()

    def at(self, now: Monotonic) -> Sequence[float]:
        """Return the totals at a moment, by linear interpolation; outside of the readings, the nearest reading."""
        later = self._readings[-1]
        for earlier in reversed(self._readings):
            if earlier.now <= now:
                share = (now - earlier.now) / (later.now - earlier.now) if earlier is not later else 0.0
                return [old + share * (new - old) for old, new in zip(earlier.values, later.values, strict=True)]
            later = earlier
        return later.values


class HostNetwork:
    """Running totals of all ports that have counters of their traffic: seconds and integral of each of `NETWORK`.

    They do not grow between two readings that do not belong together: far apart, with other ports, or if a counter
    fell.
    """

    def __init__(self) -> None:
        self.totals = HostTotals(2 * len(NETWORK))
        self._counters: Mapping[str, tuple[int, ...]] = {}

    def add(self, now: Monotonic, ports: Sequence[InfinibandPort] | None, limit: float) -> None:
        """Add a reading.

        Args:
            now: in seconds of the clock of the ticks.
            ports: None: they cannot be read.
            limit: seconds between two readings from which their difference does not count; older ones are forgotten.
        """
        counted = [port for port in ports or () if port.counters.keys() >= set(TRAFFIC)]
        last, elapsed = self._counters, now - self.totals.last
        self._counters = {port.name: tuple([port.counters[name] for name in TRAFFIC]) for port in counted}
        is_next = self._counters and self._counters.keys() == last.keys() and 0.0 < elapsed <= limit
        self.totals.add(now, self._gains(last, counted, elapsed) if is_next else None, limit)

    def _gains(
        self, last: Mapping[str, tuple[int, ...]], counted: Sequence[InfinibandPort], elapsed: float
    ) -> Sequence[float] | None:
        """Return what was gained since the last reading; None if a counter fell."""
        gains = [[new - old for old, new in zip(last[name], now, strict=True)] for name, now in self._counters.items()]
        if min(map(min, gains)) < 0:
            return None
        received, sent = map(sum, zip(*gains, strict=True))
        rates = [port.bytes_per_second for port in counted if port.is_active]
        rate = [0.0, 0.0] if None in rates else [elapsed, elapsed * sum(each or 0.0 for each in rates)]
        return [elapsed, received, elapsed, sent, *rate]


class BalanceRecorder:
    """Records the balances of the owners of the GPUs of this host.

    The interval of an owner ends with its newest sample, at which the totals of the network are interpolated, so that
    samples may be rarer than readings.
    """

    def __init__(self) -> None:
        self._network = HostNetwork()
        self._cpu_power = HostTotals(2)
        self._before: dict[OwnerAccount, tuple[Monotonic, Sequence[float]]] = {}

    def add_ports(self, now: Monotonic, ports: Sequence[InfinibandPort] | None, limit: float) -> None:
        """Take a reading of the ports, as `HostNetwork.add`."""
        self._network.add(now, ports, limit)

    def add_cpus(self, now: Monotonic, cpus: Sequence[CpuReading], limit: float) -> None:
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
