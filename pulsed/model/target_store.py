"""The latest tick and the errors of every target: written by the collectors, read by every output.

Staleness is decided here only: by the arrival of ticks on the monotonic clock, so that neither a stepped wall clock
nor the replay of an old capture has an effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from pulsed.model.clocks import START, Monotonic, Unix
from pulsed.model.health import NodeHealth
from pulsed.model.host import HostFacts
from pulsed.model.tick import Tick

MIN_STALE_SECONDS = 2.0
"""Shortest default: `dcgmi` delivers ticks of short intervals in batches, and ticks of a fast replay queue up."""


def stale_seconds(intervals: float, interval: float) -> float:
    """Return the seconds after which data is stale that many intervals old, where the configuration names no time."""
    return max(intervals * interval, MIN_STALE_SECONDS)


class DiscoveryList(NamedTuple):
    """A list that targets are discovered by.

    Attributes:
        kind: `kubernetes`.
        name: path in the Kubernetes API.
        is_up: whether it could be read when it was read last.
        last_success: Unix time when it was last read, or found unchanged; None before.
    """

    kind: str
    name: str
    is_up: bool
    last_success: Unix | None


@dataclass(slots=True)
class Target:
    """The state of one source.

    Attributes:
        kind: `exporter`, `replay`, `demo`, ...
        name: a URL, a path, `demo`.
        interval: nominal seconds between two ticks.
        stale_after: seconds after the last tick's arrival from which its GPUs count as stale.
        stale_intervals: the same in intervals, where the configuration names no time: it then follows the interval.
        up: whether the last attempt delivered a tick.
        error: the error of the last attempt, with the remedy; empty while up.
        tick: the last tick, None before the first.
        arrived: when it arrived, in seconds of the monotonic clock.
        is_sampled: whether it is of the source; False of one that only has what the kernel log names.
        restarts: restarts of the source's child process.
        kernel_log_error: why the kernel log cannot be used; empty while it is read, None where it is not to be read.
        version: grows with every change of this target.
    """

    kind: str
    name: str
    interval: float
    stale_after: float
    up: bool = False
    error: str = ""
    tick: Tick | None = field(default=None, repr=False)
    arrived: Monotonic = START
    is_sampled: bool = True
    samples: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    restarts: int = 0
    kernel_log_error: str | None = None
    ended: bool = False
    version: int = 0
    stale_intervals: float | None = None

    def set_source(self, kind: str, name: str, interval: float, restarts: int) -> None:
        """Update the source's attributes: `auto` may have chosen another one."""
        self.restarts = restarts
        if (self.kind, self.name, self.interval) != (kind, name, interval):
            self.kind, self.name, self.interval = kind, name, interval
            self.version += 1
            if self.stale_intervals is not None:
                self.stale_after = stale_seconds(self.stale_intervals, interval)

    def continue_from(self, before: Target) -> None:
        """Copy the state of a target of the same source, whose configuration has changed."""
        self.kind, self.name, self.tick, self.arrived = before.kind, before.name, before.tick, before.arrived
        self.up, self.error, self.ended, self.is_sampled = before.up, before.error, before.ended, before.is_sampled
        self.samples, self.restarts = before.samples, before.restarts
        self.rejected, self.errors = dict(before.rejected), self.errors | before.errors
        self.version = before.version + 1

    def fresh(self, now: Monotonic) -> bool:
        """Return whether the last tick is recent enough to be served; `now` is monotonic seconds."""
        return self.tick is not None and now - self.arrived <= self.stale_after

    @property
    def failure(self) -> str:
        """Why it delivers nothing: the error of the last attempt, otherwise since when."""
        if self.error or self.tick is None:
            return self.error or "no data yet"
        return f"no data since {datetime.fromtimestamp(self.tick.time, UTC):%Y-%m-%dT%H:%M:%SZ}"

    def delivers(self, now: Monotonic) -> bool:
        """Return whether the last tick is fresh and of the source, not of the kernel log alone."""
        return self.is_sampled and self.fresh(now)

    def accept(self, tick: Tick, now: Monotonic) -> None:
        """Store a new tick that arrived at the monotonic time `now`."""
        self.tick, self.arrived, self.up, self.error, self.is_sampled = tick, now, True, "", True
        self.samples += 1
        self.version += 1
        for reason, rows in tick.raw.rejected.items():
            self.rejected[reason] = self.rejected.get(reason, 0) + rows

    def show(self, tick: Tick, now: Monotonic) -> None:
        """Store a tick that is not of the source, which delivers nothing, at the monotonic time `now`."""
        self.tick, self.arrived, self.is_sampled = tick, now, False
        self.version += 1

    def correct(self, tick: Tick) -> None:
        """Replace the last tick by another version of it."""
        self.tick = tick
        self.version += 1

    def end(self, message: str) -> None:
        """Store that the source has no more ticks; the last tick stays until it is stale."""
        self.up, self.ended, self.error = False, True, message
        self.version += 1

    def fail(self, reason: str, message: str) -> None:
        """Store a failed attempt; the last tick stays until it is stale."""
        self.up, self.error = False, message
        self.errors[reason] = self.errors.get(reason, 0) + 1
        self.version += 1


@dataclass(slots=True)
class TargetStore:
    """All targets of this process, in the order of the configuration.

    Attributes:
        host: facts about this host other than its GPUs' samples; None where they are not read.
        node_health: of this host; None where it is not read.
    """

    node: str
    targets: list[Target] = field(default_factory=list)
    host: HostFacts | None = None
    node_health: NodeHealth | None = None
    _base: int = 0

    @property
    def version(self) -> int:
        """Grows with every change of any target, and with `replace`."""
        return self._base + sum(target.version for target in self.targets)

    @property
    def gpus(self) -> int:
        """How many GPUs and MIG instances the last ticks have."""
        return sum(len(target.tick.gpus) for target in self.targets if target.tick is not None)

    def fresh_ticks(self, now: Monotonic) -> list[Tick]:
        """Return the last ticks of the targets that are fresh at `now` (monotonic seconds), in their order."""
        return [target.tick for target in self.targets if target.tick is not None and target.fresh(now)]

    def set_host(self, host: HostFacts | None, health: NodeHealth | None) -> None:
        """Store what was found at the last look at this host."""
        self.host, self.node_health = host, health
        self._base += 1

    def replace(self, targets: Sequence[Target]) -> None:
        """Replace all targets; some of the new ones may be old ones."""
        before = self.version
        self.targets = list(targets)
        self._base += before + 1 - self.version
