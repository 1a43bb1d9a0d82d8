"""The owners that have a GPU, and when each begins and ends."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from pulsed.compute.plausibility_rules import MAX_WATTS
from pulsed.model.clocks import MONOTONIC_NEVER, Monotonic, Unix
from pulsed.model.gpu import Device, GpuKey
from pulsed.model.owner import Owner
from pulsed.model.tick import Tick
from pulsed.owners.accounting.account import OTHER, OwnerAccount
from pulsed.owners.accounting.accounted_gpu import AccountedGpu

ABSENT_TICKS = 2
"""Consecutive ticks without an owner after which it has ended: a page may lose its labels for one scrape."""

UNKNOWN_SECONDS = 600.0
"""An owner ends after this time in which no owner of its GPU is named, although its memory is in use: labels that
vanish for a shorter time are an error of their source."""

PLACES_PER_GPU = 8
SHARED_PLACES = 64
"""An owner takes a place of its first GPU, or a shared one; without a place it is accounted as `OTHER`. The owners of
one GPU do not displace another GPU's owners."""

RESUME_SECONDS = 120.0
"""An owner from before a restart of the daemon whose GPU is seen, and that is not within this time, has ended with its
last sample."""

LATE_SECONDS = 86_400.0
"""The same without its GPU."""

MAX_DROPPED = 4096
"""Owners without an account of their own that are remembered, so that each is counted once."""

MAX_RETURNING = 128
"""Owners with a UID that have ended and are remembered: one that returns is the same, and continues its account."""


class OwnerChange(NamedTuple):
    """An owner that is new on a GPU, or one that had the GPU and has ended; Unix time."""

    kind: Literal["begin", "end"]
    owner: Owner
    device: Device
    time: Unix


