"""Accounts of the owners of all GPUs, from ticks.

Nothing is summed per tick: the account of an owner is the increase of the GPU's own counters over the time in which its
owners did not change. So owners and `nobody` add up to the GPU. A sample in which an owner got or lost the GPU counts
for nobody, and is the owner's at most. Time comes with the ticks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Literal, NamedTuple

from pulsed.accounting.account import (
    VIOLATIONS,
    Extremes,
    GpuKey,
    OwnerAccount,
    OwnerEvent,
    gpu_key,
)
from pulsed.accounting.counter_vector import EMPTY, CounterVector, added, increase, observed, scaled
from pulsed.attribution.owner import Owner, Owners
from pulsed.compute.counters.accumulator import MAX_WATTS
from pulsed.compute.counters.catalog import CounterSnapshot
from pulsed.compute.tick import ComputedTick, Result
from pulsed.translate.tick import Device
from pulsed.translate.vocabulary import POSITION, Reading, Value

ABSENT_TICKS = 2
"""An owner has ended when so many ticks in a row did not have it: a page may lose its labels for one scrape."""

OWNERS_PER_GPU = 8
MORE_OWNERS = 64
"""Owners at a time are limited to `OWNERS_PER_GPU` for each GPU and these; more are accounted together as `OTHER`."""

SILENT_SECONDS = 600.0
"""The owners of a target that delivers nothing for so long have ended with its last tick."""

RESUME_SECONDS = 120.0
"""An owner from before a restart of the daemon that is not seen within this time has ended with its last sample."""

MAX_ABSENT_GPUS = 256
"""GPUs that are gone and still have an account of the time without owners."""

MAX_DROPPED = 4096
"""Owners without an account of their own that are remembered, so that each is counted once."""

OTHER = Owner("nobody", "other")

Accounts = tuple[OwnerAccount, ...]


class OwnerChange(NamedTuple):
    """An owner that is new on a GPU, or one that had the GPU and has ended; Unix time."""

    kind: Literal["begin", "end"]
    owner: Owner
    device: Device
    time: float


class HeldGpu(NamedTuple):
    """A GPU in the newest tick of its target, and one of the owners that have it."""

    account: OwnerAccount
    device: Device
    reading: Reading
    result: Result
    sharers: int
    target: str


class NobodyAccount(NamedTuple):
    """The time in which a GPU had no known owner: its counters, and those of samples in which owners changed."""

    device: Device
    counters: CounterVector
    boundary: CounterVector


@dataclass(slots=True, eq=False)
class _AccountedGpu:
    """A GPU, and the segment of time since its owners changed.

    Attributes:
        target: which delivers it.
        position: in the ticks of the target.
        owners: of the segment.
        base: its counters at the start of the segment; None before the first.
        reading: at the start of the segment.
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


@dataclass(slots=True, eq=False)
class _TargetView:
    """The GPUs of a target's ticks, and its newest tick."""

    tick: ComputedTick
    gpus: dict[GpuKey, _AccountedGpu] = field(default_factory=dict)
    owned: list[_AccountedGpu] = field(default_factory=list)
    is_current: bool = True


