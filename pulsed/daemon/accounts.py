"""Accounts of the owners of GPUs: running and ended ones, their files, totals of workloads, and routes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pulsed.config.configuration import Config
from pulsed.daemon.account_files import AccountFiles
from pulsed.daemon.events import EventsFeature
from pulsed.daemon.feature import Feature, FeatureParts
from pulsed.model.computed_tick import ComputedTick
from pulsed.owners.accounting.account import OwnerAccount
from pulsed.owners.accounting.accounting import OwnerAccounting
from pulsed.owners.accounting.owner_roster import OwnerChange
from pulsed.owners.accounting.saved_accounts import EndedAccounts
from pulsed.present.api.account_documents import Accounts
from pulsed.present.api.event_documents import owner_change
from pulsed.present.owner_totals import WorkloadTotals

if TYPE_CHECKING:
    from fastapi import APIRouter


class AccountsFeature(Feature):
    """Accounts for the owners of every tick, and announces their begins and ends.

    Attributes:
        accounting: the accounts of owners that have not ended.
        workloads: counters of workloads.
        files: the files of accounts.
    """

    name = "accounts"

    def __init__(self, parts: FeatureParts) -> None:
        self._store, self._config, self._events = parts.store, parts.config, parts.feature(EventsFeature)
        self._ended = EndedAccounts()
        self.accounting = OwnerAccounting(parts.attribution.ended_at, self._end, self._resume)
        self.workloads = WorkloadTotals()
        folder = Path(parts.config.state_dir) if parts.config.state_dir else None
        self.files = AccountFiles(folder, self.accounting, self._ended)

    def apply(self, config: Config) -> None:
        """Show prices and scale hints by a configuration."""
        self._config = config

    def take_tick(self, tick: ComputedTick) -> None:
        """Account for a tick."""
        self._announce(self.accounting.add(tick))

    def routes(self) -> Iterator[APIRouter]:
        """Yield the routes of owners."""
        from pulsed.present.api.routes.owners import owner_router

        accounts = Accounts(self.accounting, self._ended, self._config.prices, self.workloads)
        yield owner_router(self._store, accounts, self._config.publish.scale_target)

    async def run(self) -> None:
        """Write accounts as they end, and running ones regularly."""
        await self.files.write_regularly(self._announce)

    def restore(self) -> None:
        """Load the accounts of an earlier run; the counters of workloads begin with this one."""
        self.files.restore()
        self.workloads.skip(self.accounting.unfinished)

    def save(self) -> None:
        """Write all accounts."""
        self.files.write()

    def _announce(self, changes: Sequence[OwnerChange]) -> None:
        for change in changes:
            self._events.announce(owner_change(change))

    def _end(self, account: OwnerAccount) -> None:
        """Keep the account of an owner that has ended, and add it to its workload."""
        self.files.end(account)
        self.workloads.end(account)

    def _resume(self, account: OwnerAccount) -> None:
        """Continue the account of an owner that had ended and has returned."""
        self._ended.drop(account)
        self.workloads.skip([account])
