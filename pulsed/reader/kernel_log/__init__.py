"""Follow the kernel log: `/dev/kmsg`, or a file with its records, with lines of dmesg, journalctl or syslog.

`poll` never blocks and never raises: a log that cannot be read is described by `error`, and is opened again later.
"""

from __future__ import annotations

import errno
import os
import stat
import time as clocks
from collections.abc import Callable

from pulsed.model.clocks import Unix
from pulsed.model.raw_tick import KernelEvent
from pulsed.reader.kernel_log.line_formats import EXPECTED, Now, parse_line
from pulsed.reader.kernel_log.log_text import MAX_LINE_LENGTH, LogText, event_of

KMSG = "/dev/kmsg"

_BATCH_RECORDS = 1000
"""Most records of one `poll`; the rest follows with the next one, so that a long log does not delay a tick."""

_READ_BYTES = 2**18
_MAX_BYTES = 2**20
"""Most bytes of one `poll`: of a busy log with an interval of 15 s, 70 kB a second."""

_REOPEN_SECONDS = 30.0

_NO_LOG = "set health.kernel_log: off if this machine has none"

_GONE_SECONDS = 5.0
"""A file may be gone for so long, while a log daemon replaces it."""

LATE_SECONDS = 900.0
"""A new line with a time stamp older by this is of another time zone: zones differ by at least this much."""


class KernelLog:
    """The kernel log of this machine.

    Records that are in the log when it is opened are returned as well, with their own times. A file may be truncated,
    or replaced by another one.

    Args:
        path: `/dev/kmsg`, or a file that is followed as it grows.
        wall: Unix seconds.
        uptime: seconds since boot, the clock of the kernel's time stamps.

    Attributes:
        error: why the log cannot be read, or why its lines cannot be used, with the remedy; empty otherwise. A file
            to which programs also log stays unused, even when it is replaced.
    """

    def __init__(
        self,
        path: str,
        *,
        wall: Callable[[], float] = clocks.time,
        uptime: Callable[[], float] = clocks.monotonic,
    ) -> None:
        self._path, self._wall, self._uptime = path, wall, uptime
        self._descriptor: int | None = None
        self._file: tuple[int, int] | None = None
        self._is_device = self._is_mixed = False
        self._sequence = -1
        self._gone_since: float | None = None
        self._is_gone = False
        self._begin()
        self._retry_at = 0.0
        self.error = ""

    def poll(self) -> tuple[KernelEvent, ...] | None:
        """Return the events since the last call, oldest first; None while the log cannot be read."""
        if self._descriptor is None and not self._open():
            return None
        now = Now(Unix(self._wall()), self._uptime())
        try:
            events = self._read_device(now) if self._is_device else self._read_file(now)
        except OSError as error:
            self._fail(error)
            return None
        return None if self._text.unknown or self._is_mixed else tuple(events)

    def close(self) -> None:
        """Close the log. Safe to call twice."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> bool:
        """Open the log; one that was open before is continued."""
        if self._uptime() < self._retry_at:
            return False
        try:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            status = os.fstat(self._descriptor)
        except OSError as error:
            self._fail(error)
            return False
        self._is_device, self._is_gone, self.error = stat.S_ISCHR(status.st_mode), False, ""
        if self._file != _identity(status):
            self._file = _identity(status)
            self._begin()
        return True

    def _begin(self) -> None:
        """Read the file from its beginning."""
        self._position, self._text = 0, LogText()
        self._complete_at: float | None = None
        """When all of it had been read, in Unix seconds."""

    def _fail(self, error: OSError) -> None:
        self.close()
        self._retry_at = self._uptime() + _REOPEN_SECONDS
        remedy = (
            "grant CAP_SYSLOG and read access to it, or set health.kernel_log: off"
            if error.errno in (errno.EPERM, errno.EACCES)
            else _NO_LOG
        )
        self.error = f"{self._path}: {error.strerror}; {remedy}"

    def _read_device(self, now: Now) -> list[KernelEvent]:
        assert self._descriptor is not None
        events: list[KernelEvent] = []
        for _ in range(_BATCH_RECORDS):
            try:
                record = os.read(self._descriptor, MAX_LINE_LENGTH)  # one record a read
            except BlockingIOError:
                break
            except BrokenPipeError:  # records were overwritten; the next read continues after the gap
                continue
            if not record:
                break
            line = parse_line(record.decode("utf-8", "replace").partition("\n")[0])
            sequence = int(line.stamp.get("sequence", "0")) if line is not None else -1
            if line is not None and sequence > self._sequence:  # else it was read before the log was opened again
                self._sequence = sequence
                events += event_of(line, now)
        return events

    def _read_file(self, now: Now) -> list[KernelEvent]:
        assert self._descriptor is not None
        if os.fstat(self._descriptor).st_size < self._position:  # truncated
            self._begin()
        data = self._next_part()
        if not data and self._is_replaced():
            data = self._next_part()  # written before the replacement
            if not data:
                self.close()
                return self._read_file(now) if self._open() else []
        events: list[KernelEvent] = []
        most = self._position + _MAX_BYTES
        while data and self._position < most:
            events += self._text.feed(data, now)
            self._is_mixed = self._is_mixed or self._text.is_mixed
            self.error = self._problem(now)
            self._position += len(data)
            data = self._next_part()
        if not data:
            self._complete_at = now.wall
            self._watch_path(now)
        return events

    def _watch_path(self, now: Now) -> None:
        """Update `error` where the file is gone, while what is left of it is still read, or is back."""
        if os.path.exists(self._path):
            if self._is_gone:
                self.error = ""
            self._gone_since, self._is_gone = None, False
        elif self._gone_since is None:
            self._gone_since = now.uptime
        elif not self.error and now.uptime - self._gone_since >= _GONE_SECONDS:
            self._is_gone = True
            self.error = f"{self._path}: the file is gone; {_NO_LOG}"

    def _next_part(self) -> bytes:
        assert self._descriptor is not None
        return os.pread(self._descriptor, _READ_BYTES, self._position)

    def _is_replaced(self) -> bool:
        """Return whether another file is at the path, and in use: log daemons keep using the old one for a while."""
        try:
            status = os.stat(self._path)
        except OSError:  # it will be there again
            return False
        return _identity(status) != self._file and status.st_size > 0

    def _problem(self, now: Now) -> str:
        """Return why the newest lines cannot be used, with the remedy; empty if they can."""
        if self._is_mixed:
            return (
                f"{self._path}: programs also log to it, so any user can write a message of the driver; set "
                f"health.kernel_log to {KMSG}, or to a file of the kernel's facility alone (kern.* of rsyslog), and "
                "restart pulsed"
            )
        if self._text.unknown:
            return (
                f"{self._path}: the format of its lines is not known: {self._text.unknown!r} (letters as x, digits as "
                f"0); expected {EXPECTED}; set health.kernel_log to the file with the kernel's messages, or to off"
            )
        line = self._text.last
        time = None if line is None else line.time(now)
        is_late = (
            time is not None
            and self._complete_at is not None
            and time < min(self._complete_at, now.wall) - LATE_SECONDS
        )
        if line is None or (time is not None and not (line.is_local and is_late)):
            return ""
        is_what = "in the future" if time is None else f"{(now.wall - time) / 3600:.1f} h old, although it is new"
        return (
            f"{self._path}: the time stamp of its newest line is {is_what}; set TZ to the time zone of the log, or let "
            "it have time stamps with a zone"
        )


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