class OwnerAccounting:
    """The accounts of all owners.

    Args:
        ended_at: returns when a source lost an owner, in Unix seconds, if that is known more exactly than by ticks.
        on_end: called with the account of each owner that has ended.

    Attributes:
        dropped: owners that were accounted as `OTHER`.
    """

    def __init__(
        self,
        ended_at: Callable[[Owner], float | None] = lambda owner: None,
        on_end: Callable[[OwnerAccount], None] = lambda account: None,
    ) -> None:
        self._ended_at, self._on_end = ended_at, on_end
        self._views: dict[str, _TargetView] = {}
        self._gpus: dict[GpuKey, _AccountedGpu] = {}
        self._running: dict[tuple[str, str], OwnerAccount] = {}
        self._absent: dict[OwnerAccount, str] = {}
        self._saved: dict[tuple[str, str], OwnerAccount] = {}
        self._resumes_until: float | None = None
        self._changes: list[OwnerChange] = []
        self._dropped: dict[tuple[str, str], None] = {}
        self.dropped = 0

    def add(self, tick: ComputedTick) -> Sequence[OwnerChange]:
        """Account for the next tick of a target; return the owners that began and ended."""
        self._changes = []
        view = self._views.get(tick.target)
        if view is None or view.tick.devices is not tick.devices or not view.is_current or tick.passing:
            view = self._update(view, tick)
        for gpu in view.owned:
            self._take(gpu, tick)
        if view.owned and tick.health_changes:
            _add_events(view.owned, tick)
        view.tick = tick
        if self._absent:
            self._end_absent(tick)
        if self._resumes_until is None:
            self._resumes_until = tick.time + RESUME_SECONDS
        return self._changes

    @property
    def running(self) -> Sequence[OwnerAccount]:
        """The accounts of all owners that have a GPU, up to the newest tick."""
        self.settle(self._running.values())
        return list(self._running.values())

    def settle(self, accounts: Iterable[OwnerAccount]) -> None:
        """Bring some accounts up to the newest tick."""
        for gpu in {self._gpus[key] for account in accounts for key in account.holding}:
            if (last := self._last(gpu)) is not None:
                self._close(gpu, *last)

    def held(self) -> Iterator[HeldGpu]:
        """Yield every GPU with each of its owners."""
        for target, view in self._views.items():
            tick = view.tick
            for gpu in view.owned:
                at = gpu.position
                for account in gpu.owners:
                    sharers = len(gpu.owners)
                    yield HeldGpu(account, gpu.device, tick.readings[at], tick.results[at], sharers, target)

    def nobody(self) -> Iterator[NobodyAccount]:
        """Yield for each GPU the time without a known owner."""
        for gpu in self._gpus.values():
            counters = gpu.nobody
            if not gpu.owners and gpu.base is not None and (last := self._last(gpu)) is not None:
                counters = added(counters, increase(gpu.base, last[0]))
            yield NobodyAccount(gpu.device, counters, gpu.boundary)

    def sweep(self, now: float) -> Sequence[OwnerChange]:
        """End owners of targets that have been silent, and those that did not return after a restart; `now` is Unix."""
        self._changes = []
        for target, view in list(self._views.items()):
            if now - view.tick.time > max(SILENT_SECONDS, 10.0 * view.tick.interval):
                for gpu in view.gpus.values():
                    self._release(gpu, view)
                del self._views[target]
                for other in self._views.values():
                    other.is_current = False
        for account in [each for each in self._absent if self._absent[each] not in self._views]:
            self._end(account, account.left or account.last_seen)
        if self._resumes_until is not None and now > self._resumes_until:
            for account in self._saved.values():
                self._end(account, account.last_seen)
            self._saved.clear()
        self._forget_gpus()
        return self._changes

    def _forget_gpus(self) -> None:
        """Forget GPUs that are in no target's ticks, if they are many: MIG instances come and go."""
        present = {key for view in self._views.values() for key in view.gpus}
        absent = [key for key in self._gpus if key not in present]
        for key in absent[: max(0, len(absent) - MAX_ABSENT_GPUS)]:
            del self._gpus[key]

    @property
    def unfinished(self) -> Sequence[OwnerAccount]:
        """The accounts for `restore`: of all owners that have not ended, also those that were not yet seen again."""
        waiting = [account for account in self._absent if self._running.get(account.owner.key) is not account]
        return [*self.running, *waiting, *self._saved.values()]

    def restore(self, accounts: Iterable[OwnerAccount]) -> None:
        """Continue accounts of an earlier run of the daemon, as soon as their owners are seen."""
        self._saved = {account.owner.key: account for account in accounts}

    # Which GPUs and owners there are.

    def _update(self, view: _TargetView | None, tick: ComputedTick) -> _TargetView:
        """Find the GPUs of a tick with new devices, and charge what their owners got."""
        if view is None:
            view = self._views[tick.target] = _TargetView(tick)
        found: dict[GpuKey, _AccountedGpu] = {}
        passing = {position: self._accounts(owners, tick) for position, owners in tick.passing.items()}
        boards = {gpu_key(each)[:2] for each in tick.devices if each.entity.kind == "mig"}
        for position, device in enumerate(tick.devices):
            key = gpu_key(device)
            is_divided = device.entity.kind == "gpu" and key[:2] in boards
            if position in tick.lost or is_divided or key in found:
                continue
            gpu = self._claim(key, device, tick)
            if gpu is not None:
                found[key] = gpu
                self._move(
                    gpu,
                    tick,
                    position,
                    self._accounts(device.owners or (), tick),
                    passing.get(position, ()),
                )
        for key, gpu in view.gpus.items():
            if key not in found:
                self._release(gpu, view)
        view.gpus, view.is_current = found, True
        view.owned = [gpu for gpu in found.values() if gpu.owners]
        return view

    def _claim(self, key: GpuKey, device: Device, tick: ComputedTick) -> _AccountedGpu | None:
        """Return a GPU; None if another target delivers it."""
        gpu = self._gpus.get(key)
        if gpu is None:
            gpu = self._gpus[key] = _AccountedGpu(device, tick.target)
        elif gpu.target != tick.target:
            if (other := self._views.get(gpu.target)) is not None and other.gpus.get(key) is gpu:
                return None
            gpu.target, gpu.base = tick.target, None
        return gpu

    def _accounts(self, owners: Owners, tick: ComputedTick) -> Accounts:
        """Return the accounts of owners; a new owner has a new one."""
        return tuple(dict.fromkeys([self._account(owner, tick) for owner in owners]))

    def _account(self, owner: Owner, tick: ComputedTick) -> OwnerAccount:
        account = self._running.get(owner.key)
        if account is not None and owner.continues(account.owner):
            if owner is not account.owner and owner != account.owner:
                begin, uid = owner.begin or account.owner.begin, owner.uid or account.owner.uid
                account.owner = replace(owner, begin=begin, uid=uid)
            return account
        if account is None and len(self._running) >= OWNERS_PER_GPU * len(self._gpus) + MORE_OWNERS:
            self._count_dropped(owner)
            owner = OTHER
            if (account := self._running.get(OTHER.key)) is not None:
                return account
        saved = self._saved.pop(owner.key, None)
        if saved is not None and owner.continues(saved.owner):
            account = saved
            account.owner = owner
        else:
            if saved is not None:
                self._end(saved, saved.last_seen)
            begin = tick.time if owner.begin is None else min(owner.begin, tick.time)
            newer, account = account, OwnerAccount(owner, begin, tick.time, tick.time)
            if newer is not None and newer.begin > begin:  # the id has been used again since
                return account
        self._running[owner.key] = account
        return account

    def _count_dropped(self, owner: Owner) -> None:
        """Count an owner without an account of its own, once."""
        if owner.key not in self._dropped:
            self.dropped += 1
            self._dropped[owner.key] = None
            while len(self._dropped) > MAX_DROPPED:
                del self._dropped[next(iter(self._dropped))]

    # Charging.

    def _last(self, gpu: _AccountedGpu) -> tuple[CounterSnapshot, Reading] | None:
        """Return the counters and the reading of a GPU in the newest tick of its target."""
        view = self._views.get(gpu.target)
        if view is None or view.gpus.get(gpu_key(gpu.device)) is not gpu:
            return None
        return view.tick.results[gpu.position].account, view.tick.readings[gpu.position]

    def _move(self, gpu: _AccountedGpu, tick: ComputedTick, position: int, owners: Accounts, passing: Accounts) -> None:
        """Take over the place and the owners of a GPU in a tick that is not yet the newest.

        Args:
            owners: that have the GPU now.
            passing: that had it since the tick before, but in neither of both.
        """
        now, reading = tick.results[position].account, tick.readings[position]
        last = self._last(gpu)
        if last is None and gpu.base is not None and gpu.reading is not None:  # it was away
            last = (gpu.base, gpu.reading)
        before, gpu.device = gpu.owners, tick.devices[position]
        follows = last is not None and gpu.base is not None and last[0].created == now.created
        if follows and set(owners) == set(before) and not passing:
            gpu.position = position
            return
        if last is not None:
            self._close(gpu, *last)
        gpu.position = position
        if follows and last is not None:
            self._charge_boundary(gpu, owners, passing, increase(last[0], now))
        gpu.base, gpu.reading = now, reading
        gpu.observed = observed(now.values)
        for account in before:
            if account not in owners:
                self._leave(account, gpu, tick)
        for account in owners:
            if account not in before:
                self._enter(account, gpu, tick, reading)
        for account in passing:
            self._pass(account, gpu, tick)
        if not set(owners) <= set(before):
            gpu.extremes = Extremes()
        gpu.owners = owners

    def _release(self, gpu: _AccountedGpu, view: _TargetView) -> None:
        """Take its owners from a GPU that is no longer in the ticks of its target."""
        self._close(gpu, view.tick.results[gpu.position].account, view.tick.readings[gpu.position])
        for account in gpu.owners:
            self._leave(account, gpu, view.tick)
        gpu.owners = ()

    def _close(self, gpu: _AccountedGpu, last: CounterSnapshot, reading: Reading) -> None:
        """Charge a segment up to a snapshot, from which it goes on."""
        if gpu.base is None or gpu.base is last:
            return
        counters, sharers = increase(gpu.base, last), len(gpu.owners)
        violations = _violations(gpu.reading, reading)
        if not gpu.owners:
            gpu.nobody = added(gpu.nobody, counters)
        for owner in gpu.owners:
            account = owner.on(gpu.device)
            account.device = gpu.device
            account.charge(counters, sharers)
            account.add_violations(violations)
            account.extremes.include(gpu.extremes)
            if (size := reading.memory_bytes) is not None and isfinite(size):
                account.memory_bytes = size
            if (joules := reading.energy_joules_total) is not None and isfinite(joules):
                account.energy = (joules, owner.last_seen)
        gpu.base, gpu.reading, gpu.extremes.samples = last, reading, 0

    def _charge_boundary(
        self, gpu: _AccountedGpu, owners: Accounts, passing: Accounts, counters: CounterVector
    ) -> None:
        """Charge a sample at whose start and end a GPU had different owners."""
        before = gpu.owners
        either = tuple(dict.fromkeys((*before, *owners, *passing)))
        if not either:
            gpu.nobody = added(gpu.nobody, counters)
            return
        both = [account for account in either if account in before and account in owners]
        for account in either:
            on_gpu = account.on(gpu.device)
            if account in both:
                on_gpu.charge(counters, len(either))
            else:
                on_gpu.boundary = added(on_gpu.boundary, counters)
        rest = scaled(counters, 1.0 - len(both) / len(either))
        if len(both) < len(either):
            gpu.nobody = added(gpu.nobody, rest)
            gpu.boundary = added(gpu.boundary, rest)

    def _take(self, gpu: _AccountedGpu, tick: ComputedTick) -> None:
        """Take the extremes of a sample of an owned GPU."""
        result = tick.results[gpu.position]
        seen = observed(result.account.values)
        gpu.extremes.take(tick.readings[gpu.position], seen - gpu.observed, is_idle=result.workload.raw_class == "idle")
        gpu.observed = seen
        for account in gpu.owners:
            account.last_seen = tick.time

    # Begin and end.

    def _enter(self, account: OwnerAccount, gpu: _AccountedGpu, tick: ComputedTick, reading: Reading) -> None:
        key, on_gpu = gpu_key(gpu.device), account.on(gpu.device)
        if on_gpu.since is None:
            is_first = tick.time - account.first_seen <= 2.0 * tick.interval
            on_gpu.since = account.begin if is_first and not on_gpu.held else tick.time
            if not on_gpu.held:
                self._changes.append(OwnerChange("begin", account.owner, gpu.device, on_gpu.since))
        if on_gpu.bridge is not None and reading.energy_joules_total is not None:
            (joules, time), on_gpu.bridge = on_gpu.bridge, None
            gained = reading.energy_joules_total - joules
            if 0.0 < gained <= MAX_WATTS * (tick.time - time):
                on_gpu.bridged_joules += gained
        account.holding.add(key)
        account.last_seen, account.left, account.absent_ticks = tick.time, None, 0
        self._absent.pop(account, None)

    def _pass(self, account: OwnerAccount, gpu: _AccountedGpu, tick: ComputedTick) -> None:
        """Note an owner that had a GPU between two ticks."""
        on_gpu, is_new = account.on(gpu.device), account.first_seen == tick.time
        if is_new:
            account.last_seen = account.begin
            on_gpu.held += max(self._left(account, tick) - account.begin, 0.0)
            self._changes.append(OwnerChange("begin", account.owner, gpu.device, account.begin))
        if not account.holding:
            account.left = self._left(account, tick)
            self._absent[account] = tick.target

    def _leave(self, account: OwnerAccount, gpu: _AccountedGpu, tick: ComputedTick) -> None:
        key = gpu_key(gpu.device)
        account.holding.discard(key)
        on_gpu = account.on(gpu.device)
        if on_gpu.since is not None:
            on_gpu.held, on_gpu.since = on_gpu.held_seconds(self._left(account, tick)), None
        if not account.holding:
            account.left = self._left(account, tick)
            self._absent[account] = tick.target

    def _left(self, account: OwnerAccount, tick: ComputedTick) -> float:
        """Return when an owner that is not in a tick lost its GPU: after its last sample, and not after the tick."""
        ended = self._ended_at(account.owner)
        return tick.time if ended is None or ended < account.last_seen else min(ended, tick.time)

    def _end_absent(self, tick: ComputedTick) -> None:
        """End owners without a GPU, which are not in some ticks of the target that had them."""
        for account, target in list(self._absent.items()):
            if target == tick.target:
                account.absent_ticks += 1
                replaced = self._running.get(account.owner.key) is not account
                if account.absent_ticks >= ABSENT_TICKS or replaced:
                    self._end(account, account.left or tick.time)

    def _end(self, account: OwnerAccount, time: float) -> None:
        account.end = time
        self._absent.pop(account, None)
        if self._running.get(account.owner.key) is account:
            del self._running[account.owner.key]
        for on_gpu in account.gpus.values():
            if on_gpu.since is not None:  # it did not get this GPU again after a restart of pulsed
                on_gpu.held, on_gpu.since = on_gpu.held_seconds(account.last_seen), None
            self._changes.append(OwnerChange("end", account.owner, on_gpu.device, time))
        self._on_end(account)


def _violations(before: Reading | None, now: Reading) -> tuple[Value, ...]:
    """Return the increases of the GPU's own counters; None where one is unknown or fell."""
    if before is None:
        return ()
    pairs = [(before[POSITION[name]], now[POSITION[name]]) for name in VIOLATIONS]
    return tuple([_gain(old, new) for old, new in pairs])


def _gain(old: Value, new: Value) -> Value:
    return new - old if old is not None and new is not None and 0.0 <= old <= new < inf else None


def _add_events(owned: Iterable[_AccountedGpu], tick: ComputedTick) -> None:
    """Add changes of health to the accounts of owners; instances have the health of their board."""
    gpus = list(owned)
    for change in tick.health_changes:
        board = gpu_key(change.device)[:2]
        event = OwnerEvent(change.time, change.check, change.before, change.after, change.message)
        for gpu in gpus:
            if gpu_key(gpu.device)[:2] == board:
                for account in gpu.owners:
                    account.on(gpu.device).add_event(event)
