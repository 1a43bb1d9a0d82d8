"""The account of one owner, its part on each of its GPUs, and the charging of a GPU's time and energy to its owners.

Time and energy of a GPU without an owner are charged to `FREE`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pulsed.model.clocks import MONOTONIC_NEVER, START, Monotonic, Unix
from pulsed.model.gpu import Device, GpuKey
from pulsed.model.health import Health
from pulsed.model.host import JobHostUsage
from pulsed.model.owner import Owner
from pulsed.model.vocabulary import Value
from pulsed.owners.accounting.activity import Extremes, Moments, Timeline
from pulsed.owners.accounting.balance import Balance
from pulsed.owners.accounting.counter_vector import EMPTY, CounterVector, added, observed, scaled, total

LEAKED = Owner("nobody", "nobody")
"""The owner of memory that has leaked."""

_OTHERS = "other owners"
OTHER = Owner("nobody", "other", user=_OTHERS, account=_OTHERS, namespace=_OTHERS, name=_OTHERS)
"""All owners without an account of their own, which reports show as one."""

FREE = Owner("nobody", "free")
"""The owner, in reports only, of all GPU time without another owner: with it, the rows add up to the bill."""

MAX_EVENTS = 32
"""Health events that are kept per owner and GPU; the first ones matter."""

VIOLATIONS = ("power_violation_seconds_total", "thermal_violation_seconds_total")
"""The GPU's own counters of lost clocks whose increase is accounted."""


class OwnerEvent(NamedTuple):
    """A change of a GPU's health while the owner had it, or of a finding; Unix time, states.

    `check` is the id of the check, empty for the GPU as a whole, or the name of the finding. `remedy` is empty for
    findings, and where a check is no longer raised.
    """

    time: Unix
    check: str
    before: str
    after: str
    message: str
    remedy: str = ""


class FindingVerdict(NamedTuple):
    """Whether a finding about a GPU holds; None if it is not judged, because the inputs `missing` are absent."""

    holds: bool | None
    missing: str = ""


RAISED = ("warn", "hot", "crit", "suspected")
"""States in which something is wrong, the worst last, except findings, which have one state."""


@dataclass(slots=True)
class OwnerCondition:
    """A problem of a GPU while an owner had it, from its first to its last time.

    Attributes:
        check: id of the check, or name of the finding.
        state: the worst.
        since: Unix time; before the owner had the GPU if it was raised already.
        until: Unix time at which it was no longer raised; None if it was until the end.
        was_raised: whether it was raised when the owner got the GPU.
    """

    check: str
    state: str
    since: Unix
    until: Unix | None
    message: str
    remedy: str
    was_raised: bool = False


