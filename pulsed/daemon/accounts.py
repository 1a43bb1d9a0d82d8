"""Accounts of the owners of GPUs: how running and ended ones are kept, totals of workloads, findings, and routes."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from prometheus_client.metrics_core import Metric

from pulsed.background_tasks import aligned_sleep
from pulsed.daemon.changes import EventsFeature, log_finding
from pulsed.daemon.day_files import DayFiles
from pulsed.daemon.feature import Feature, FeatureParts, Section
from pulsed.daemon.kept_usage import KeptUsage
from pulsed.durations import DAY
from pulsed.json_text import as_text
from pulsed.model.clocks import Monotonic
from pulsed.model.tick import Tick
from pulsed.owners.accounting import OwnerAccounting
from pulsed.owners.accounting.account import OwnerAccount
from pulsed.owners.accounting.owner_roster import OwnerChange
from pulsed.owners.accounting.saved_accounts import MAX_ENDED, EndedAccounts, account_key, dump_account, load_account
from pulsed.owners.findings import FindingDetector
from pulsed.owners.report.owner_totals import WorkloadTotals
from pulsed.owners.settings import AccountsSettings
from pulsed.present.api.account_lookup import AccountDigests, Accounts, ReadingStopped, ReadingTime, digest
from pulsed.present.api.event_documents import finding_change, owner_change
from pulsed.present.exposition.owner_families import OwnerFamilies
from pulsed.regular_file import lines_from_end

if TYPE_CHECKING:
    from fastapi import APIRouter

    from pulsed.daemon.state_file import WriteStatus

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""Seconds between two writes of accounts that have ended."""

RETRY_SECONDS = 60.0
"""Seconds until a failed write is repeated."""

SWEEP_SECONDS = 60.0
"""Seconds between two looks for owners that were on no tick for long."""

REFRESH_SECONDS = 10.0
"""Seconds between two looks for what was added to the files of accounts."""

READ_SECONDS = 20.0
"""Time limit of one look; the next one continues with the next file."""

READ_BYTES = 16 * 2**20
"""Bytes that are read at start, of the newest accounts."""


class EndedFiles(DayFiles):
    """`jobs-DAY.ndjson`: the accounts of ended owners, one per line, within the limits of the settings."""

    def __init__(self, folder: Path, settings: Callable[[], AccountsSettings]) -> None:
        super().__init__(folder, "jobs", "accounts of ended owners", lambda: (settings().keep, settings().max_bytes))

    def last_lines(self, most: int) -> list[bytes]:
        """Return at most this number of the newest accounts, the oldest first."""
        lines, room = list[bytes](), READ_BYTES
        for line in islice(self.lines(-math.inf), most):
            room -= len(line) + 1
            if room <= 0:
                break
            lines.append(line)
        return lines[::-1]

    def lines(self, since: float) -> Iterator[bytes]:
        """Yield the accounts that have ended since a Unix time, and some older ones, the newest first."""
        for path in reversed(self.paths(since)):
            try:
                yield from filter(None, lines_from_end(path))
            except OSError as error:
                log.warning("accounts of ended owners cannot be read", extra={"path": str(path), "error": str(error)})


