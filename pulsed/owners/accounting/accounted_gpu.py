"""What the accounting keeps of one GPU between two samples: its owners, and the segment of time since they changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from operator import itemgetter
from typing import NamedTuple

from pulsed.model.clocks import MONOTONIC_NEVER, UNIX_NEVER, Monotonic, Unix
from pulsed.model.counters import CounterSnapshot
from pulsed.model.gpu import Device
from pulsed.model.owner import OwnerKind, OwnerUse
from pulsed.model.tick import GpuRow, Tick
from pulsed.model.vocabulary import POSITION, Reading, Value
from pulsed.owners.accounting.account import OTHER, VIOLATIONS, Accounts, OwnerAccount
from pulsed.owners.accounting.activity import Extremes, Moments
from pulsed.owners.accounting.counter_vector import EMPTY, CounterVector, added, energy_of, increase, observed, scaled

UNKNOWN_USE = OwnerUse()

MAX_PAGE_SECONDS = 60.0
"""Values of a page that stay the same for longer are of the present: twice dcgm-exporter's default interval."""

CHANGES_TO_SETTLE = 2
"""The values of a page that was read with new owners are of a time before, and so is a part of the next ones."""


class BoardEnergy(NamedTuple):
    """The energy of a board over the seconds for which it is known, in joules, and an instance's share by slices."""

    joules: float = 0.0
    share: float = 0.0
    seconds: float = 0.0


NO_ENERGY = BoardEnergy()


class Boundary(NamedTuple):
    """A sample of the time around a change of owners.

    Attributes:
        stayed: owners that had the GPU before and after it.
        changed: the others.
        counters: the increase over the sample.
    """

    stayed: Accounts = ()
    changed: Accounts = ()
    counters: CounterVector = EMPTY


NO_BOUNDARY = Boundary()


class GpuPart(NamedTuple):
    """The part of a GPU that is an account's.

    Attributes:
        share: of the activity, 0..1; the shares of all accounts add up to 1.
        allocated: by the scheduler, 0..1; None if it is not known.
    """

    share: float
    allocated: Value = None


class Use(NamedTuple):
    """What one account uses of a GPU: device memory, and its part."""

    memory_bytes: Value
    part: GpuPart


