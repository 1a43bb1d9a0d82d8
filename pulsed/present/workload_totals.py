"""Counters of workloads: they go on while pods come and go, also between two scrapes.

A workload gets what the accounts of its pods grow by. It begins with 0 when pulsed starts, as counters of a process do;
the accounts themselves may be older.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pulsed.accounting.account import OwnerAccount
from pulsed.present.owner_groups import NO_TOTALS, WORKLOAD, AccountTotals, GroupLabels, row_labels, totals_of

MAX_WORKLOADS = 4096
"""Workloads whose counters are kept while they have no pod; more are forgotten, the oldest first."""


class WorkloadTotals:
    """The counters of all workloads since the start."""

    def __init__(self) -> None:
        self._taken: dict[OwnerAccount, AccountTotals] = {}
        self._sums: dict[GroupLabels, AccountTotals] = {}

    def skip(self, accounts: Iterable[OwnerAccount]) -> None:
        """Leave out what is in these accounts already: they are from before the start."""
        self._taken |= {account: totals_of(account) for account in accounts}

    def take(self, accounts: Iterable[OwnerAccount]) -> None:
        """Add what these accounts have grown by; they have to be settled."""
        for account in accounts:
            labels = row_labels(WORKLOAD, account.owner)
            if labels is None:
                continue
            now = totals_of(account)
            growth = now.minus(self._taken.get(account, NO_TOTALS))
            self._taken[account] = now
            self._sums[labels] = self._sums.get(labels, NO_TOTALS).plus(growth)

    def end(self, account: OwnerAccount) -> None:
        """Add the last growth of an account that has ended."""
        self.take([account])
        self._taken.pop(account, None)
        if len(self._sums) > MAX_WORKLOADS:
            current = {row_labels(WORKLOAD, each.owner) for each in self._taken}
            old = [labels for labels in self._sums if labels not in current]
            for labels in old[: len(self._sums) - MAX_WORKLOADS]:
                del self._sums[labels]

    @property
    def sums(self) -> Mapping[GroupLabels, AccountTotals]:
        """The counters by labels of the workload."""
        return self._sums
