"""Settings of the source `nvml`."""

from __future__ import annotations

from dataclasses import dataclass

from pulsed.model.raw_tick import MAX_GPUS

LEAST_INTERVAL = 0.1
"""Seconds; NVIDIA documents that samples for profiling counters need more than 100 ms between them."""


@dataclass(frozen=True, slots=True)
class NvmlSettings:
    """How to read NVML.

    Attributes:
        interval: seconds between ticks.
        slow_interval: seconds between reads of limits, error counts, links and the list of MIG instances.
        timeout: seconds until a driver that does not answer counts as hung; None: three intervals, at least 2 s.
        release_file: while it exists, nothing is read and nothing of the driver is held; empty: none.
        max_gpus: most GPUs and MIG instances.
    """

    interval: float = 1.0
    slow_interval: float = 10.0
    timeout: float | None = None
    release_file: str = "/run/pulsed/release-driver"
    max_gpus: int = MAX_GPUS

    @property
    def patience(self) -> float:
        """Seconds to wait for the calls of a tick."""
        return max(2.0, 3.0 * self.interval) if self.timeout is None else self.timeout
