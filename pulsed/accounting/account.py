"""The account of one owner, and its part on each of its GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from pulsed.accounting.counter_vector import EMPTY, CounterVector, added, observed, scaled
from pulsed.model.gpu import Device
from pulsed.model.owner import Owner
from pulsed.model.vocabulary import Reading, Value

GpuKey = tuple[str, str, str]
"""Node, UUID (or index without one) and MIG id."""

MAX_EVENTS = 32
"""Health events that are kept per owner and GPU; the first ones matter."""

VIOLATIONS = ("power_violation_seconds_total", "thermal_violation_seconds_total")
"""The GPU's own counters of lost clocks whose increase is accounted."""


def gpu_key(device: Device) -> GpuKey:
    """Return the key of a GPU or MIG instance."""
    entity = device.entity
    return (*entity.board, entity.mig_id)


class OwnerEvent(NamedTuple):
    """A change of a GPU's health while the owner had it, or of a finding; Unix time, states.

    `check` is the id of the check, empty for the GPU as a whole, or the name of the finding. `remedy` is empty for
    findings, and where a check is no longer raised.
    """

    time: float
    check: str
    before: str
    after: str
    message: str
    remedy: str = ""


@dataclass(slots=True)
class Extremes:
    """Extremes of samples, and the current run of idle ones.

    Attributes:
        samples: how many.
        idle_run: seconds of idle samples at the end.
        longest_idle: seconds of the longest run of idle samples.
    """

    memory_used_bytes: Value = None
    power_watts: Value = None
    temperature_celsius: Value = None
    samples: int = 0
    idle_run: float = 0.0
    longest_idle: float = 0.0

    def take(self, reading: Reading, seconds: float, *, is_idle: bool) -> None:
        """Take a sample; one that covers no time is no sample of the owner."""
        if seconds <= 0.0:
            return
        self.samples += 1
        if (used := reading.memory_used_bytes) is not None and (self.memory_used_bytes or 0.0) < used < inf:
            self.memory_used_bytes = used
        if (watts := reading.power_watts) is not None and (self.power_watts or 0.0) < watts < inf:
            self.power_watts = watts
        if (degrees := reading.temperature_celsius) is not None and (self.temperature_celsius or 0.0) < degrees < inf:
            self.temperature_celsius = degrees
        if is_idle:
            self.idle_run += seconds
            if self.idle_run > self.longest_idle:
                self.longest_idle = self.idle_run
        else:
            self.idle_run = 0.0

    def include(self, other: Extremes) -> None:
        """Include the extremes of later samples."""
        self.memory_used_bytes = _larger(self.memory_used_bytes, other.memory_used_bytes)
        self.power_watts = _larger(self.power_watts, other.power_watts)
        self.temperature_celsius = _larger(self.temperature_celsius, other.temperature_celsius)
        self.samples += other.samples
        self.idle_run, self.longest_idle = other.idle_run, max(self.longest_idle, other.longest_idle)


@dataclass(slots=True)
class GpuAccount:
    """What an owner got out of one GPU.

    Attributes:
        device: the GPU.
        since: when the owner got it, in Unix seconds; None while it does not have it.
        held: seconds that it had it before `since`.
        alone: counters of the GPU over the time in which the owner had it alone.
        shared: counters of the whole GPU over the time in which others had it, too.
        share: an equal share of these.
        boundary: counters over the samples in which it got or lost the GPU; they count as `nobody`.
        sharers: most owners at a time.
        memory_bytes: size of its device memory.
        bridged_joules: energy, by the GPU's own counter, of the time in which pulsed did not run.
        energy: the GPU's energy counter in joules, and its Unix time, when the account was last charged.
        bridge: the same from before a restart of pulsed, until the GPU is seen again.
        violations: increase of `VIOLATIONS`, in seconds; None if never known.
    """

    device: Device
    since: float | None = None
    held: float = 0.0
    alone: CounterVector = EMPTY
    shared: CounterVector = EMPTY
    share: CounterVector = EMPTY
    boundary: CounterVector = EMPTY
    sharers: int = 1
    memory_bytes: Value = None
    extremes: Extremes = field(default_factory=Extremes)
    bridged_joules: float = 0.0
    energy: tuple[float, float] | None = None
    bridge: tuple[float, float] | None = None
    violations: list[Value] = field(default_factory=lambda: [None] * len(VIOLATIONS))
    events: list[OwnerEvent] = field(default_factory=list)

    @property
    def estimate(self) -> CounterVector:
        """The owner's counters, with an equal share of what it shared: those of all owners add up to the GPU's."""
        return added(self.alone, self.share)

    @property
    def upper(self) -> CounterVector:
        """The owner's counters are no higher than these, and no lower than `alone`."""
        return added(added(self.alone, self.shared), self.boundary)

    @property
    def observed(self) -> float:
        """Seconds in which the GPU was observed while the owner had it."""
        return observed(self.alone) + observed(self.shared)

    def held_seconds(self, now: float) -> float:
        """Return how long the owner has had it, at a Unix time."""
        return self.held + (max(now - self.since, 0.0) if self.since is not None else 0.0)

    def charge(self, counters: CounterVector, sharers: int) -> None:
        """Add counters of the GPU over a time in which so many owners had it, this one included."""
        if sharers == 1:
            self.alone = added(self.alone, counters)
        else:
            self.shared = added(self.shared, counters)
            self.share = added(self.share, scaled(counters, 1.0 / sharers))
            self.sharers = max(self.sharers, sharers)

    def add_violations(self, increases: tuple[Value, ...]) -> None:
        """Add increases of `VIOLATIONS`."""
        for at, seconds in enumerate(increases):
            if seconds is not None:
                self.violations[at] = (self.violations[at] or 0.0) + seconds

    def add_event(self, event: OwnerEvent) -> None:
        """Keep an event, unless there are `MAX_EVENTS` before it."""
        if len(self.events) < MAX_EVENTS:
            self.events.append(event)


@dataclass(slots=True, eq=False)
class OwnerAccount:
    """What an owner got out of its GPUs.

    Attributes:
        owner: as last seen.
        begin: Unix time.
        first_seen: Unix time of its first sample.
        last_seen: Unix time of the newest one.
        left: Unix time at which it lost its last GPU; None while it has one.
        end: the same, once it has not come back; else None.
        gpus: by GPU.
        holding: the GPUs that it has now.
        absent_ticks: ticks since it had a GPU.
    """

    owner: Owner
    begin: float
    first_seen: float
    last_seen: float
    end: float | None = None
    left: float | None = None
    gpus: dict[GpuKey, GpuAccount] = field(default_factory=dict)
    holding: set[GpuKey] = field(default_factory=set)
    absent_ticks: int = 0

    def on(self, device: Device) -> GpuAccount:
        """Return the account on a GPU, a new one if it had not had it."""
        key = gpu_key(device)
        account = self.gpus.get(key)
        if account is None:
            account = self.gpus[key] = GpuAccount(device)
        return account


def _larger(first: Value, second: Value) -> Value:
    if first is None or second is None:
        return second if first is None else first
    return max(first, second)