class OwnerRoster:
    """The accounts of all owners that have not ended.

    Args:
        gpus: all GPUs.
        ended_at: returns when a source lost an owner, in seconds of the clock of the ticks, if that is known more
            exactly than by ticks.
        on_end: called with the account of each owner that has ended.
        on_return: called with the account of each owner that has returned after that.

    Attributes:
        dropped: owners that were accounted as `OTHER`.
    """

    def __init__(
        self,
        gpus: Mapping[GpuKey, AccountedGpu],
        ended_at: Callable[[Owner], Monotonic | None],
        on_end: Callable[[OwnerAccount], object],
        on_return: Callable[[OwnerAccount], object],
    ) -> None:
        self._gpus, self._ended_at, self._on_end, self._on_return = gpus, ended_at, on_end, on_return
        self._running: dict[tuple[str, str], OwnerAccount] = {}
        self._places: dict[tuple[str, str], GpuKey | None] = {}  # of those that run; None: a shared one
        self._taken: Counter[GpuKey | None] = Counter()
        self._absent: dict[OwnerAccount, str] = {}
        self._saved: dict[tuple[str, str], OwnerAccount] = {}
        self._ended: OrderedDict[tuple[str, str], OwnerAccount] = OrderedDict()
        self._resumes_until: Monotonic | None = None
        self._changes: list[OwnerChange] = []
        self._dropped: dict[tuple[str, str], None] = {}
        self.dropped = 0

    @property
    def running(self) -> Sequence[OwnerAccount]:
        """The accounts of all owners that have a GPU, or had it a few ticks ago."""
        return list(self._running.values())

    @property
    def waiting(self) -> Sequence[OwnerAccount]:
        """The accounts that may still continue and are not `running`: replaced ones, and those not yet seen again."""
        absent = [account for account in self._absent if self.is_replaced(account)]
        return [*absent, *self.restored]

    @property
    def restored(self) -> Sequence[OwnerAccount]:
        """The accounts of an earlier run of the daemon whose owners were not yet seen again."""
        return list(self._saved.values())

    def is_replaced(self, account: OwnerAccount) -> bool:
        """Return whether another owner with the same name is there, such as a new pod: this one has ended."""
        return self._running.get(account.owner.key) is not account

    def has_ended(self, account: OwnerAccount, now: Monotonic) -> bool:
        """Return whether an owner has ended although no tick shows its GPUs: a source lost it, another owner has its
        name, or it left its other GPUs since it was last seen, `UNKNOWN_SECONDS` before a moment of the clock of the
        ticks."""
        if self.is_replaced(account) or self._lost_at(account) is not None:
            return True
        left = [part.left for part in account.gpus.values() if part.left is not None]
        is_hidden = all(self._gpus[key].missed is not None for key in account.holding)
        last, seen = max(left, default=MONOTONIC_NEVER), account.now - account.unseen
        return is_hidden and last > seen and now - last >= UNKNOWN_SECONDS

    def restore(self, accounts: Iterable[OwnerAccount]) -> None:
        """Continue accounts of an earlier run of the daemon, as soon as their owners are seen."""
        self._saved = {account.owner.key: account for account in accounts}
        parts = [part for account in self._saved.values() for part in account.gpus.values() if part.since is not None]
        sharers = Counter(part.device.entity.key for part in parts)
        for part in parts:
            if part.energy is not None:
                part.bridge = (*part.energy, sharers[part.device.entity.key])

    def take_changes(self) -> Sequence[OwnerChange]:
        """Return the changes since the last call."""
        changes, self._changes = self._changes, []
        return changes

    def account(self, owner: Owner, gpu: GpuKey, tick: Tick) -> OwnerAccount:
        """Return the account of an owner of a GPU in a tick; a new owner has a new one, if there is a place."""
        owner = owner if owner.allocated is None else replace(owner, allocated=None)  # of this GPU only
        account = self._running.get(owner.key)
        if account is not None and owner.continues(account.owner):
            if owner is not account.owner and owner != account.owner:
                begin, uid = owner.begin or account.owner.begin, owner.uid or account.owner.uid
                account.owner = replace(owner, begin=begin, uid=uid)
            return account
        if account is None and not self._take_place(owner, gpu):
            self._count_dropped(owner)
            owner = OTHER
            if (account := self._running.get(OTHER.key)) is not None:
                return account
        saved = self._saved.pop(owner.key, None)
        if saved is not None and owner.continues(saved.owner):
            account = saved
            account.owner = owner
            account.resume(tick.now, tick.time)
        elif (returned := self._returned(owner)) is not None:
            account = returned
        else:
            if saved is not None:
                self._end(saved, saved.until)
            begin = tick.time if owner.begin is None else min(owner.begin, tick.time)
            newer, account = account, OwnerAccount(owner, begin, tick.time, tick.time, now=tick.now)
            account.elapsed, account.first = tick.time - begin, tick.now
            if newer is not None and newer.begun > account.begun:  # the id has been used again since
                return account
        self._running[owner.key] = account
        return account

    def _take_place(self, owner: Owner, gpu: GpuKey) -> bool:
        """Take a place for a new owner of a GPU; return whether there was one. `LEAKED` and `OTHER` need none."""
        if not owner.is_known:
            return True
        place = gpu if self._taken[gpu] < PLACES_PER_GPU else None
        if place is None and self._taken[None] >= SHARED_PLACES:
            return False
        self._places[owner.key] = place
        self._taken[place] += 1
        return True

    def _leave_place(self, owner: Owner) -> None:
        if owner.key in self._places:
            place = self._places.pop(owner.key)
            self._taken[place] -= 1
            if not self._taken[place]:
                del self._taken[place]

    def _returned(self, owner: Owner) -> OwnerAccount | None:
        """Return the account of an owner that has ended and is certainly the same; None without one."""
        ended = self._ended.get(owner.key)
        if ended is None or not owner.uid or owner.uid != ended.owner.uid or not owner.continues(ended.owner):
            return None
        del self._ended[owner.key]
        ended.end = None
        self._on_return(ended)
        return ended

    def enter(self, account: OwnerAccount, gpu: AccountedGpu, tick: Tick) -> None:
        """Note that an owner got a GPU."""
        device = gpu.device
        on_gpu = account.on(device)
        if on_gpu.since is None:
            is_first = not on_gpu.held and tick.now - account.first <= 2.0 * tick.interval
            since = on_gpu.begin(account.begun if is_first else tick.now, gpu.known_at)
            if not on_gpu.is_announced:
                on_gpu.is_announced = True
                time = Unix(tick.time - (tick.now - since))
                self._changes.append(OwnerChange("begin", account.owner, device, time))
        if on_gpu.bridge is not None and gpu.first_energy is not None:
            (before, then, sharers), (joules, time) = on_gpu.bridge, gpu.first_energy
            if 0.0 < joules - before <= MAX_WATTS * (time - then):
                on_gpu.bridged_joules += (joules - before) / sharers
        on_gpu.bridge = None
        on_gpu.inspect(gpu.row.result.health, tick.time)
        account.holding.add(device.entity.key)
        account.advance(tick.now, tick.time)
        account.left, account.absent_ticks = None, 0
        self._absent.pop(account, None)

    def pass_between(self, account: OwnerAccount, gpu: AccountedGpu, tick: Tick) -> None:
        """Note an owner that had a GPU between two ticks, and in neither of both."""
        on_gpu = account.on(gpu.device)
        if account.first == tick.now:  # it is new
            account.now, account.elapsed, account.last_seen = account.begun, 0.0, account.begin
            on_gpu.held += max(self._left(account, tick) - account.now, 0.0)
            on_gpu.is_announced = True
            self._changes.append(OwnerChange("begin", account.owner, gpu.device, account.begin))
        self._note_absence(account, gpu.target, tick)

    def leave(self, account: OwnerAccount, gpu: AccountedGpu, tick: Tick) -> None:
        """Note that an owner lost a GPU, in a tick of the target that delivers it or of an earlier one."""
        account.holding.discard(gpu.device.entity.key)
        account.on(gpu.device).end(self._left(account, tick))
        self._note_absence(account, gpu.target, tick)

    def _note_absence(self, account: OwnerAccount, target: str, tick: Tick) -> None:
        if not account.holding:
            now = max([self._left(account, tick), *[gpu.left for gpu in account.gpus.values() if gpu.left is not None]])
            account.left = Unix(tick.time - (tick.now - now))
            account.advance(now)
            account.retract(now)
            self._absent[account] = target

    def advance(self, tick: Tick) -> None:
        """End owners without a GPU that are not in some ticks, this one included, of the target that had them."""
        for account, target in list(self._absent.items()) if self._absent else ():
            if target == tick.target:
                replaced = self.is_replaced(account)
                account.absent_ticks += 1
                if account.absent_ticks >= ABSENT_TICKS or replaced:
                    self._end(account, account.until)
        if self._saved:
            if self._resumes_until is None:
                self._resumes_until = Monotonic(tick.now + RESUME_SECONDS)
            late = tick.now - self._resumes_until
            for key, account in list(self._saved.items()) if late > 0.0 else ():
                held = [gpu.device.entity.key for gpu in account.gpus.values() if gpu.since is not None]
                if late > LATE_SECONDS or not held or any(each in self._gpus for each in held):
                    self._end(account, account.until)
                    del self._saved[key]

    def sweep(self, targets: Container[str]) -> None:
        """End owners of targets that are gone."""
        for account in [each for each, target in self._absent.items() if target not in targets]:
            self._end(account, account.until)

    def _count_dropped(self, owner: Owner) -> None:
        """Count an owner without an account of its own, once."""
        if owner.key not in self._dropped:
            self.dropped += 1
            self._dropped[owner.key] = None
            if len(self._dropped) > MAX_DROPPED:
                del self._dropped[next(iter(self._dropped))]

    def _left(self, account: OwnerAccount, tick: Tick) -> Monotonic:
        """Return when an owner that is not in a tick lost its GPU, in seconds of the clock of the ticks: after its last
        sample, and not after the tick."""
        lost_at = self._lost_at(account)
        return tick.now if lost_at is None else min(lost_at, tick.now)

    def _lost_at(self, account: OwnerAccount) -> Monotonic | None:
        """Return when a source lost an owner, if that was after its last sample; otherwise None."""
        ended = self._ended_at(account.owner)
        return None if ended is None or ended < account.now else ended

    def _end(self, account: OwnerAccount, time: Unix) -> None:
        account.end = time
        self._absent.pop(account, None)
        if not self.is_replaced(account):
            del self._running[account.owner.key]
            self._leave_place(account.owner)
        for on_gpu in account.gpus.values():
            on_gpu.end(account.now)  # it did not get this GPU again after a restart of pulsed
            on_gpu.is_announced = False
            self._changes.append(OwnerChange("end", account.owner, on_gpu.device, time))
        if account.owner.uid:
            self._ended[account.owner.key] = account
            self._ended.move_to_end(account.owner.key)
            if len(self._ended) > MAX_RETURNING:
                self._ended.popitem(last=False)
        self._on_end(account)
