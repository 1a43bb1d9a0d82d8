"""The source `nvml`: NVIDIA's driver library, read in this process (extra `pulsed[nvml]`). Here are its settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from pulsed.config.settings import setting
from pulsed.config.values import Duration, Text
from pulsed.reader.source import SourceSection

MIN_INTERVAL = 0.1
"""Seconds; NVIDIA documents that samples for profiling counters need more than 100 ms between them."""


@dataclass(frozen=True, slots=True)
class NvmlSettings(SourceSection):
    """How to read NVML."""

    does: ClassVar[str] = "reads the driver (`pip install 'pulsed[nvml]'`)"
    min_interval: ClassVar[float] = MIN_INTERVAL
    is_candidate: ClassVar[bool] = True

    slow_interval: Duration = setting(
        10.0, "Interval of limits, error counts, links, processes, and the list of MIG instances."
    )
    release_file: Text = setting(
        "/run/pulsed/release-driver",
        "While this file exists, the driver is released, for a GPU reset, a change of the MIG mode, or "
        "unloading the driver.",
    )
    timeout: Duration | None = setting(
        None,
        "Time after which the driver counts as hung. Unset: three intervals, at least 2s.",
        example="2s",
    )
    interval: float = field(default=1.0, kw_only=True)

    @property
    def reads_this_host(self) -> bool:
        """It always does."""
        return True

    @property
    def patience(self) -> float:
        """Seconds to wait for the calls of a tick."""
        return max(2.0, 3.0 * self.interval) if self.timeout is None else self.timeout
