"""CPU and memory of the host and of pulsed, in JSON. Measured when requested, which costs nothing between requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import psutil

WINDOW_SECONDS = 1.0
"""The shortest time over which the CPU is measured; requests in between get the result before."""


def cpu_times() -> Mapping[str, float]:
    """Return the seconds of all CPUs since the host started, by what they did; those of guests are also in `user`."""
    times: Mapping[str, float] = psutil.cpu_times()._asdict()
    return times


class HostUsage:
    """Measures the host from one request to the next.

    Args:
        cpu_times: returns the times of the CPUs.
        clock: returns monotonic seconds.
    """

    def __init__(
        self, cpu_times: Callable[[], Mapping[str, float]] = cpu_times, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cpu_times, self._clock = cpu_times, clock
        self._before = clock(), _split(cpu_times())
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
        now, (began, (idle_before, total_before)) = self._clock(), self._before
        if now - began >= WINDOW_SECONDS:
            idle, total = _split(self._cpu_times())
            if total > total_before:
                self._busy = min(1.0, max(0.0, 1.0 - (idle - idle_before) / (total - total_before)))
            self._before = now, (idle, total)
        return self._busy


def _split(times: Mapping[str, float]) -> tuple[float, float]:
    """Return idle and total seconds."""
    total = sum(value for name, value in times.items() if not name.startswith("guest"))
    return times["idle"] + times.get("iowait", 0.0), total
