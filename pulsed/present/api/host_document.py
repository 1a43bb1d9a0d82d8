"""CPU and memory of the host and of pulsed, in JSON. Measured when requested, which costs nothing between requests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psutil

WINDOW_SECONDS = 1.0
"""The shortest time over which the CPU is measured; requests in between get the result before."""


class HostUsage:
    """Measures the host from one request to the next, in the thread that creates it.

    Args:
        cpu_percent: returns how busy the CPUs were since the call before, 0..100.
        clock: returns monotonic seconds.
    """

    def __init__(
        self, cpu_percent: Callable[[], float] = psutil.cpu_percent, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cpu_percent, self._clock = cpu_percent, clock
        self._cpu_percent()
        self._measured = clock()
        self._busy: float | None = None

    def document(self) -> dict[str, Any]:
        """Return the host's load; None where it is unknown. In a container it is that of the node."""
        memory, own = psutil.virtual_memory(), psutil.Process().cpu_times()
        return {
            "cpu_count": psutil.cpu_count(),
            "cpu_busy_ratio": self._measure(),
            "load_average": psutil.getloadavg()[0],
            "memory_bytes": memory.total,
            "memory_used_bytes": memory.total - memory.available,
            "pulsed_cpu_seconds": own.user + own.system,
            "pulsed_memory_bytes": psutil.Process().memory_info().rss,
        }

    def _measure(self) -> float | None:
        """Return the share of CPU time since the measurement before that was not idle."""
        now = self._clock()
        if now - self._measured >= WINDOW_SECONDS:
            self._busy, self._measured = self._cpu_percent() / 100, now
        return self._busy