class AccountsFeature(Feature):
    """Accounts for the owners of every tick, and announces their begins and ends.

    Attributes:
        accounting: the accounts of owners that have not ended.
        ended: accounts of owners that have ended.
        workloads: counters of workloads.
        ended_files: the files of ended accounts; None without `state_dir`.
    """

    name = "accounts"

    def __init__(self, parts: FeatureParts) -> None:
        self._store, self._active, self._events = parts.store, parts.active, parts.feature(EventsFeature)
        self.ended = EndedAccounts()
        self.accounting = OwnerAccounting(parts.attribution.ended_at, self._end, self._resume)
        self.workloads = WorkloadTotals()
        self.ended_files, self._kept = None, None
        if folder := parts.active.config.state_dir:
            self.ended_files = EndedFiles(Path(folder), lambda: parts.active.config.accounts)
            self._kept = KeptUsage(self.ended_files.paths, self._store.node, Path(folder))

    def take_tick(self, tick: Tick) -> None:
        """Account for a tick."""
        self._announce(self.accounting.add(tick))

    def routes(self) -> Iterator[APIRouter]:
        """Yield the routes of owners."""
        from pulsed.present.api.routes.owners import owner_router

        files, kept = self.ended_files, self._kept
        accounts = Accounts(
            self.accounting,
            self.ended,
            lambda: self._active.config.prices,
            self.workloads,
            *(() if files is None or kept is None else (files.lines, kept.usage)),
        )
        yield owner_router(self._store, accounts)

    async def run(self) -> None:
        """Write accounts as they end, and end owners that were on no tick for long."""
        if self._kept is not None:
            await asyncio.to_thread(self._kept.load)
        swept = tried = refreshed = time.monotonic()
        is_unread = True
        day = int(time.time() // DAY)
        while True:
            await aligned_sleep(LOOK_SECONDS)
            now, files = Monotonic(time.monotonic()), self.ended_files
            if now - swept >= SWEEP_SECONDS:
                swept = now
                if (today := int(time.time() // DAY)) != day:
                    day = today
                    self.accounting.end_free()
                self._announce(self.accounting.sweep(now, [target.name for target in self._store.targets]))
            if files is not None and files.unwritten and (not files.status.is_failing or now - tried >= RETRY_SECONDS):
                tried = now
                await asyncio.to_thread(files.write)
                is_unread = True
            if self._kept is not None and is_unread and now - refreshed >= REFRESH_SECONDS:
                refreshed = now
                newer = AccountDigests(digest(account_key(each)) for each in self.accounting.unfinished)
                is_unread = not await asyncio.to_thread(self._refresh, self._kept, newer)

    def _refresh(self, kept: KeptUsage, newer: AccountDigests) -> bool:
        """Read the accounts that were added to the files, so that no report has to; return whether all were read."""
        try:
            kept.refresh(newer, ReadingTime(READ_SECONDS))
        except (OSError, ReadingStopped) as error:
            log.debug("the sums of reports are not up to date", extra={"error": str(error)})
            return False
        return True

    def restore(self) -> None:
        """Load the accounts that have ended in earlier runs."""
        if self.ended_files is None:
            return
        for line in self.ended_files.last_lines(MAX_ENDED):
            try:
                self.ended.load(line)
            except ValueError as error:
                log.warning("an account of an ended owner cannot be used", extra={"error": str(error)})

    def save(self) -> None:
        """Write the accounts that have ended."""
        if self.ended_files is not None:
            self.ended_files.write()

    def statuses(self) -> Iterator[WriteStatus]:
        """Yield whether accounts are written."""
        if self.ended_files is not None:
            yield self.ended_files.status

    def sections(self) -> Iterator[Section]:
        """Yield the accounts of owners that have not ended, and ended accounts that are not yet in a file."""
        files = self.ended_files
        yield Section("accounts", lambda: files.added if files is not None else 0, self._dump, self._load)

    def _dump(self) -> object:
        """Return the accounts. One that ended just now may also be in the file of the day."""
        unwritten = self.ended_files.unwritten if self.ended_files is not None else ()
        return [*(as_text(dump_account(each)) for each in self.accounting.unfinished), *map(orjson.Fragment, unwritten)]

    def _load(self, saved: object) -> None:
        """Continue the accounts of an earlier run; the counters of workloads begin with this one."""
        if not isinstance(saved, list):
            raise ValueError(f"a {type(saved).__name__} instead of accounts")
        accounts = [load_account(account) for account in saved]
        for account in accounts:
            if account.end is not None and not self.ended.has(account):
                self._keep(account)
        running = [account for account in accounts if account.end is None and not self.ended.has(account)]
        for account in running:
            self.ended.drop(account)  # it had ended, and has returned
        self.accounting.restore(running)
        self.workloads.skip(self.accounting.unfinished)

    def _announce(self, changes: Sequence[OwnerChange]) -> None:
        for change in changes:
            self._events.announce(owner_change(change))

    def _end(self, account: OwnerAccount) -> None:
        """Keep the account of an owner that has ended, and add it to its workload."""
        self._keep(account)
        self.workloads.end(account)

    def _keep(self, account: OwnerAccount) -> None:
        line = self.ended.add(account)
        if self.ended_files is not None:
            self.ended_files.add(line)

    def _resume(self, account: OwnerAccount) -> None:
        """Continue the account of an owner that had ended and has returned."""
        self.ended.drop(account)
        self.workloads.skip([account])


class FindingsFeature(Feature):
    """Detects findings in ticks that are accounted for.

    Its families cover all owners: per GPU and owner they include the findings.
    """

    name = "findings"

    def __init__(self, parts: FeatureParts) -> None:
        accounts = parts.feature(AccountsFeature)
        self._store, self._events = parts.store, parts.feature(EventsFeature)
        self._active, self._pages = parts.active, parts.pages
        self._findings = FindingDetector(accounts.accounting, lambda owner: parts.active.config.findings.reason(owner))
        self._families = OwnerFamilies(parts.store, accounts.accounting, workloads=accounts.workloads)

    def take_tick(self, tick: Tick) -> None:
        """Log and announce the findings that begin or end with a tick."""
        for finding in self._findings.add(tick):
            log_finding(finding, self._store.node)
            self._events.announce(finding_change(finding))

    def metrics(self, now: Monotonic) -> Iterator[Metric]:
        """Yield the families of owners."""
        families = self._families
        families.max_owners, families.published = self._active.config.publish.max_owners, self._pages.owner_families
        return families.collect(now)
