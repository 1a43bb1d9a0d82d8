"""The files that keep the accounts of owners: of running ones over a restart, of ended ones for some days."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pulsed.accounting.account import OwnerAccount
from pulsed.accounting.accounting import OwnerAccounting
from pulsed.accounting.owner_roster import OwnerChange
from pulsed.accounting.saved_accounts import MAX_ENDED, EndedAccounts, SavedAccount, dump_account, load_account
from pulsed.aligned_sleep import aligned_sleep
from pulsed.collector.ended_files import EndedFiles
from pulsed.collector.state_file import StateFile, WriteStatus

log = logging.getLogger(__name__)

VERSION = 1

LOOK_SECONDS = 2.0
"""Seconds between two looks for ended owners."""

WRITE_SECONDS = 60.0
"""Seconds between two writes of running accounts; they are also written when an owner has ended. Failed writes of ended
ones are repeated as often."""


class _Files(NamedTuple):
    running: StateFile
    ended: EndedFiles


class AccountFiles:
    """`jobs.json` with the running accounts, and `jobs-DAY.ndjson` with those that ended on a day (UTC).

    Ended accounts that cannot be written to the second are also in the first.

    Args:
        folder: where; None: nothing is kept.
    """

    def __init__(self, folder: Path | None, accounting: OwnerAccounting, ended: EndedAccounts) -> None:
        self._accounting, self._ended = accounting, ended
        self._lock = threading.RLock()
        self._files = (
            None
            if folder is None
            else _Files(StateFile(folder / "jobs.json", "accounts of owners"), EndedFiles(folder))
        )

    @property
    def statuses(self) -> Sequence[WriteStatus]:
        """Whether each kind of file is written."""
        return () if self._files is None else (self._files.running.status, self._files.ended.status)

    @property
    def dropped(self) -> int:
        """Ended accounts that were not written because too many waited."""
        return 0 if self._files is None else self._files.ended.dropped

    def restore(self) -> None:
        """Load the accounts of an earlier run."""
        if self._files is None:
            return
        for line in self._files.ended.last_lines(MAX_ENDED):
            try:
                self._ended.load(line)
            except ValueError as error:  # noqa: PERF203 - a damaged line does not cost the others
                log.warning("an account of an ended owner is of no use", extra={"error": str(error)})
        self._files.running.load(self._accept)

    def end(self, account: OwnerAccount) -> None:
        """Keep the account of an owner that has ended."""
        line = self._ended.add(account)
        if self._files is not None:
            self._files.ended.add(line)

    async def write_regularly(self, on_change: Callable[[Sequence[OwnerChange]], None]) -> None:
        """Write accounts as they end, and running ones every `WRITE_SECONDS`, until cancelled.

        Args:
            on_change: takes owners that ended because they were on no tick for long.
        """
        written = time.monotonic()
        while True:
            await aligned_sleep(LOOK_SECONDS)
            is_due = time.monotonic() - written >= WRITE_SECONDS
            if is_due:
                on_change(self._accounting.sweep(time.time()))
            files = self._files
            if files is not None and (is_due or (files.ended and not files.ended.status.is_failing)):
                written = time.monotonic()
                await asyncio.to_thread(self._save, files, *self._take(files))

    def write(self) -> None:
        """Write all accounts, before pulsed ends."""
        if self._files is None:
            return
        with self._lock:  # the write before may still run in its thread
            if not self._save(self._files, *self._take(self._files)):
                log.warning("accounts of ended owners are lost", extra={"accounts": len(self._files.ended)})

    def _take(self, files: _Files) -> tuple[list[bytes], list[SavedAccount]]:
        """Return the ended and the other accounts of the same moment."""
        return files.ended.take(), [dump_account(account) for account in self._accounting.unfinished]

    def _save(self, files: _Files, ended: Sequence[bytes], accounts: Sequence[SavedAccount]) -> bool:
        """Write accounts; return whether all ended ones are in a file."""
        with self._lock:
            are_written = files.ended.write(ended)
            unwritten = [] if are_written else map(json.loads, ended)
            return files.running.save({"version": VERSION, "accounts": [*accounts, *unwritten]}) or are_written

    def _accept(self, document: Mapping[str, object]) -> None:
        saved = document.get("accounts")
        if document.get("version") != VERSION or not isinstance(saved, list):
            raise ValueError(f"version {document.get('version')!r} instead of {VERSION}")
        accounts = [account for account in map(load_account, saved) if not self._ended.has(account)]
        for account in accounts:
            if account.end is not None:
                self.end(account)
        self._accounting.restore([account for account in accounts if account.end is None])