@dataclass(slots=True, eq=False)
class AccountedGpu:
    """A GPU, and the segment of time since its owners, or their parts, changed.

    Attributes:
        row: in the newest tick that lists it.
        parts: of each of them.
        base: its counters at the start of the segment; None before the first.
        last: its counters and reading in the newest sample of the segment.
        violations: the GPU's own counters of `VIOLATIONS` at the start of the segment.
        observed: seconds of observed time up to the newest sample.
        first_energy: its energy counter in joules and the Unix time when it was first seen in this run of pulsed.
        is_known: whether its owners are known; free counts, also of a GPU that its owners left, as its memory shows.
        missed: the last tick with it, while its target does not deliver or list it; None while it does.
        known_at: when they were last known before `is_known` was set, in seconds of the clock of the ticks.
        unsettled: how often the values of its page must change until they are certainly of the present owners alone.
        unsettled_seconds: observed since it is unsettled and the values of its page have changed.
        changed: owners that got or lost it in the newest changes, while it is unsettled; without those that had ended.
        boundary: the newest sample of the time around a change.
        board_energy: of a MIG instance: the energy of its board, and its share, since the start of the segment.
        free: its counters over the time without an owner, and the shares of changes of owners.
        departed: owners that lost it in the newest change of owners, and the Unix time of the tick with that change.
    """

    device: Device
    target: str
    row: GpuRow
    owners: Accounts = ()
    parts: tuple[GpuPart, ...] = ()
    base: CounterSnapshot | None = None
    last: tuple[CounterSnapshot, Reading] | None = None
    violations: tuple[Value, ...] = ()
    extremes: Extremes = field(default_factory=Extremes)
    moments: Moments = field(default_factory=Moments)
    observed: float = 0.0
    first_energy: tuple[float, Unix] | None = None
    is_known: bool = False
    missed: Tick | None = None
    known_at: Monotonic = MONOTONIC_NEVER
    unsettled: int = 0
    unsettled_seconds: float = 0.0
    changed: Accounts = ()
    boundary: Boundary = NO_BOUNDARY
    board_energy: BoardEnergy = NO_ENERGY
    free: CounterVector = EMPTY
    departed: Accounts = ()
    entered: Unix = UNIX_NEVER

    def assign(self, owners: Accounts) -> None:
        """Set the owners of the segment, with equal shares."""
        self.owners, self.parts = owners, (GpuPart(1.0 / len(owners)),) * len(owners) if owners else ()

    def owners_of(self, time: Unix, *, is_raised: bool) -> Accounts:
        """Return the owners of a change of health at a Unix time.

        A problem that a job ends with shows in the sample in which another one has the GPU, and on a page in the first
        change of its values after that.
        """
        if not is_raised or not (self.unsettled or time <= self.entered):
            return self.owners
        departed = [account for account in self.departed if account.end is None]
        if not departed:
            return self.owners
        stayed = [account for account in self.owners if account.begin < min(self.entered, time)]
        return (*departed, *stayed)

    def add_extremes(self, tick: Tick) -> None:
        """Take the extremes of a sample; the GPU has owners."""
        row = self.row
        if self.unsettled:
            self.observed = observed(row.result.counters.values)
            for account in self.owners:
                account.advance(tick.now, tick.time)
            return
        result, reading, uses = row.result, row.reading, self.uses()
        parts = tuple(use.part for use in uses)
        if parts != self.parts:
            if self.last is not None:
                self.close(*self.last)
            self.parts = parts
        seen = observed(result.counters.values)
        seconds, self.observed = seen - self.observed, seen
        ratio, seen_memory = result.real_utilization.ratio.value, reading
        if seconds > 0.0:
            self.moments.add_sample(reading, result, seconds)
            if None not in [use.memory_bytes for use in uses]:
                seen_memory = reading._replace(memory_used_bytes=None)
                for account, use in zip(self.owners, uses, strict=True):
                    account.on(self.device).extremes.add_memory(use.memory_bytes)
        self.extremes.add_sample(seen_memory, seconds, tick.time, is_idle=result.workload.used is False)
        for account, part in zip(self.owners, parts, strict=True):
            account.advance(tick.now, tick.time)
            if ratio is not None and seconds > 0.0:
                account.timeline.add(account.elapsed, seconds, part.share * seconds, ratio)
        self.last = (result.counters, reading)

    @property
    def others(self) -> Sequence[tuple[OwnerKind, str]]:
        """The keys of its owners that have no account of their own, for which `OTHER` stands."""
        if OTHER.key not in (keys := {account.owner.key for account in self.owners}):
            return ()
        return [owner.key for owner in self.row.owners or () if owner.key not in keys]

    def keys_of(self, account: OwnerAccount) -> Sequence[tuple[OwnerKind, str]]:
        """Return the keys of the owners with an account: one, except `OTHER`."""
        return (account.owner.key == OTHER.key and self.others) or (account.owner.key,)

    @property
    def sharers(self) -> int:
        """The number of its owners."""
        return sum(len(self.keys_of(account)) for account in self.owners)

    def uses(self) -> Sequence[Use]:
        """Return the current use by each account; owners have equal shares unless all shares are measured."""
        uses = self.row.ownership.uses
        keys = [self.keys_of(account) for account in self.owners]
        of_owners = [[uses.get(key, UNKNOWN_USE) for key in each] for each in keys]
        activity = [_total([use.activity_share for use in each]) for each in of_owners]
        if not (total := _total(activity) or 0.0) > 0.0:
            activity, total = [float(len(each)) for each in keys], float(sum(map(len, keys)))
        allocated = {owner.key: owner.allocated for owner in self.row.owners or ()}
        return [
            Use(
                _total([use.memory_bytes for use in each]),
                GpuPart((share or 0.0) / total, _total([allocated.get(key) for key in keys_of_account])),
            )
            for each, share, keys_of_account in zip(of_owners, activity, keys, strict=True)
        ]

    def start(self, base: CounterSnapshot, reading: Reading) -> None:
        """Start a segment at a sample."""
        self.base, self.violations, self.last = base, _violations(reading), (base, reading)
        self.board_energy = NO_ENERGY

    def add_board_energy(self, joules: float, share: float, seconds: float) -> float:
        """Add the energy of its board over a sample, and its share, 0..1; return the joules that are charged."""
        if self.base is not self.row.result.counters:
            before = self.board_energy
            self.board_energy = BoardEnergy(
                before.joules + joules, before.share + joules * share, before.seconds + seconds
            )
            return joules * share
        stayed, changed, counters = self.boundary
        if not observed(counters):  # its first sample
            return 0.0
        at_most, by_slices = (energy_of(counters, each, seconds) for each in (joules, joules * share))
        owners = len(stayed) + len(changed)
        for account in (*stayed, *changed):
            of_owner = EMPTY if account in changed else scaled(by_slices, 1.0 / owners)
            account.on(self.device).charge_board_energy(of_owner, at_most)
        self._charge_free(by_slices)
        self.boundary = NO_BOUNDARY
        return joules * share

    def close(self, last: CounterSnapshot, reading: Reading) -> None:
        """Charge the segment up to a snapshot, from which it continues."""
        if self.base is None or self.base is last:
            return
        counters, energy = increase(self.base, last), self.board_energy
        at_most = energy_of(counters, energy.joules, energy.seconds) if energy is not NO_ENERGY else EMPTY
        by_slices = energy_of(counters, energy.share, energy.seconds) if energy is not NO_ENERGY else EMPTY
        if not self.owners:
            self.free = added(added(self.free, counters), by_slices)
        violations = tuple(map(_gain, self.violations, _violations(reading)))
        for owner, part in zip(self.owners, self.parts, strict=True):
            account = owner.on(self.device)
            account.device = self.device
            account.charge(counters, len(self.owners), part.share)
            account.charge_board_energy(scaled(by_slices, part.share), at_most)
            account.charge_allocation(added(counters, by_slices), part.allocated)
            account.add_violations(violations)
            account.extremes.include(self.extremes)
            account.moments.include(self.moments, part.share)
            if (size := reading.memory_bytes) is not None and isfinite(size):
                account.memory_bytes = size
            if (joules := reading.energy_joules_total) is not None and isfinite(joules):
                account.energy = (joules, owner.last_seen)
        self.start(last, reading)
        self.extremes = self.extremes.next_segment()
        self.moments = Moments()

    def begin_change(self, owners: Accounts, passing: Accounts, counters: CounterVector, *, is_page: bool) -> None:
        """Charge a sample at whose start the GPU had the owners of the segment, and others at its end.

        The labels of a page are of the moment at which it is read. Its values are older, and means over a time before
        that: the first change of them may still show work of the owners before, also when the GPU is seen for the first
        time.

        Args:
            owners: that have it at the end.
            passing: that had it in between only.
            counters: the increase over the sample.
            is_page: whether labels and values may be of different moments.
        """
        changed = [account for account in self.changed if account.end is None]  # an account that has ended is written
        either = dict.fromkeys((*changed, *self.owners, *owners, *passing))
        stays = [account for account in owners if self._had_it(account) and account not in self.changed]
        self.changed = tuple([account for account in either if account not in stays])
        self._charge_boundary((*self.owners, *owners), counters)
        self.unsettled, self.unsettled_seconds = CHANGES_TO_SETTLE if is_page and self.changed else 0, 0.0
        if not self.unsettled:
            self.changed = ()

    def _had_it(self, account: OwnerAccount) -> bool:
        """Return whether an owner of the GPU already had it in the sample before; before a restart of pulsed, for so
        long that the values are its own."""
        if self.base is not None:
            return account in self.owners
        before = account.gpus.get(self.device.entity.key)
        return before is not None and before.had_it_meanwhile(self.known_at) and before.held > MAX_PAGE_SECONDS

    def continue_change(self, row: GpuRow) -> None:
        """Charge the next sample of a GPU whose values may still be of the owners before."""
        gained = increase(self.base, row.result.counters) if self.base is not None else EMPTY
        self.unsettled -= row.has_moved
        self.unsettled_seconds = 0.0 if row.has_moved else self.unsettled_seconds + observed(gained)
        if self.unsettled_seconds > MAX_PAGE_SECONDS:
            self.unsettled = 0  # the values do not change, as of a GPU that is idle
        if self.unsettled:
            self._charge_boundary(self.owners, gained)
            self.start(row.result.counters, row.reading)
        else:
            self.changed = ()

    def _charge_boundary(self, owners: Sequence[OwnerAccount], counters: CounterVector) -> None:
        """Charge a sample of the time around a change.

        Owners that have the GPU before and after it share it equally. Others only raise their upper bound: their shares
        are charged to no owner.
        """
        stayed = tuple(dict.fromkeys([account for account in owners if account not in self.changed]))
        self.boundary = Boundary(stayed, self.changed, counters)
        for account in self.changed:
            on_gpu = account.on(self.device)
            on_gpu.boundary = added(on_gpu.boundary, counters)
        sharers = len(stayed) + len(self.changed)
        for account in stayed:
            account.on(self.device).charge(counters, sharers, 1.0 / sharers)
        self._charge_free(counters)

    def _charge_free(self, counters: CounterVector) -> None:
        """Charge the shares of owners that a boundary has changed, or all of it without any owner, to no owner."""
        stayed, changed, _ = self.boundary
        if changed or not stayed:
            share = len(changed) / (len(stayed) + len(changed)) if changed else 1.0
            self.free = added(self.free, scaled(counters, share))


_violations = itemgetter(*(POSITION[name] for name in VIOLATIONS))


def _total(values: Sequence[Value]) -> Value:
    """Return the sum; None if a value is unknown."""
    return None if None in values else sum(filter(None, values))


def _gain(old: Value, new: Value) -> Value:
    """Return the increase of a counter of the GPU; None where it is unknown or fell."""
    return new - old if old is not None and new is not None and 0.0 <= old <= new < inf else None
