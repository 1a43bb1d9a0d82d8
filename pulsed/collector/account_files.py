"""The files that keep the accounts of owners: of running ones over a restart, of ended ones for some days."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pulsed.accounting.accounting import OwnerAccounting
from pulsed.accounting.ended import MAX_ENDED, EndedAccounts
from pulsed.accounting.owner_roster import OwnerChange
from pulsed.accounting.saved_account import dump_account, load_account
from pulsed.aligned_sleep import aligned_sleep
from pulsed.collector.state_file import StateFile

log = logging.getLogger(__name__)

VERSION = 1

LOOK_SECONDS = 2.0
"""Seconds between two looks for ended owners."""

WRITE_SECONDS = 60.0
"""Seconds between two writes of running accounts; they are also written when an owner has ended."""

KEPT_DAYS = 7
KEPT_BYTES = 64 * 2**20
"""Files of ended accounts are removed, the oldest first, beyond these limits; the newest is kept."""


class AccountFiles:
    """`jobs.json` with the running accounts, and `jobs-DAY.ndjson` with those that ended on a day (UTC).

    Args:
        folder: where; None: nothing is kept.
    """

    def __init__(self, folder: Path | None, accounting: OwnerAccounting, ended: EndedAccounts) -> None:
        self._folder, self._accounting, self._ended = folder, accounting, ended
        self._file = None if folder is None else StateFile(folder / "jobs.json", "accounts of owners")
        self._is_failing = False

    def restore(self) -> None:
        """Load the accounts of an earlier run."""
        if self._file is None or self._folder is None:
            return
        for line in _last_lines(_days(self._folder)):
            try:
                self._ended.load(line)
            except ValueError as error:  # noqa: PERF203 - a damaged line does not cost the others
                log.warning("an account of an ended owner is of no use", extra={"error": str(error)})
        self._file.load(self._accept)

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
            if is_due or self._ended.unwritten:
                written = time.monotonic()
                await asyncio.to_thread(self._save, *self._take())

    def write(self) -> None:
        """Write all accounts."""
        self._save(*self._take())

    def _take(self) -> tuple[list[bytes], Mapping[str, object] | None]:
        lines, self._ended.unwritten = self._ended.unwritten, []
        if self._file is None:
            return [], None
        accounts = [dump_account(account) for account in self._accounting.unfinished]
        return lines, {"version": VERSION, "accounts": accounts}

    def _save(self, lines: Sequence[bytes], document: Mapping[str, object] | None) -> None:
        if self._file is None or self._folder is None or document is None:
            return
        if lines:
            self._append(self._folder, lines)
        self._file.save(document)

    def _append(self, folder: Path, lines: Sequence[bytes]) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / time.strftime("jobs-%Y-%m-%d.ndjson", time.gmtime())).open("ab") as file:
                file.write(b"\n".join(lines) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            _remove_old(_days(folder))
        except OSError as error:
            if not self._is_failing:
                log.warning("accounts of ended owners cannot be kept", extra={"error": str(error)})
            self._is_failing = True
        else:
            self._is_failing = False

    def _accept(self, document: Mapping[str, object]) -> None:
        saved = document.get("accounts")
        if document.get("version") != VERSION or not isinstance(saved, list):
            raise ValueError(f"version {document.get('version')!r} instead of {VERSION}")
        self._accounting.restore([load_account(each) for each in saved])


def _days(folder: Path) -> list[Path]:
    """Return the files of ended accounts, the oldest first."""
    return sorted(folder.glob("jobs-????-??-??.ndjson"))


def _last_lines(days: Sequence[Path]) -> list[bytes]:
    """Return the lines of the newest accounts, the oldest first."""
    lines: list[bytes] = []
    for path in reversed(days):
        try:
            lines = [line for line in path.read_bytes().splitlines() if line] + lines
        except OSError as error:
            log.warning("accounts of ended owners cannot be read", extra={"path": str(path), "error": str(error)})
        if len(lines) >= MAX_ENDED:
            break
    return lines[-MAX_ENDED:]


def _remove_old(days: Sequence[Path]) -> None:
    """Remove the oldest files beyond the limits."""
    sizes = [path.stat().st_size for path in days]
    for number, path in enumerate(days[:-1]):
        if len(days) - number > KEPT_DAYS or sum(sizes[number:]) > KEPT_BYTES:
            path.unlink()
