"""Traffic of the InfiniBand and RoCE ports of this host, as running totals at the times of readings."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from math import inf
from operator import add
from typing import NamedTuple

from pulsed.model.host import InfinibandPort
from pulsed.owners.accounting.balance import NETWORK

TRAFFIC = ("receive_bytes", "transmit_bytes")
"""Counters of a port, of `PORT_COUNTERS`."""


class _Reading(NamedTuple):
    now: float
    totals: Sequence[float]
    counters: Mapping[str, tuple[int, ...]]


class HostNetwork:
    """Running totals of all ports that have counters of their traffic: seconds and integral of each of `NETWORK`.

    They do not grow between two readings that do not belong together: far apart, with other ports, or if a counter
    fell.
    """

    def __init__(self) -> None:
        self._readings: deque[_Reading] = deque([_Reading(-inf, [0.0] * (2 * len(NETWORK)), {})])

    def add(self, now: float, ports: Sequence[InfinibandPort] | None, limit: float) -> None:
        """Add a reading.

        Args:
            now: in seconds of the clock of the ticks.
            ports: None: they cannot be read.
            limit: seconds between two readings from which their difference does not count; older ones are forgotten.
        """
        counted = [port for port in ports or () if port.counters.keys() >= set(TRAFFIC)]
        counters = {port.name: tuple([port.counters[name] for name in TRAFFIC]) for port in counted}
        last, totals = self._readings[-1], self._readings[-1].totals
        elapsed = now - last.now
        if counters and counters.keys() == last.counters.keys() and 0.0 < elapsed <= limit:
            gains = [
                [new - old for old, new in zip(last.counters[name], counters[name], strict=True)] for name in counters
            ]
            if min(map(min, gains)) >= 0:
                received, sent = map(sum, zip(*gains, strict=True))
                rates = [port.bytes_per_second for port in counted if port.is_active]
                rate = [0.0, 0.0] if None in rates else [elapsed, elapsed * sum(each or 0.0 for each in rates)]
                totals = list(map(add, totals, [elapsed, received, elapsed, sent, *rate]))
        self._readings.append(_Reading(now, totals, counters))
        while now - self._readings[0].now > limit:
            self._readings.popleft()

    def totals_at(self, now: float) -> Sequence[float]:
        """Return the totals at a moment, by linear interpolation; outside of the readings those of the nearest one."""
        later = self._readings[-1]
        for earlier in reversed(self._readings):
            if earlier.now <= now:
                share = (now - earlier.now) / (later.now - earlier.now) if earlier is not later else 0.0
                return [old + share * (new - old) for old, new in zip(earlier.totals, later.totals, strict=True)]
            later = earlier
        return later.totals
