"""The files that keep the accounts of owners: of running ones over a restart, of ended ones for some days.

Accounts that wait to be written take bounded memory.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pulsed.collector.state_file import FOLDER_MODE, Draft, StateFile, WriteStatus
from pulsed.owners.accounting.account import OwnerAccount
from pulsed.owners.accounting.accounting import OwnerAccounting
from pulsed.owners.accounting.owner_roster import OwnerChange
from pulsed.owners.accounting.saved_accounts import MAX_ENDED, EndedAccounts, dump_account, load_account
from pulsed.pauses import aligned_sleep
from pulsed.regular_file import append_lines, read_last_lines

log = logging.getLogger(__name__)

KEPT_DAYS = 7
KEPT_BYTES = 64 * 2**20
"""Files are removed, the oldest first, beyond these limits; the newest is kept."""

READ_BYTES = 16 * 2**20
"""Bytes that are read at start, of the newest accounts."""

WAITING_BYTES = 8 * 2**20
"""Accounts that wait are dropped, the oldest first, beyond this size: some 2,500 of one GPU."""


class EndedFiles:
    """`jobs-DAY.ndjson`: the accounts that were written on a day (UTC), one per line. Safe in several threads.

    Attributes:
        status: whether accounts are written.
        dropped: accounts that were not written because too many waited.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._logged_drops = 0
        self._unremovable: set[Path] = set()
        self.status = WriteStatus(folder / "jobs-DAY.ndjson", "accounts of ended owners")
        self.dropped = 0

    def __len__(self) -> int:
        """Return the number of accounts that wait."""
        return len(self._waiting)

    def add(self, line: bytes) -> None:
        """Let an account wait to be written."""
        with self._lock:
            self._waiting.append(line)
            self._waiting_bytes += len(line)
            self._limit()

    def take(self) -> list[bytes]:
        """Return what waits, to be passed to `write`."""
        with self._lock:
            taken, self._waiting, self._waiting_bytes = list(self._waiting), deque(), 0
            return taken

    def write(self, lines: Sequence[bytes]) -> bool:
        """Write accounts; return whether that worked. If not, they wait again."""
        if not lines:
            return True
        path = self._folder / time.strftime("jobs-%Y-%m-%d.ndjson", time.gmtime())
        try:
            self._folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            append_lines(path, b"\n".join(lines) + b"\n")
        except OSError as error:
            self.status.failed(error)
            self._put_back(lines)
            return False
        self.status.succeeded()
        self._remove_old()
        return True

    def last_lines(self, most: int) -> list[bytes]:
        """Return at most so many of the newest accounts, the oldest first."""
        lines: list[bytes] = []
        room = READ_BYTES
        for path in reversed(self._days()):
            try:
                found = [line for line in read_last_lines(path, room) if line]
            except OSError as error:
                log.warning("accounts of ended owners cannot be read", extra={"path": str(path), "error": str(error)})
                continue
            lines = found + lines
            room -= sum(len(line) + 1 for line in found)
            if len(lines) >= most or room <= 0:
                break
        return lines[-most:]

    def _put_back(self, lines: Iterable[bytes]) -> None:
        with self._lock:
            self._waiting.extendleft(reversed(list(lines)))
            self._waiting_bytes = sum(map(len, self._waiting))
            self._limit()
            dropped = self.dropped - self._logged_drops
            self._logged_drops = self.dropped
        if dropped:
            log.warning(
                "accounts of ended owners are lost: too many wait to be written",
                extra={"path": str(self._folder), "dropped": dropped},
            )

    def _limit(self) -> None:
        while self._waiting_bytes > WAITING_BYTES:
            self._waiting_bytes -= len(self._waiting.popleft())
            self.dropped += 1

    def _days(self) -> list[Path]:
        """Return the files, the oldest first."""
        try:
            return sorted(self._folder.glob("jobs-????-??-??.ndjson"))
        except OSError as error:
            log.warning("state_dir cannot be listed", extra={"path": str(self._folder), "error": str(error)})
            return []

    def _remove_old(self) -> None:
        """Remove the oldest files beyond the limits. What cannot be removed is logged once."""
        room = KEPT_BYTES
        for number, path in enumerate(reversed(self._days())):
            try:
                room -= path.lstat().st_size
                if number and (number >= KEPT_DAYS or room < 0):
                    path.unlink()
            except OSError as error:
                if path not in self._unremovable:
                    log.warning("an old file of accounts cannot be removed", extra={"error": str(error)})
                self._unremovable.add(path)


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
        self._lock = threading.Lock()
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
            except ValueError as error:
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
        swept = written = time.monotonic()
        while True:
            await aligned_sleep(LOOK_SECONDS)
            now, files = time.monotonic(), self._files
            if now - swept >= WRITE_SECONDS:
                swept = now
                on_change(self._accounting.sweep(now))
            has_ended = files is not None and files.ended and not files.ended.status.is_failing
            if files is not None and (has_ended or now - written >= WRITE_SECONDS):
                written = now
                await asyncio.to_thread(self._save, files, self._draft(files))

    def write(self) -> None:
        """Write all accounts, before pulsed ends."""
        if self._files is None:
            return
        if not self._save(self._files, self._draft(self._files)):
            log.warning("accounts of ended owners are lost", extra={"accounts": len(self._files.ended)})

    def _draft(self, files: _Files) -> Draft:
        """Return the running accounts of this moment."""
        running = [dump_account(account) for account in self._accounting.unfinished]
        return files.running.draft({"version": VERSION, "accounts": running})

    def _save(self, files: _Files, running: Draft) -> bool:
        """Write the ended accounts that wait, and running ones; return whether all ended ones are in a file.

        An account that ended after the running ones were listed is in both files.
        """
        with self._lock:  # the write before may still run in its thread, or wait for one
            ended = files.ended.take()
            are_written = files.ended.write(ended)
            if not are_written:
                accounts = running.document["accounts"]
                assert isinstance(accounts, list)
                document = {**running.document, "accounts": [*accounts, *map(json.loads, ended)]}
                running = running._replace(document=document)
            return files.running.save(running) or are_written

    def _accept(self, document: Mapping[str, object]) -> None:
        saved = document.get("accounts")
        if document.get("version") != VERSION or not isinstance(saved, list):
            raise ValueError(f"version {document.get('version')!r} instead of {VERSION}")
        accounts = [load_account(account) for account in saved]
        for account in accounts:
            if account.end is not None and not self._ended.has(account):
                self.end(account)
        running = [account for account in accounts if account.end is None and not self._ended.has(account)]
        for account in running:
            self._ended.drop(account)  # it had ended, and has returned
        self._accounting.restore(running)
