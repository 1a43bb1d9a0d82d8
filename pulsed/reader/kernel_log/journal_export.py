"""Parse the output of `journalctl -o export`: entries of fields, with an empty line after each.

A value with line feeds follows its size: what looks like an entry inside of a value is none. This module does no I/O.
"""

from __future__ import annotations

import re

from pulsed.reader.kernel_log.line_formats import Now, plausible

_FIRST = (b"__CURSOR=", b"__REALTIME_TIMESTAMP=")
_NAME = re.compile(rb"[A-Z0-9_]{1,64}")
_SIZE_BYTES = 8
_TIMES = ("_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP")
_KEPT = frozenset({"MESSAGE", "SYSLOG_FACILITY", "_TRANSPORT", *_TIMES})
_LONGEST_VALUE = 8192
_MICROSECONDS = re.compile(r"[0-9]{1,18}")


class JournalExport:
    """The entry that is being read. Only the fields that count are kept."""

    def __init__(self) -> None:
        self._fields: dict[str, str] | None = None
        self._sized = ""
        """Name of the field whose value follows its size."""
        self._value = b""
        self._length = 0

    def has(self, line: bytes) -> bool:
        """Return whether a line belongs to the entry, or begins one."""
        return self._fields is not None or line.startswith(_FIRST)

    def add(self, line: bytes, length: int, now: Now) -> tuple[str, float] | None:
        """Add a line of an entry.

        Args:
            line: without its line feed; of a long one, the beginning.
            length: of the whole line with its line feed.

        Returns:
            Message and time, in Unix seconds, if the line ends an entry that the kernel logged.
        """
        if self._fields is None:
            self._fields = {}
        name, separator, value = line.partition(b"=")
        if self._sized:
            self._add_to_value(line, length)
        elif not line:
            fields, self._fields = self._fields, None
            return _kernel_message(fields, now)
        elif not _NAME.fullmatch(name):
            self._fields = None
        elif separator:
            self._set(name.decode(), value)
        else:
            self._sized, self._value, self._length = name.decode(), b"", 0
        return None

    def _add_to_value(self, line: bytes, length: int) -> None:
        self._value = b"%b%b\n" % (self._value, line)
        self._value, self._length = self._value[: _SIZE_BYTES + _LONGEST_VALUE], self._length + length
        if len(self._value) < _SIZE_BYTES:
            return
        end = _SIZE_BYTES + int.from_bytes(self._value[:_SIZE_BYTES], "little")
        if self._length == end + 1:  # a line feed follows the value
            self._set(self._sized, self._value[_SIZE_BYTES:end])
            self._sized = ""
        elif self._length > end:
            self._sized, self._fields = "", None

    def _set(self, name: str, value: bytes) -> None:
        if self._fields is not None and name in _KEPT:
            self._fields[name] = value.decode("utf-8", "replace")


def _kernel_message(fields: dict[str, str], now: Now) -> tuple[str, float] | None:
    """Return message and time of an entry; None if not the kernel logged it, or its time is not plausible.

    No program can set fields whose names begin with `_`. What root writes to /dev/kmsg has another facility.
    """
    if fields.get("_TRANSPORT") != "kernel" or fields.get("SYSLOG_FACILITY", "0") != "0":
        return None
    stamp = next((fields[name] for name in _TIMES if _MICROSECONDS.fullmatch(fields.get(name, ""))), "")
    time = plausible(int(stamp) / 1e6, now) if stamp else None
    return None if time is None else (fields.get("MESSAGE", ""), time)
