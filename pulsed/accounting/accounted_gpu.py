"""The charging of a GPU's time and energy to the owners that it has, or to `nobody`."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isfinite

from pulsed.accounting.account import VIOLATIONS, Extremes, OwnerAccount
from pulsed.accounting.counter_vector import EMPTY, CounterVector, added, increase, observed, scaled
from pulsed.model.computed_tick import ComputedTick
from pulsed.model.counters import CounterSnapshot
from pulsed.model.gpu import Device
from pulsed.model.vocabulary import POSITION, Reading, Value

Accounts = tuple[OwnerAccount, ...]


@dataclass(slots=True, eq=False)
class AccountedGpu:
    """A GPU, and the segment of time since its owners changed.

    Attributes:
        target: which delivers it.
        position: in the ticks of the target.
        owners: of the segment.
        base: its counters at the start of the segment; None before the first.
        reading: at the start of the segment.
        extremes: of the segment.
        observed: seconds of observed time up to the newest sample.
        nobody: counters of closed segments without an owner, as is `boundary` of samples in which owners changed.
    """

    device: Device
    target: str
    position: int = 0
    owners: Accounts = ()
    base: CounterSnapshot | None = None
    reading: Reading | None = None
    extremes: Extremes = field(default_factory=Extremes)
    observed: float = 0.0
    nobody: CounterVector = EMPTY
    boundary: CounterVector = EMPTY

    def take(self, tick: ComputedTick) -> None:
        """Take the extremes of a sample; the GPU has owners."""
        result = tick.results[self.position]
        seen = observed(result.counters.values)
        self.extremes.take(
            tick.readings[self.position], seen - self.observed, is_idle=result.workload.raw_class == "idle"
        )
        self.observed = seen
        for account in self.owners:
            account.last_seen = tick.time

    def close(self, last: CounterSnapshot, reading: Reading) -> None:
        """Charge the segment up to a snapshot, from which it goes on."""
        if self.base is None or self.base is last:
            return
        counters, sharers = increase(self.base, last), len(self.owners)
        violations = _violations(self.reading, reading)
        if not self.owners:
            self.nobody = added(self.nobody, counters)
        for owner in self.owners:
            account = owner.on(self.device)
            account.device = self.device
            account.charge(counters, sharers)
            account.add_violations(violations)
            account.extremes.include(self.extremes)
            if (size := reading.memory_bytes) is not None and isfinite(size):
                account.memory_bytes = size
            if (joules := reading.energy_joules_total) is not None and isfinite(joules):
                account.energy = (joules, owner.last_seen)
        self.base, self.reading, self.extremes.samples = last, reading, 0

    def charge_boundary(self, owners: Accounts, passing: Accounts, counters: CounterVector) -> None:
        """Charge a sample at whose start the GPU had the owners of the segment, and others at its end.

        Args:
            owners: that have it at the end.
            passing: that had it in between only.
            counters: the increase over the sample.
        """
        before = self.owners
        either = tuple(dict.fromkeys((*before, *owners, *passing)))
        if not either:
            self.nobody = added(self.nobody, counters)
            return
        both = [account for account in either if account in before and account in owners]
        for account in either:
            on_gpu = account.on(self.device)
            if account in both:
                on_gpu.charge(counters, len(either))
            else:
                on_gpu.boundary = added(on_gpu.boundary, counters)
        rest = scaled(counters, 1.0 - len(both) / len(either))
        if len(both) < len(either):
            self.nobody = added(self.nobody, rest)
            self.boundary = added(self.boundary, rest)


def _violations(before: Reading | None, now: Reading) -> tuple[Value, ...]:
    """Return the increases of the GPU's own counters; None where one is unknown or fell."""
    if before is None:
        return ()
    pairs = [(before[POSITION[name]], now[POSITION[name]]) for name in VIOLATIONS]
    return tuple([_gain(old, new) for old, new in pairs])


def _gain(old: Value, new: Value) -> Value:
    return new - old if old is not None and new is not None and 0.0 <= old <= new < inf else None
