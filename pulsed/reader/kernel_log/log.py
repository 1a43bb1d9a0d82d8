"""Follow the kernel log: `/dev/kmsg`, or a file with its records, with lines of `dmesg`, or with a journal export.

`poll` never blocks and never raises: a log that cannot be read is described by `error`, and is opened again later.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time as clocks
from collections.abc import Callable

from pulsed.reader.kernel_log.messages import parse_message
from pulsed.reader.tick import KernelEvent

KMSG = "/dev/kmsg"

_RECORD_BYTES = 8192
"""Largest record of /dev/kmsg (`CONSOLE_EXT_LOG_MAX`)."""

_BATCH_RECORDS = 1000
"""Most records of one `poll`; the rest follows with the next one, so that a long log does not delay a tick."""

_READ_BYTES = 2**18
_REOPEN_SECONDS = 30.0

_KMSG = re.compile(r"\d+,\d+,(?P<microseconds>\d+),[^;]*;(?P<message>.*)", re.DOTALL)
_DMESG = re.compile(r"(?:<\d+>)?\[\s*(?P<seconds>\d+\.\d+)\]\s?(?P<message>.*)")
_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})")


class KernelLog:
    """The kernel log of this machine.

    Records that are in the log when it is opened are returned as well, with their own times.

    Args:
        path: `/dev/kmsg`, or a file that is followed as it grows.
        wall: Unix seconds.
        uptime: seconds since boot, the clock of the kernel's time stamps.

    Attributes:
        error: why the log cannot be read, with the remedy; empty while it can.
        lost: records that the kernel overwrote before they were read.
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
        self._is_device = False
        self._rest = b""
        self._journal: dict[str, str] = {}
        self._retry_at = 0.0
        self.error = ""
        self.lost = 0

    def poll(self) -> tuple[KernelEvent, ...] | None:
        """Return the events since the last call, oldest first; None while the log cannot be read."""
        if self._descriptor is None and not self._open():
            return None
        try:
            return tuple(self._read_device() if self._is_device else self._read_file())
        except OSError as error:
            self._fail(error)
            return None

    def close(self) -> None:
        """Close the log. Safe to call twice."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> bool:
        if self._uptime() < self._retry_at:
            return False
        try:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            self._is_device = stat.S_ISCHR(os.fstat(self._descriptor).st_mode)
        except OSError as error:
            self._fail(error)
            return False
        self._rest, self._journal, self.error = b"", {}, ""
        return True

    def _fail(self, error: OSError) -> None:
        self.close()
        self._retry_at = self._uptime() + _REOPEN_SECONDS
        remedy = (
            "grant CAP_SYSLOG and read access to it, or set health.kernel_log: off"
            if error.errno in (errno.EPERM, errno.EACCES)
            else "set health.kernel_log: off if this machine has none"
        )
        self.error = f"{self._path}: {error.strerror}; {remedy}"

    def _read_device(self) -> list[KernelEvent]:
        assert self._descriptor is not None
        events: list[KernelEvent] = []
        for _ in range(_BATCH_RECORDS):
            try:
                record = os.read(self._descriptor, _RECORD_BYTES)  # one record a read
            except BlockingIOError:
                break
            except BrokenPipeError:  # records were overwritten; the next read continues after the gap
                self.lost += 1
                continue
            if not record:
                break
            self._add(record.decode("utf-8", "replace"), events)
        return events

    def _read_file(self) -> list[KernelEvent]:
        assert self._descriptor is not None
        if os.fstat(self._descriptor).st_size < os.lseek(self._descriptor, 0, os.SEEK_CUR):  # truncated: begin again
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            self._rest = b""
        lines = (self._rest + os.read(self._descriptor, _READ_BYTES)).split(b"\n")
        self._rest = lines.pop()
        events: list[KernelEvent] = []
        for line in lines:
            self._add(line.decode("utf-8", "replace"), events)
        return events

    def _add(self, line: str, events: list[KernelEvent]) -> None:
        event = None
        if match := _KMSG.match(line):
            message = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), match["message"].partition("\n")[0])
            event = parse_message(message, self._time_of(int(match["microseconds"]) / 1e6))
        elif match := _DMESG.match(line):
            event = parse_message(match["message"], self._time_of(float(match["seconds"])))
        elif line.strip():
            name, separator, value = line.partition("=")
            if separator:
                self._journal[name] = value
        elif self._journal:  # a blank line ends an entry of a journal export
            entry, self._journal = self._journal, {}
            stamp = entry.get("_SOURCE_REALTIME_TIMESTAMP") or entry.get("__REALTIME_TIMESTAMP", "")
            if stamp.isdecimal():
                event = parse_message(entry.get("MESSAGE", ""), int(stamp) / 1e6)
        if event is not None:
            events.append(event)

    def _time_of(self, uptime: float) -> float:
        return self._wall() - (self._uptime() - uptime)