@dataclass(slots=True)
class GpuAccount:
    """The account of an owner on one GPU.

    Attributes:
        since: when the owner got it, in seconds of the clock of the ticks; None while it does not have it.
        held: seconds that it had it before `since`.
        left: when the owner lost it, by the same clock; None while it has it, or if that is not known.
        is_announced: whether subscribers were notified that the owner has it.
        alone: counters of the GPU over the time in which the owner had it alone.
        shared: counters of the whole GPU over the time in which other owners also had it.
        share: its share of these: by its activity where that is measured, otherwise an equal one.
        boundary: counters over the samples in which it got or lost the GPU, which are in no sum.
        slices: energy of a MIG instance: its share of the board's by compute slices, and by its share of the instance.
        board: the whole energy of the board over this time, its upper bound.
        allocated: counters times the part of the GPU that the scheduler gave it, over the time in which that is known.
        sharers: most owners at a time.
        memory_bytes: size of its device memory.
        bridged_joules: energy, by the GPU's own counter, of the time in which pulsed did not run.
        energy: the GPU's energy counter in joules, and its Unix time, when the account was last charged.
        bridge: the same from before a restart of pulsed, until the GPU is seen again; and how many owners had it.
        violations: increase of `VIOLATIONS`, in seconds; None if never known.
        moments: for mean and spread of quantities; of a shared GPU a share of the time.
        findings: whether each finding holds, by name; those that do not apply are absent.
    """

    device: Device
    since: Monotonic | None = None
    held: float = 0.0
    left: Monotonic | None = None
    is_announced: bool = False
    alone: CounterVector = EMPTY
    shared: CounterVector = EMPTY
    share: CounterVector = EMPTY
    boundary: CounterVector = EMPTY
    slices: CounterVector = EMPTY
    board: CounterVector = EMPTY
    allocated: CounterVector = EMPTY
    sharers: int = 1
    memory_bytes: Value = None
    extremes: Extremes = field(default_factory=Extremes)
    bridged_joules: float = 0.0
    energy: tuple[float, Unix] | None = None
    bridge: tuple[float, Unix, int] | None = None
    violations: list[Value] = field(default_factory=lambda: [None] * len(VIOLATIONS))
    events: list[OwnerEvent] = field(default_factory=list)
    conditions: dict[str, OwnerCondition] = field(default_factory=dict)
    moments: Moments = field(default_factory=Moments)
    findings: dict[str, FindingVerdict] = field(default_factory=dict)

    @property
    def estimate(self) -> CounterVector:
        """The owner's counters, with a share of shared time. The sums over all owners are the counters of the GPU; the
        energy of all owners of MIG instances is the energy of the board."""
        return added(added(self.alone, self.share), self.slices)

    @property
    def upper(self) -> CounterVector:
        """The owner's counters are no higher than these, and no lower than `alone`."""
        return added(added(added(self.alone, self.shared), self.boundary), self.board)

    @property
    def observed(self) -> float:
        """Seconds in which the GPU was observed while the owner had it."""
        return observed(self.alone) + observed(self.shared)

    @property
    def joules(self) -> Value:
        """Energy, of a shared GPU a share, also of the time in which pulsed did not run; None if never known."""
        counted = total(self.estimate, "class_energy_joules")
        return counted if counted is None and not self.bridged_joules else (counted or 0.0) + self.bridged_joules

    @property
    def estimated_joules(self) -> Value:
        """The part of `joules` that is a share of a board with MIG; None without any."""
        return total(self.slices, "class_energy_joules")

    @property
    def allocated_seconds(self) -> Value:
        """Observed time by the part of the GPU that was allocated to the owner; None if that was never known."""
        return None if self.allocated is EMPTY else observed(self.allocated)

    @property
    def allocated_joules(self) -> Value:
        """Energy by the same part; None if one of both was never known."""
        return total(self.allocated, "class_energy_joules")

    def held_seconds(self, now: Monotonic) -> float:
        """Return how long the owner has had it, at a moment of the clock of the ticks."""
        return self.held + (max(now - self.since, 0.0) if self.since is not None else 0.0)

    def had_it_meanwhile(self, known_at: Monotonic) -> bool:
        """Return whether the owner, which has the GPU, never lost it: its owners, which were last known at `known_at`,
        have been unknown since, as when a page lost its labels, or while pulsed did not run."""
        return self.left is not None and known_at <= self.left

    def begin(self, now: Monotonic, known_at: Monotonic) -> Monotonic:
        """Note that the owner has the GPU from a moment on; return since when."""
        self.since = self.left if self.left is not None and self.had_it_meanwhile(known_at) else now
        self.left = None
        return self.since

    def end(self, now: Monotonic) -> None:
        """Note that the owner has lost the GPU, if it had it."""
        if self.since is not None:
            self.held, self.since, self.left = self.held_seconds(now), None, now

    def charge(self, counters: CounterVector, sharers: int, share: float) -> None:
        """Add counters of the GPU over a time with this number of owners; this one used a share, 0..1."""
        if sharers == 1:
            self.alone = added(self.alone, counters)
        else:
            self.shared = added(self.shared, counters)
            self.share = added(self.share, scaled(counters, share))
            self.sharers = max(self.sharers, sharers)

    def charge_board_energy(self, by_slices: CounterVector, at_most: CounterVector) -> None:
        """Add the owner's share of the energy of a board with MIG, and all of it."""
        self.slices, self.board = added(self.slices, by_slices), added(self.board, at_most)

    def charge_allocation(self, counters: CounterVector, allocated: Value) -> None:
        """Add counters of the GPU over a time in which this part of it, 0..1, was allocated to the owner."""
        if allocated is not None:
            self.allocated = added(self.allocated, scaled(counters, allocated))

    def add_violations(self, increases: tuple[Value, ...]) -> None:
        """Add increases of `VIOLATIONS`."""
        for at, seconds in enumerate(increases):
            if seconds is not None:
                self.violations[at] = (self.violations[at] or 0.0) + seconds

    def add_event(self, event: OwnerEvent) -> None:
        """Keep an event, unless there are `MAX_EVENTS` before it, and what it means for the condition of the GPU."""
        if event.check:
            self._update_condition(event.check, event.after, event.time, event.message, event.remedy)
        if len(self.events) < MAX_EVENTS:
            self.events.append(event)

    def inspect(self, health: Health, time: Unix) -> None:
        """Note the condition of the GPU when the owner gets it, at a Unix time."""
        for check in health.checks:
            if check.state not in RAISED:
                self._update_condition(check.id, check.state, time)
            elif check.id not in self.conditions:
                since = time if check.since is None else min(check.since, time)
                self._update_condition(check.id, check.state, since, check.message, check.remedy, was_raised=True)

    def _update_condition(
        self, check: str, state: str, time: Unix, message: str = "", remedy: str = "", *, was_raised: bool = False
    ) -> None:
        condition = self.conditions.get(check)
        if state not in RAISED:
            if condition is not None and condition.until is None and state != "unknown":
                condition.until = time
        elif condition is None:
            self.conditions[check] = OwnerCondition(check, state, time, None, message, remedy, was_raised)
        else:
            condition.until = None
            if RAISED.index(state) > RAISED.index(condition.state):
                condition.state, condition.message, condition.remedy = state, message, remedy


