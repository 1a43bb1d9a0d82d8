"""The files of ended accounts: what has ended is kept for some days.

Accounts that wait to be written take bounded memory.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from pulsed.daemon.day_files import DayFiles
from pulsed.daemon.state_file import WriteStatus
from pulsed.owners.accounting.settings import AccountsSettings
from pulsed.regular_file import lines_from_end

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
        self._folder, self._files, self.settings = folder, DayFiles(folder, "jobs"), settings
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._being_written: Sequence[bytes] = ()
        self._waiting_bytes = 0
        self._logged_drops = 0
        self.status = WriteStatus(self._files.pattern, "accounts of ended owners")
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
        """Write the waiting accounts; after a failure they wait for the next call."""
        with self._writing:  # the write before may still run in its thread when pulsed ends
            lines = self._begin_write()
            if not lines:
                return
            try:
                self._files.append(lines)
            except OSError as error:
                self.status.failed(error)
                self._put_back(lines)
                return
            self._being_written = ()
            self.status.succeeded()
            self._files.remove_old(self.settings.keep, self.settings.max_bytes)

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
        for path in reversed(self._files.paths()):
            if self._files.end_of(path) < since:
                return
            try:
                yield from filter(None, lines_from_end(path))
            except OSError as error:
                log.warning("accounts of ended owners cannot be read", extra={"path": str(path), "error": str(error)})

    def _begin_write(self) -> Sequence[bytes]:
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
