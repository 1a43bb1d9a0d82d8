"""Files of the days (UTC) in `state_dir`: lines are added to today's file, and old files are removed.

Lines that wait to be written take bounded memory.
"""

from __future__ import annotations

import calendar
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from pulsed.daemon.state_file import WriteStatus
from pulsed.durations import DAY
from pulsed.regular_file import FOLDER_MODE, append_lines

log = logging.getLogger(__name__)

PIECES = 8
"""At least as many files are there at the limit: the oldest that is removed is so small a part."""

WAITING_BYTES = 8 * 2**20
"""Lines that wait are dropped, the oldest first, beyond this size: some 2,500 accounts of one GPU."""


class DayFiles:
    """`NAME-DAY.ndjson`: lines of JSON, written on a day (UTC). Safe in several threads.

    A file that would exceed an eighth of the size of all becomes `NAME-DAY.NUMBER.ndjson`. Files are removed, the
    oldest first, beyond an age, and before a write beyond the size; the newest is kept.

    Args:
        content: what the lines have, for the log.
        limits: returns the seconds that a file is kept, and the maximum size of all files in bytes.

    Attributes:
        status: whether lines are written.
        added: lines that were ever added.
        dropped: lines that were not written because too many waited.
    """

    def __init__(self, folder: Path, name: str, content: str, limits: Callable[[], tuple[float, float]]) -> None:
        self._folder, self._name, self._content, self._limits = folder, name, content, limits
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._being_written: Sequence[bytes] = ()
        self._waiting_bytes = self._logged_drops = 0
        self._unremovable: set[Path] = set()
        self.status = WriteStatus(folder / f"{name}-DAY.ndjson", content)
        self.added = self.dropped = 0

    @property
    def unwritten(self) -> Sequence[bytes]:
        """The lines that are not known to be written, the oldest first."""
        with self._lock:
            return (*self._being_written, *self._waiting)

    def add(self, line: bytes) -> None:
        """Let a line wait to be written."""
        with self._lock:
            self.added += 1
            self._waiting.append(line)
            self._waiting_bytes += len(line)
            self._limit()

    def write(self) -> None:
        """Write the waiting lines; after a failure they wait for the next call."""
        with self._writing:  # the write before may still run in its thread when pulsed ends
            with self._lock:
                lines = self._being_written = tuple(self._waiting)
                self._waiting, self._waiting_bytes = deque(), 0
            if not lines:
                return
            try:
                self._append(lines)
            except OSError as error:
                self.status.failed(error)
                self._put_back(lines)
                return
            self._being_written = ()
            self.status.succeeded()
            self._remove_old(0)

    def paths(self, since: float = -math.inf) -> list[Path]:
        """Return the files with lines since a Unix time, and some older ones, the oldest first."""
        try:
            paths = sorted(self._folder.glob(f"{self._name}-????-??-??*.ndjson"))  # those with numbers come first
        except OSError as error:
            log.warning("state_dir cannot be listed", extra={"path": str(self._folder), "error": str(error)})
            return []
        return [path for path in paths if self._end_of(path) >= since]

    def _append(self, lines: Sequence[bytes]) -> None:
        """Add lines to the file of today; raises OSError, and then none of them is there."""
        self._folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        path = self._folder / time.strftime(f"{self._name}-%Y-%m-%d.ndjson", time.gmtime())
        data = b"\n".join(lines) + b"\n"
        self._rotate(path, len(data))
        self._remove_old(len(data))
        append_lines(path, data)

    def _rotate(self, path: Path, size: int) -> None:
        """Give a file a number if `size` more bytes would exceed its limit."""
        try:
            if path.lstat().st_size + size <= self._limits()[1] / PIECES:
                return
        except FileNotFoundError:
            return
        numbers = (each.suffixes[0][1:] for each in self._folder.glob(f"{path.stem}.*.ndjson"))
        last = max((int(number) for number in numbers if number.isdecimal()), default=0)
        path.rename(path.with_name(f"{path.stem}.{last + 1:06}.ndjson"))

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
                f"{self._content} are lost: too many wait to be written",
                extra={"path": str(self._folder), "dropped": dropped},
            )

    def _limit(self) -> None:
        while self._waiting_bytes > WAITING_BYTES:
            self._waiting_bytes -= len(self._waiting.popleft())
            self.dropped += 1

    def _end_of(self, path: Path) -> float:
        """Return the Unix time until which lines were added to a file; infinity of a name without a date."""
        try:
            return calendar.timegm(time.strptime(path.name.partition(".")[0], f"{self._name}-%Y-%m-%d")) + DAY
        except ValueError:
            return math.inf

    def _remove_old(self, size: int) -> None:
        """Remove the oldest files beyond the age, or beyond the limit with `size` more bytes, never the newest.

        What cannot be removed is logged once.
        """
        keep, max_bytes = self._limits()
        room, oldest = max_bytes - size, time.time() - keep
        for number, path in enumerate(reversed(self.paths())):
            try:
                room -= path.lstat().st_size
                if number and (self._end_of(path) < oldest or room < 0):
                    path.unlink()
            except OSError as error:
                if path not in self._unremovable:
                    log.warning("an old file in state_dir cannot be removed", extra={"error": str(error)})
                self._unremovable.add(path)