@dataclass(slots=True, eq=False)
class OwnerAccount:
    """The account of an owner over all its GPUs.

    Unix times are stamps; durations follow the clock of the ticks.

    Attributes:
        owner: as last seen.
        begin: Unix time.
        first_seen: Unix time of its first sample.
        last_seen: Unix time of the newest one.
        left: Unix time at which it lost its last GPU; None while it has one.
        end: the same, once its return is ruled out; otherwise None.
        now: when the newest sample was taken, or the last GPU was lost, in seconds of the clock of the ticks.
        elapsed: seconds between `begin` and `now`.
        unseen: the last part of them, in which no sample shows the owner, although it keeps its GPUs.
        first: when the first sample was taken, by the same clock; unknown after a restart of pulsed.
        absent_ticks: ticks since it had a GPU.
        host: its use of this host, as last read.
        exempt: why there are no findings about its work, as of the newest evaluation; empty if there are.
    """

    owner: Owner
    begin: Unix
    first_seen: Unix
    last_seen: Unix
    end: Unix | None = None
    now: Monotonic = START
    elapsed: float = 0.0
    unseen: float = 0.0
    first: Monotonic = MONOTONIC_NEVER
    left: Unix | None = None
    gpus: dict[GpuKey, GpuAccount] = field(default_factory=dict)
    holding: set[GpuKey] = field(default_factory=set)
    absent_ticks: int = 0
    timeline: Timeline = field(default_factory=Timeline)
    host: JobHostUsage | None = None
    balance: Balance = field(default_factory=Balance)
    exempt: str = ""

    @property
    def is_of_leaked_memory(self) -> bool:
        """Whether it stands for memory that has leaked, which no owner uses."""
        return self.owner.key == LEAKED.key

    @property
    def begun(self) -> Monotonic:
        """When it began, in seconds of the clock of the ticks."""
        return Monotonic(self.now - self.elapsed)

    @property
    def until(self) -> Unix:
        """The Unix time of `now`."""
        return self.last_seen if self.left is None else self.left

    def advance(self, now: Monotonic, time: Unix | None = None) -> None:
        """Note that the owner has a GPU at a moment of the clock of the ticks, which is a Unix time; None if no sample
        shows that."""
        if now > self.now:
            self.elapsed += now - self.now
            self.unseen = self.unseen + (now - self.now) if time is None else 0.0
            self.now, self.last_seen = now, self.last_seen if time is None else time

    def retract(self, now: Monotonic) -> None:
        """Note that the owner had its last GPU at a moment of the clock of the ticks, not for as long as assumed."""
        self.elapsed -= max(self.now - now, 0.0)
        self.now = min(self.now, now)

    def resume(self, now: Monotonic, time: Unix) -> None:
        """Continue after a restart of pulsed, at a moment of the new clock, which is a Unix time.

        The wall clock alone has the length of the gap.
        """
        gap = max(time - self.until, 0.0)
        for gpu in self.gpus.values():
            gpu.end(self.now)
            gpu.left = None if gpu.left is None else Monotonic(now - gap)
            gpu.findings = {}
        self.now = Monotonic(now - gap)

    def on(self, device: Device) -> GpuAccount:
        """Return the account on a GPU, a new one if it had not had it."""
        key = device.entity.key
        account = self.gpus.get(key)
        if account is None:
            account = self.gpus[key] = GpuAccount(device)
        return account


Accounts = tuple[OwnerAccount, ...]
