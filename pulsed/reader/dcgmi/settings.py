"""Settings of the source `dcgmi`: path of dcgmi, fields and interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pulsed.model.raw_tick import MAX_GPUS

LEAST_INTERVAL = 0.1
"""Seconds. DCGM's floor for profiling counters; with Hopper's GPM a shorter one gives invalid values (DCGM#310)."""


@dataclass(frozen=True, slots=True)
class DcgmiSettings:
    """How to run `dcgmi dmon`.

    Attributes:
        fast: ids of the fields of every tick, the more important ones first.
        by_model: more fields of every tick, by a pattern: for the GPUs of a node of which one's product name has it.
        slow: ids of fields that are read every `slow_interval` only; those of `fast` are left out.
        interval: seconds between two ticks; less than `LEAST_INTERVAL` is raised to it, with a warning.
        slow_interval: seconds. Values older than three of them count as missing.
        path: of dcgmi, or its name on PATH.
        host: of a host engine elsewhere, as `dcgmi --host` takes it; empty is this machine's.
        entities: what to watch, as `dcgmi dmon -i` takes it; empty is all GPUs and, where there are any, all MIG
            instances.
        read_timeout: seconds without a tick after which dcgmi counts as hung; None is ten intervals, at least 10.
        upkeep_interval: seconds between two looks at what may have changed behind our back: lost profiling fields that
            can be had again, MIG instances.
        discovery_timeout: seconds that a question to `dcgmi discovery` may take.
        first_pause: seconds before the first new start; each further one waits twice as long.
        max_gpus: most entities of a tick.
        good_after: seconds that a stream must have run for the pauses to begin anew.
    """

    fast: tuple[int, ...]
    by_model: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    slow: tuple[int, ...] = ()
    interval: float = 1.0
    slow_interval: float = 30.0
    path: str = "dcgmi"
    host: str = ""
    entities: str = ""
    read_timeout: float | None = None
    upkeep_interval: float = 300.0
    discovery_timeout: float = 5.0
    first_pause: float = 1.0
    longest_pause: float = 60.0
    good_after: float = 10.0
    max_gpus: int = MAX_GPUS

    @property
    def patience(self) -> float:
        """Seconds without a tick after which the fast stream counts as hung."""
        return self.read_timeout or max(10.0, 10 * self.interval)

    @property
    def slow_patience(self) -> float:
        """The same for the slow stream: its values count as missing then, too."""
        return max(self.read_timeout or 10.0, 3 * self.slow_interval)

    def options(self) -> tuple[str, ...]:
        """Return the options of every subcommand of dcgmi."""
        return ("--host", self.host) if self.host else ()
