"""The files of ended accounts: what has ended is kept for some days.

Accounts that wait to be written take bounded memory.
"""

from __future__ import annotations

import calendar
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from pulsed.daemon.state_file import WriteStatus
from pulsed.durations import DAY
from pulsed.owners.accounting.settings import AccountsSettings
from pulsed.regular_file import FOLDER_MODE, append_lines, lines_from_end

log = logging.getLogger(__name__)

READ_BYTES = 16 * 2**20
"""Bytes that are read at start, of the newest accounts."""

WAITING_BYTES = 8 * 2**20
"""Accounts that wait are dropped, the oldest first, beyond this size: some 2,500 of one GPU."""


class EndedFiles:
    """`jobs-DAY.ndjson`: the accounts that were written on a day (UTC), one per line. Safe in several threads.

    Files are removed, the oldest first, beyond the limits of the settings; the newest is kept.

    Attributes:
        settings: what is kept.
        status: whether accounts are written.
        added: accounts that were ever added.
        dropped: accounts that were not written because too many waited.
    """

    def __init__(self, folder: Path, settings: AccountsSettings) -> None:
        self._folder, self.settings = folder, settings
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._being_written: Sequence[bytes] = ()
        self._waiting_bytes = 0
        self._logged_drops = 0
        self._unremovable: set[Path] = set()
        self.status = WriteStatus(folder / "jobs-DAY.ndjson", "accounts of ended owners")
        self.added = self.dropped = 0

    @property
    def unwritten(self) -> Sequence[bytes]:
        """The accounts that are not known to be written, the oldest first."""
        with self._lock:
            return (*self._being_written, *self._waiting)

    def add(self, line: bytes) -> None:
        """Let an account wait to be written."""
        with self._lock:
            self.added += 1
            self._waiting.append(line)
            self._waiting_bytes += len(line)
            self._limit()

    def write(self) -> None:
        """Write what waits; if that fails, it goes on waiting."""
        with self._writing:  # the write before may still run in its thread when pulsed ends
            lines = self._take()
            if not lines:
                return
            path = self._folder / time.strftime("jobs-%Y-%m-%d.ndjson", time.gmtime())
            try:
                self._folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
                append_lines(path, b"\n".join(lines) + b"\n")
            except OSError as error:
                self.status.failed(error)
                self._put_back(lines)
                return
            self._being_written = ()
            self.status.succeeded()
            self._remove_old()

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
        for path in reversed(self._days()):
            if _end_of_day(path) < since:
                return
            try:
                yield from filter(None, lines_from_end(path))
            except OSError as error:
                log.warning("accounts of ended owners cannot be read", extra={"path": str(path), "error": str(error)})

    def _take(self) -> Sequence[bytes]:
        with self._lock:
            self._being_written, self._waiting, self._waiting_bytes = tuple(self._waiting), deque(), 0
            return self._being_written

    def _put_back(self, lines: Sequence[bytes]) -> None:
        with self._lock:
            self._being_written = ()
            self._waiting.extendleft(reversed(lines))
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
        room, oldest = self.settings.max_bytes, time.time() - self.settings.keep
        for number, path in enumerate(reversed(self._days())):
            try:
                room -= path.lstat().st_size
                if number and (_end_of_day(path) < oldest or room < 0):
                    path.unlink()
            except OSError as error:
                if path not in self._unremovable:
                    log.warning("an old file of accounts cannot be removed", extra={"error": str(error)})
                self._unremovable.add(path)


def _end_of_day(path: Path) -> float:
    """Return the Unix time until which accounts were written to a file; infinity of a name without a date."""
    try:
        return calendar.timegm(time.strptime(path.stem, "jobs-%Y-%m-%d")) + DAY
    except ValueError:
        return math.inf
