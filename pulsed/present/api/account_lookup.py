"""Which accounts a request is about: by filters, or by a name of their owner."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from hashlib import blake2b
from itertools import chain
from typing import NamedTuple

from pulsed.json_text import json_bytes
from pulsed.model.clocks import Unix
from pulsed.model.job_names import names_of_owner
from pulsed.model.owner import Owner
from pulsed.owners.accounting import OwnerAccounting
from pulsed.owners.accounting.account import FREE, OwnerAccount
from pulsed.owners.accounting.saved_accounts import AccountKey, EndedAccounts, account_key, ended_account
from pulsed.owners.report.job_numbers import NO_PRICES, Prices
from pulsed.owners.report.owner_totals import WorkloadTotals
from pulsed.owners.report.usage import GroupBy
from pulsed.present.api.usage_documents import NO_USAGE, Usage

Check = Callable[[], None]
"""Called often while files are read; an exception that it raises ends the reading."""


class Accounts(NamedTuple):
    """Where accounts are found: of owners that have a GPU (`running`), and of owners that have ended (`ended`).

    Attributes:
        prices: returns the prices in force.
        workloads: counters of workloads; None without counters of pods that are gone.
        kept_lines: returns the lines of files with owners that have ended since a Unix time, and some older ones, the
            newest first.
        kept_usage: returns the sums of these files by a grouping, without accounts whose digests are given; adds the
            digests of the files to them.
    """

    running: OwnerAccounting
    ended: EndedAccounts
    prices: Callable[[], Prices] = lambda: NO_PRICES
    workloads: WorkloadTotals | None = None
    kept_lines: Callable[[float], Iterable[bytes]] = lambda since: ()
    kept_usage: Callable[[float, GroupBy, AccountDigests, Check], Usage] = lambda since, by, newer, check: NO_USAGE


WORK_SECONDS, PAUSE_SECONDS = 2e-3, 1e-4
"""Time after which a thread that reads files pauses, and for how long."""


class ReadingStopped(Exception):
    """Files were read for too long, or the client is gone."""


class ReadingTime:
    """Ends reading after some seconds, or when the client is gone: called often, it raises `ReadingStopped`.

    It also pauses: a thread that computes is interrupted every 5 ms only, and a request waits a dozen times for that.
    """

    def __init__(self, seconds: float, is_gone: Callable[[], bool] = lambda: False) -> None:
        self._paused = time.monotonic()
        self._end, self._is_gone = self._paused + seconds, is_gone

    def __call__(self) -> None:
        """Raise `ReadingStopped` if it is time."""
        now = time.monotonic()
        if now > self._end or self._is_gone():
            raise ReadingStopped
        if now - self._paused > WORK_SECONDS:
            time.sleep(PAUSE_SECONDS)
            self._paused = time.monotonic()


def _goes_on() -> None:
    """Read to the end."""


class AccountFilter(NamedTuple):
    """Which accounts are wanted; empty: any. `since`: not ended before this Unix time."""

    state: str = ""
    kind: str = ""
    user: str = ""
    account: str = ""
    namespace: str = ""
    since: float = 0.0

    def matches(self, account: OwnerAccount) -> bool:
        """Return whether the owner of an account is wanted, whatever its state."""
        return self.matches_owner(account.owner)

    def matches_owner(self, owner: Owner) -> bool:
        """Return whether an owner is wanted, whatever its state; `FREE` is none."""
        return owner.key != FREE.key and all(getattr(owner, name) == text for name, text in self.texts.items())

    @property
    def texts(self) -> dict[str, str]:
        """The texts that an owner must have, by attribute."""
        names = ("kind", "user", "account", "namespace")
        return {name: text for name in names if (text := getattr(self, name))}


def running_accounts(accounts: Accounts, account_filter: AccountFilter) -> list[OwnerAccount]:
    """Return the accounts of owners that have a GPU and match, the newest begin first."""
    if account_filter.state == "ended":
        return []
    return newest_first(filter(account_filter.matches, accounts.running.current(Unix(time.time()))))


def ended_accounts(
    accounts: Accounts, account_filter: AccountFilter, check: Check = _goes_on
) -> Iterator[OwnerAccount]:
    """Return the accounts of owners that have ended and match, the newest end first; may be used in another thread.

    With `since`, these are all that are kept; otherwise the ones in memory. `check` is called for each line of files.
    """
    if account_filter.state == "running":
        return iter(())
    in_memory = accounts.ended.find(
        lambda owner, end: end >= account_filter.since and account_filter.matches_owner(owner)
    )
    if not account_filter.since:
        return in_memory
    kept = kept_accounts(accounts, account_filter.texts.values(), account_filter.since, check)
    return chain(
        in_memory, (each for each in kept if (each.end or 0.0) >= account_filter.since and account_filter.matches(each))
    )


def kept_accounts(
    accounts: Accounts, words: Iterable[str], since: float = 0.0, check: Check = _goes_on
) -> Iterator[OwnerAccount]:
    """Return the accounts that are in files only, the newest end first; may be used in another thread.

    Their lines have all words, a quick choice. Some are older than the Unix time `since`.
    """
    keys = accounts.ended.keys | {account_key(each) for each in accounts.running.unfinished}
    return _read_kept(accounts.kept_lines(since), [json_bytes(word)[1:-1] for word in words], keys, check)


def _read_kept(
    lines: Iterable[bytes], words: Sequence[bytes], keys: set[AccountKey], check: Check
) -> Iterator[OwnerAccount]:
    for line in lines:
        check()
        if all(word in line for word in words):
            try:
                account = ended_account(line)
            except ValueError:  # torn by a power cut
                continue
            if (key := account_key(account)) not in keys:  # an account that continued is in the files twice
                keys.add(key)
                yield account


def accounts_in_memory(accounts: Accounts, name: str) -> Iterator[OwnerAccount]:
    """Return the accounts of an owner that are in memory, in no order; may be used in another thread.

    Args:
        name: one of `names_of_owner`.
    """
    running = [each for each in accounts.running.current(Unix(time.time())) if name in names_of_owner(each.owner)]
    return chain(running, accounts.ended.find(lambda owner, end: name in names_of_owner(owner)))


def accounts_in_files(accounts: Accounts, name: str, check: Check = _goes_on) -> Iterator[OwnerAccount]:
    """Return the accounts of an owner that are in files only, the newest end first; may be used in another thread."""
    kept = kept_accounts(accounts, name.removeprefix("pod:").split("/"), check=check)
    return (each for each in kept if name in names_of_owner(each.owner))


def newest_first(accounts: Iterable[OwnerAccount]) -> list[OwnerAccount]:
    """Return accounts by their begin, the newest first."""
    return sorted(accounts, key=lambda each: (-each.begin, each.owner.key))


def digest(key: AccountKey) -> int:
    """Return 8 bytes that stand for an account."""
    return int.from_bytes(blake2b(repr(key).encode(), digest_size=8).digest())


class AccountDigests:
    """A set of digests of accounts, in sorted arrays: 100,000 take a ninth of the memory of a `set`.

    Args:
        digests: its first members.
    """

    def __init__(self, digests: Iterable[int] = ()) -> None:
        self._arrays = [array("Q", sorted(digests))]

    def add(self, digests: array[int]) -> None:
        """Add the digests of a sorted array."""
        self._arrays.append(digests)

    def __contains__(self, digest: int) -> bool:
        places = ((each, bisect_left(each, digest)) for each in self._arrays)
        return any(at < len(each) and each[at] == digest for each, at in places)

    def intersection(self, digests: Iterable[int]) -> frozenset[int]:
        """Return the intersection with other digests."""
        others = set(digests)
        return frozenset().union(*(others.intersection(each) for each in self._arrays))


NEAREST = 3
"""Names in the message about one that is not found."""


def nearest_names(accounts: Accounts, name: str) -> list[str]:
    """Return the names of owners in memory that are most like one that no owner has."""
    owners = [*(each.owner for each in accounts.running.current(Unix(time.time()))), *accounts.ended.owners]
    names = {each for owner in owners for each in names_of_owner(owner) if not each.startswith("pod:")}
    return get_close_matches(name, names, NEAREST)
