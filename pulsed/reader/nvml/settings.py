"""Settings of the source `nvml`."""

from __future__ import annotations

from dataclasses import dataclass

from pulsed.model.raw_tick import MAX_GPUS
from pulsed.settings import Duration, Settings, Text, setting

LEAST_INTERVAL = 0.1
"""Seconds; NVIDIA documents that samples for profiling counters need more than 100 ms between them."""


@dataclass(frozen=True, slots=True)
class NvmlSettings(Settings):
    """How to read NVML.

    Attributes:
        interval: seconds between ticks.
        max_gpus: most GPUs and MIG instances.
    """

    slow_interval: Duration = setting(
        10.0, "Interval of limits, error counts, links, processes, and the list of MIG instances."
    )
    release_file: Text = setting(
        "/run/pulsed/release-driver",
        "While this file exists, the driver is released from the next tick on: a GPU reset, a change of the "
        "MIG mode, and unloading the driver fail while a program uses the GPU.",
    )
    timeout: Duration | None = setting(
        None,
        "Time after which a driver that does not answer counts as hung. Unset: three intervals, at least 2s.",
        example="2s",
    )
    interval: float = 1.0
    max_gpus: int = MAX_GPUS

    @property
    def patience(self) -> float:
        """Seconds to wait for the calls of a tick."""
        return max(2.0, 3.0 * self.interval) if self.timeout is None else self.timeout
