"""The source `dcgmi`: a persistent `dcgmi dmon`, supervised. Here are its settings.

`source` composes the others: `child` runs a process, `stream` parses its output to ticks, `failures` maps its end to an
error, `watch` decides which fields to request, and `discovery` identifies the GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pulsed.config.settings import ListKind, setting
from pulsed.config.values import Duration, Text, one_of, whole
from pulsed.reader.source import SourceSection
from pulsed.translate.fields import GROUPS

MIN_INTERVAL = 0.1
"""Seconds. DCGM's floor for profiling counters; with Hopper's GPM a shorter one gives invalid values (DCGM#310)."""


Groups = Annotated[
    tuple[str, ...],
    ListKind(
        "group",
        f"some of {', '.join(GROUPS)}",
        one_of(GROUPS, "is not a group of fields"),
        "text",
        single=False,
        words=True,
    ),
]
FieldIds = Annotated[tuple[int, ...], ListKind("field", "ids of DCGM fields, such as [1017]", whole(1, 65535))]


@dataclass(frozen=True, slots=True)
class DcgmiSettings(SourceSection):
    """How to run `dcgmi dmon`.

    Attributes:
        fast: ids of the fields of every tick, the more important ones first.
        by_model: more fields of every tick, by a pattern: for all GPUs of a node if a product name matches it.
        slow: ids of fields that are read every `slow_interval` only; ids in `fast` are left out.
        interval: seconds between two ticks; less than `MIN_INTERVAL` is raised to it, with a warning.
        upkeep_interval: seconds between two checks for changes: lost profiling fields that are available again, MIG
            instances.
        discovery_timeout: seconds that a call of `dcgmi discovery` may take; without an engine it takes 5.
        first_pause: seconds before the first restart; each further one waits twice as long.
        good_after: seconds that a stream must have run for the pauses to restart at the first.
    """

    does: ClassVar[str] = "runs `dcgmi dmon`"
    min_interval: ClassVar[float] = 0.0
    is_candidate: ClassVar[bool] = True

    path: Text = setting("dcgmi", "Program: a path, or a name in PATH.")
    host: Text | None = setting(
        None, "Remote host engine: `host[:port]`, or `unix:///path`. Unset: the local one.", example="gpu1:5555"
    )
    groups: Groups = setting(
        tuple(GROUPS),
        "Field groups: `core` activity, memory, power, clocks; `health` errors, throttling, PCIe and fabric "
        "state, limits; `nvlink`; `media` encoders and decoders. Unsupported fields are omitted.",
    )
    fields: FieldIds = setting((), "Further DCGM field ids to read with every sample (docs/metrics.md).")
    entities: Text | None = setting(
        None, "Entities to watch, as for `dcgmi dmon -i`. Unset: all GPUs and MIG instances.", example="0,1"
    )
    slow_interval: Duration = setting(30.0, "Interval of slow fields: limits, error counts, settings.")
    read_timeout: Duration | None = setting(
        None, "Restart dcgmi after this time without a sample. Unset: ten intervals, at least 10s.", example="10s"
    )
    fast: tuple[int, ...] = ()
    by_model: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    slow: tuple[int, ...] = ()
    interval: float = field(default=1.0, kw_only=True)
    upkeep_interval: float = 300.0
    discovery_timeout: float = 8.0
    first_pause: float = 1.0
    longest_pause: float = 60.0
    good_after: float = 10.0

    @property
    def reads_this_host(self) -> bool:
        """Whether it reads the local host engine."""
        return self.host is None

    @property
    def patience(self) -> float:
        """Seconds without a tick after which the fast stream counts as hung."""
        return self.read_timeout or max(10.0, 10 * self.interval)

    @property
    def slow_patience(self) -> float:
        """The same for the slow stream: after it, its values also count as missing."""
        return max(self.read_timeout or 10.0, 3 * self.slow_interval)

    def options(self) -> tuple[str, ...]:
        """Return the options of every subcommand of dcgmi."""
        return ("--host", self.host) if self.host else ()
