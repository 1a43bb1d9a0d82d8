"""Traffic of the InfiniBand and RoCE ports of this host, as running totals at the times of readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pulsed.model.host import InfinibandPort
from pulsed.owners.accounting.balance import NETWORK
from pulsed.owners.accounting.host_totals import HostTotals

TRAFFIC = ("receive_bytes", "transmit_bytes")
"""Counters of a port, of `PORT_COUNTERS`."""


class HostNetwork:
    """Running totals of all ports that have counters of their traffic: seconds and integral of each of `NETWORK`.

    They do not grow between two readings that do not belong together: far apart, with other ports, or if a counter
    fell.
    """

    def __init__(self) -> None:
        self.totals = HostTotals(2 * len(NETWORK))
        self._counters: Mapping[str, tuple[int, ...]] = {}

    def add(self, now: float, ports: Sequence[InfinibandPort] | None, limit: float) -> None:
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
