"""Accounts of the owners of all GPUs, from ticks.

Nothing is summed per tick: the account of an owner is the increase of the GPU's own counters over the time in which its
owners did not change. A sample in which an owner got or lost the GPU counts in that owner's upper bound only. Time
comes with the ticks.

An owner ends when a source that delivers shows its GPU without it. While the source is silent, or does not list the
GPU, the owner keeps it, and its account has a gap, until something else shows that the owner has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pulsed.compute.gpu_table import LATE_INTERVALS
from pulsed.model.clocks import EPOCH, START, Monotonic, Unix
from pulsed.model.counters import CounterSnapshot
from pulsed.model.gpu import Device, GpuKey
from pulsed.model.owner import Owner, Owners
from pulsed.model.result import Result
from pulsed.model.tick import GpuRow, Tick
from pulsed.model.vocabulary import Reading, Value
from pulsed.owners.accounting.account import FREE, LEAKED, RAISED, Accounts, OwnerAccount, OwnerEvent
from pulsed.owners.accounting.accounted_gpu import AccountedGpu
from pulsed.owners.accounting.activity import Extremes
from pulsed.owners.accounting.board_energy import divide_board_energy
from pulsed.owners.accounting.counter_vector import EMPTY, increase, observed
from pulsed.owners.accounting.free_time import FreeTime
from pulsed.owners.accounting.owner_roster import UNKNOWN_SECONDS, OwnerChange, OwnerRoster

SILENT_SECONDS = 600.0
"""An owner that is not on its GPU after so long a silence of the target ended with the last tick before. A target that
is silent for so long and is not read any more is forgotten, and its owners have ended."""

FLAP_INTERVALS = 3.0
"""Intervals for which labels may be absent from pages although their owner has an idle GPU, as for `stale_after`."""

MAX_ABSENT_GPUS = 256
"""Maximum number of absent GPUs whose last counters are kept: they may return."""


LEAK_SECONDS = 600.0
"""Memory of an idle GPU that is in use for so long, without an owner while owners are known, has leaked."""


class OwnedGpu(NamedTuple):
    """A GPU in the newest tick of its target, and one of the owners that have it.

    Attributes:
        share: of the activity of the GPU, 0..1: an equal one unless each owner's activity is measured.
        memory_used_bytes: by the owner; of a shared GPU an equal share unless each owner's memory is measured.
    """

    account: OwnerAccount
    device: Device
    reading: Reading
    result: Result
    sharers: int
    share: float
    memory_used_bytes: Value
    tick: Tick


@dataclass(slots=True, eq=False)
class _TargetView:
    """The GPUs of a target's ticks, and its newest tick; how many there were, at the last sweep, and since when.

    `owned` are the GPUs with owners in the newest tick, `held` those that owners keep while it does not list them, or
    does not name their owners.
    """

    tick: Tick
    gpus: dict[GpuKey, AccountedGpu] = field(default_factory=dict)
    owned: list[AccountedGpu] = field(default_factory=list)
    held: list[AccountedGpu] = field(default_factory=list)
    is_current: bool = True
    ticks: int = 0
    swept: int = 0
    swept_at: Monotonic = START
    leaked: frozenset[GpuKey] = frozenset()
    shown: list[tuple[Device, Owners | None, bool]] = field(default_factory=list)
    _held_since: dict[GpuKey, Monotonic] = field(default_factory=dict)

    def drop(self, key: GpuKey) -> None:
        """Remove a GPU that another target has, or whose board another target shows divided otherwise."""
        gpu = self.gpus.pop(key)
        self.owned = [one for one in self.owned if one is not gpu]
        self.held = [one for one in self.held if one is not gpu]

    def find_leaks(self, tick: Tick) -> bool:
        """Find the GPUs whose memory has leaked; return whether they are others than before."""
        held = {
            row.device.entity.key: min(self._held_since.get(row.device.entity.key, tick.now), tick.now)
            for row in tick.gpus
            if row.owners == () and row.is_listed and row.result.use == "held"
        }
        self._held_since = held
        before = self.leaked
        self.leaked = frozenset([key for key, since in held.items() if tick.now - since >= LEAK_SECONDS])
        return self.leaked != before


class OwnerAccounting:
    """The accounts of all owners.

    Args:
        ended_at: returns when a source lost an owner, in seconds of the clock of the ticks, if that is known more
            exactly than by ticks.
        on_end: called with the account of each owner that has ended.
        on_return: called with the account of each owner that has returned after that.
    """

    def __init__(
        self,
        ended_at: Callable[[Owner], Monotonic | None] = lambda owner: None,
        on_end: Callable[[OwnerAccount], object] = lambda account: None,
        on_return: Callable[[OwnerAccount], object] = lambda account: None,
    ) -> None:
        self._views: dict[str, _TargetView] = {}
        self._gpus: dict[GpuKey, AccountedGpu] = {}
        self._free = FreeTime()
        self._on_end = on_end
        self._owners = OwnerRoster(self._gpus, ended_at, on_end, on_return)

    def add(self, tick: Tick) -> Sequence[OwnerChange]:
        """Account for the next tick of a target; return the owners that began and ended."""
        self._free.begin(tick.time)
        view = self._views.get(tick.target)
        if view is not None and tick.now - view.tick.now > _silent_seconds(tick):
            for gpu in view.gpus.values():
                self._hold(gpu, view)
            view.is_current = False
        if view is None:
            view = self._views[tick.target] = _TargetView(tick, is_current=False)
        shown = [(row.device, row.owners, row.is_listed) for row in tick.gpus]
        passing = any(row.ownership.passing for row in tick.gpus)
        is_due = bool(view.held) or not view.is_current or passing
        if view.find_leaks(tick) or view.shown != shown or is_due:
            view.shown = shown
            self._update(view, tick)
        else:
            rows = {row.device.entity.key: row for row in reversed(tick.gpus)}
            for key, gpu in view.gpus.items():
                if gpu.missed is None:
                    if gpu.unsettled:
                        gpu.continue_change(rows[key])
                    gpu.row = rows[key]
        if any(row.is_split for row in tick.gpus):
            divide_board_energy(tick, view.gpus)
        for gpu in view.owned:
            gpu.add_extremes(tick)
        for gpu in view.held:
            for account in gpu.owners:
                account.advance(tick.now)
        if tick.health_changes:
            _add_events(view.gpus.values(), tick)
        view.tick = tick
        view.ticks += 1
        self._owners.advance(tick)
        return self._owners.take_changes()

    @property
    def dropped(self) -> int:
        """Owners so far that had no account of their own, because they were too many at a time."""
        return self._owners.dropped

    @property
    def without_account(self) -> int:
        """Owners that have no account of their own now."""
        return len({key for view in self._views.values() for gpu in view.owned for key in gpu.others})

    @property
    def running(self) -> Sequence[OwnerAccount]:
        """The accounts of all owners that have a GPU, up to the newest tick."""
        accounts = self._owners.running
        self.settle(accounts)
        return accounts

    def current(self, time: Unix) -> Sequence[OwnerAccount]:
        """Return the accounts of all owners that have a GPU. Owners of an earlier run of the daemon whose target does
        not deliver yet still have their GPUs, with a gap up to a Unix time, unless they had lost the last one."""
        restored = self._owners.restored
        gaps = [(each, max(time - each.last_seen, 0.0) if each.left is None else 0.0) for each in restored]
        restored = [replace(each, now=Monotonic(each.now + gap), elapsed=each.elapsed + gap) for each, gap in gaps]
        return [*self.running, *restored]

    def settle(self, accounts: Iterable[OwnerAccount]) -> None:
        """Bring some accounts up to the newest tick."""
        for gpu in {self._gpus[key] for account in accounts for key in account.holding}:
            if (last := self._last(gpu)) is not None:
                gpu.close(*last)

    def owned(self) -> Iterator[OwnedGpu]:
        """Yield every GPU with each of its owners."""
        for view in self._views.values():
            tick = view.tick
            for gpu in view.owned:
                reading, result, sharers = gpu.row.reading, gpu.row.result, gpu.sharers
                for account, use in zip(gpu.owners, gpu.uses(), strict=True):
                    memory = use.memory_bytes
                    if memory is None and reading.memory_used_bytes is not None:
                        memory = reading.memory_used_bytes * len(gpu.keys_of(account)) / sharers
                    yield OwnedGpu(account, gpu.device, reading, result, sharers, use.part.share, memory, tick)

    def unlisted(self, account: OwnerAccount) -> Iterator[Device]:
        """Yield the GPUs that an owner has kept since their target has not listed them."""
        return (gpu.device for key in account.holding if (gpu := self._gpus[key]).missed is not None)

    def sweep(self, now: Monotonic, targets: Container[str] = ()) -> Sequence[OwnerChange]:
        """End owners of targets that have been silent and are not read any more.

        Args:
            now: monotonic seconds.
            targets: those that are read.

        The clock of the ticks stops without ticks. To be called regularly: a target is silent from the first call
        without a newer tick.
        """
        for view in list(self._views.values()):
            if view.swept != view.ticks:
                view.swept, view.swept_at = view.ticks, now
            elif view.tick.target not in targets and now - view.swept_at > _silent_seconds(view.tick):
                self._drop(view)
        self._owners.sweep(self._views)
        self._forget_gpus()
        return self._owners.take_changes()

    def _drop(self, view: _TargetView) -> None:
        """Take all GPUs from a target that is silent."""
        for gpu in view.gpus.values():
            self._release(gpu, view, gpu.owners)
        del self._views[view.tick.target]
        self._owners.sweep(self._views)
        for other in self._views.values():
            other.is_current = False

    def _forget_gpus(self) -> None:
        """Forget GPUs that are in no target's ticks, if they are many: MIG instances come and go."""
        present = {key for view in self._views.values() for key in view.gpus}
        absent = [key for key in self._gpus if key not in present]
        for key in absent[: max(0, len(absent) - MAX_ABSENT_GPUS)]:
            self._free.forget(self._gpus.pop(key))

    def free(self) -> OwnerAccount | None:
        """Return the account of GPU time without an owner, since it was ended last; None without any."""
        for gpu in self._gpus.values():
            if not gpu.owners and (last := self._last(gpu)) is not None:
                gpu.close(*last)
        times = [view.tick.time for view in self._views.values()]
        return self._free.account(self._gpus.values(), max(times, default=EPOCH))

    def end_free(self) -> None:
        """End the account of the time without an owner, and begin the next one: there is one a day."""
        account = self.free()
        self._free.reset(self._gpus.values())
        if account is not None:
            account.end = account.last_seen
            self._on_end(account)

    @property
    def unfinished(self) -> Sequence[OwnerAccount]:
        """The accounts for `restore`: of all owners that have not ended, also those that were not yet seen again."""
        free = self.free()
        return [*self.running, *self._owners.waiting, *([free] if free is not None else ())]

    def restore(self, accounts: Iterable[OwnerAccount]) -> None:
        """Continue accounts of an earlier run of the daemon, as soon as their owners are seen."""
        accounts = list(accounts)
        for free in [account for account in accounts if account.owner.key == FREE.key]:
            free.end = free.last_seen
            self._on_end(free)
        self._owners.restore([account for account in accounts if account.owner.key != FREE.key])

    def _update(self, view: _TargetView, tick: Tick) -> None:
        """Find the GPUs of a tick with new devices or owners, and charge what their owners got."""
        gpus: dict[GpuKey, AccountedGpu] = {}
        lasting = {row.device.entity.key for row in tick.gpus if not row.is_listed}
        unnamed: dict[GpuKey, AccountedGpu] = {}
        for row in tick.gpus:
            key = row.device.entity.key
            if not row.is_listed or key in gpus:
                continue
            if not row.is_split and self._keeps_owners(key, row, tick):
                self._hold(self._gpus[key], self._views.get(self._gpus[key].target, view))
                unnamed[key] = self._claim(key, row, tick)
                continue
            gpu = self._claim(key, row, tick)
            gpus[key] = gpu
            owners, passing = ((LEAKED,) if key in view.leaked else row.owners or ()), row.ownership.passing
            if row.is_split:  # its instances have the owners
                owners = passing = ()
            self._move(gpu, tick, row, self._accounts(owners, key, tick), self._accounts(passing, key, tick))
        held: dict[GpuKey, AccountedGpu] = {}
        for key, gpu in (view.gpus | unnamed).items():
            if key not in gpus:
                is_kept = key in lasting or key in unnamed or not tick.lists_gpus
                self._hold(gpu, view)
                ended = [account for account in gpu.owners if not is_kept or self._owners.has_ended(account, tick.now)]
                self._release(gpu, view, ended)
                if ended:  # not unknown: it has no owner now
                    gpu.known_at = tick.now
                if gpu.owners:
                    held[key] = gpu
        view.gpus, view.is_current = gpus | held, not self._end_reshaped(tick)
        view.owned, view.held = [gpu for gpu in gpus.values() if gpu.owners], list(held.values())
        if len(self._gpus) > MAX_ABSENT_GPUS + sum(len(each.gpus) for each in self._views.values()):
            self._forget_gpus()

    def _end_reshaped(self, tick: Tick) -> bool:
        """End the owners of instances, or of boards, that a late target has shown last, where this tick shows the same
        board whole, or divided; return whether a target that is not late shows it otherwise.
        """
        is_disputed = False
        listed = [row for row in tick.gpus if row.is_listed]
        divided = {row.device.entity.board for row in listed if row.device.entity.kind == "mig"}
        whole = {
            row.device.entity.board
            for row in listed
            if row.device.entity.kind == "gpu" and not row.is_split and (row.owners or row.reading.mig_mode == 0.0)
        }
        for view in self._views.values():
            if view.tick.target == tick.target:
                continue
            is_late = tick.now - view.tick.now > LATE_INTERVALS * view.tick.interval
            for key, gpu in list(view.gpus.items()):
                entity = gpu.device.entity
                if gpu.owners and entity.board in {"mig": whole, "gpu": divided}.get(entity.kind, ()):
                    if not is_late:
                        is_disputed = True
                        continue
                    self._release(gpu, view, gpu.owners)
                    view.drop(key)
                    gpu.known_at, view.is_current = tick.now, False
        return is_disputed

    def _keeps_owners(self, key: GpuKey, row: GpuRow, tick: Tick) -> bool:
        """Return whether a GPU with unknown owners still belongs to its owners: labels come and go."""
        gpu = self._gpus.get(key)
        if gpu is None or not gpu.owners or row.owners is not None:
            return False
        named = gpu.missed or (self._views[gpu.target].tick if gpu.target in self._views else tick)
        kept = FLAP_INTERVALS * tick.interval if _is_freed(row) else UNKNOWN_SECONDS
        return tick.now - named.now < kept

    def _claim(self, key: GpuKey, row: GpuRow, tick: Tick) -> AccountedGpu:
        """Return a GPU, which this target delivers from now on."""
        gpu, device, joules = self._gpus.get(key), row.device, row.reading.energy_joules_total
        if gpu is None:
            gpu = self._gpus[key] = AccountedGpu(device, tick.target, row)
            gpu.first_energy = None if joules is None else (joules, tick.time)
        elif gpu.target != tick.target:
            other = self._views.get(gpu.target)
            if other is not None and other.gpus.get(key) is gpu:  # it is late
                if (last := self._last(gpu)) is not None:
                    gpu.close(*last)
                other.drop(key)
            gpu.target = tick.target
        return gpu

    def _accounts(self, owners: Owners, gpu: GpuKey, tick: Tick) -> Accounts:
        """Return the accounts of owners of a GPU, each once; a new owner has a new one."""
        return tuple(dict.fromkeys([self._owners.account(owner, gpu, tick) for owner in owners]))

    def _last(self, gpu: AccountedGpu) -> tuple[CounterSnapshot, Reading] | None:
        """Return the counters and the reading of a GPU in the newest tick of its target."""
        view = self._views.get(gpu.target)
        if view is None or gpu.missed is not None or view.gpus.get(gpu.device.entity.key) is not gpu:
            return None
        return gpu.row.result.counters, gpu.row.reading

    def _move(self, gpu: AccountedGpu, tick: Tick, row: GpuRow, owners: Accounts, passing: Accounts) -> None:
        """Take over the place and the owners of a GPU in a tick that is not yet the newest.

        Passing owners had it since the tick before, but in neither of both.
        """
        now, last = row.result.counters, self._last(gpu)
        counted = gpu.base if last is None else last[0]  # without a last one it was away
        before, device = gpu.owners, row.device
        gpu.device = device
        if gpu.is_known and (view := self._views.get(gpu.target)) is not None and view.tick is not tick:
            gpu.known_at = view.tick.now
        gpu.is_known = row.owners is not None or (bool(before) and _is_freed(row))
        left, gpu.missed = gpu.missed or tick, None
        follows = counted is not None and counted.created == now.created
        if follows and set(owners) == set(before) and not passing:
            if row.is_split and last is not None:
                gpu.close(*last)  # from here on its energy is divided
            if gpu.unsettled:
                gpu.continue_change(row)
            gpu.row = row
            return
        if last is not None:
            gpu.close(*last)
        gpu.row = row
        gained = EMPTY if counted is None else increase(counted, now)
        is_page = tick.raw.layout.dialect == "exporter" and not row.is_split
        gpu.begin_change(owners, passing, gained, is_page=is_page)
        gpu.start(now, row.reading)
        gpu.observed = observed(now.values)
        for account in before:
            if account not in owners:
                self._owners.leave(account, gpu, left)
        if set(owners) != set(before):
            gpu.departed = tuple([account for account in before if account not in owners])
            gpu.entered = tick.time
        for account in owners:
            if account not in before:
                self._owners.enter(account, gpu, tick)
        for account in passing:
            self._owners.pass_between(account, gpu, tick)
        if not set(owners) <= set(before):
            gpu.extremes = Extremes()
        gpu.assign(owners)

    def _release(self, gpu: AccountedGpu, view: _TargetView, ended: Sequence[OwnerAccount]) -> None:
        """Take owners that have ended from a GPU that is no longer in the ticks of its target; others keep it."""
        self._hold(gpu, view)
        for account in ended:
            self._owners.leave(account, gpu, gpu.missed or view.tick)
        if ended:
            gpu.assign(tuple([account for account in gpu.owners if account not in ended]))
        if not gpu.owners:
            gpu.missed = None

    def _hold(self, gpu: AccountedGpu, view: _TargetView) -> None:
        """Account for a GPU up to the newest tick, the last one for now that has it; its owners keep it."""
        if gpu.missed is not None:
            return
        gpu.close(gpu.row.result.counters, gpu.row.reading)
        gpu.missed = view.tick
        if gpu.is_known:
            gpu.is_known, gpu.known_at = False, view.tick.now


def _is_freed(row: GpuRow) -> bool:
    """Return whether a GPU has no owner any more as far as its memory and activity show, whatever the labels are."""
    used = row.result.workload.used
    return used is not True if row.result.idle_kind == "free" else used is False and row.result.idle_kind == "unknown"


def _silent_seconds(tick: Tick) -> float:
    return max(SILENT_SECONDS, 10.0 * tick.interval)


def _add_events(owned: Iterable[AccountedGpu], tick: Tick) -> None:
    """Add changes of health to the accounts of owners; instances have the health of their board.

    Problems raised by a sample around a change of owners belong to the owners before.
    """
    gpus = list(owned)
    for change in tick.health_changes:
        board = change.device.entity.key[:2]
        event = OwnerEvent(change.time, change.check, change.before, change.after, change.message, change.remedy)
        for gpu in gpus:
            if gpu.device.entity.key[:2] == board:
                for account in gpu.owners_of(change.time, is_raised=change.after in RAISED):
                    account.on(gpu.device).add_event(event)
