"""Which accounts a request is about: by filters, or by a name of their owner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from pulsed.model.owner import Owner
from pulsed.owners.accounting.account import OwnerAccount
from pulsed.owners.accounting.accounting import OwnerAccounting
from pulsed.owners.accounting.saved_accounts import EndedAccounts
from pulsed.present.job_numbers import NO_PRICES, Prices
from pulsed.present.owner_totals import WorkloadTotals


class Accounts(NamedTuple):
    """Where accounts are found: those of owners that have a GPU, and those of owners that have ended; the prices
    in force; and counters of workloads, None without those of pods that are gone.
    """

    running: OwnerAccounting
    ended: EndedAccounts
    prices: Callable[[], Prices] = lambda: NO_PRICES
    workloads: WorkloadTotals | None = None


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
        """Return whether an owner is wanted, whatever its state."""
        pairs = ((self.kind, owner.kind), (self.user, owner.user), (self.account, owner.account))
        return all(not wanted or wanted == found for wanted, found in (*pairs, (self.namespace, owner.namespace)))


def running_accounts(accounts: Accounts, wanted: AccountFilter) -> list[OwnerAccount]:
    """Return the accounts of owners that have a GPU and match, the newest begin first."""
    if wanted.state == "ended":
        return []
    return sorted(filter(wanted.matches, accounts.running.running), key=lambda each: (-each.begin, each.owner.key))


def ended_accounts(accounts: Accounts, wanted: AccountFilter) -> Iterator[OwnerAccount]:
    """Return the accounts of owners that have ended and match, the newest end first; may be used in another thread."""
    if wanted.state == "running":
        return iter(())
    return accounts.ended.find(lambda owner, end: end >= wanted.since and wanted.matches_owner(owner))


def accounts_named(accounts: Accounts, name: str) -> list[OwnerAccount]:
    """Return the accounts of an owner, the newest begin first.

    Args:
        name: a job id (`4711`, `4711_7`), UID, name or `namespace/name` of a pod, or an owner's id.
    """
    found = [each for each in accounts.running.running if name in names_of_owner(each.owner)]
    found += accounts.ended.find(lambda owner, end: name in names_of_owner(owner))
    return sorted(found, key=lambda each: (-each.begin, each.owner.key))


def names_of_owner(owner: Owner) -> set[str]:
    """Return all names by which an owner is found."""
    names = {owner.id, owner.uid}
    if owner.has_pod:
        names |= {
            owner.name,
            f"{owner.namespace}/{owner.name}",
            f"pod:{owner.namespace}/{owner.name}",
            f"pod:{owner.namespace}/{owner.name}/{owner.container}",
        }
    return names - {""}
