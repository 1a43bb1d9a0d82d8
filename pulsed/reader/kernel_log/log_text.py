"""Parse the text of a kernel log as it grows. What is kept of it is bounded. This module does no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pulsed.model.raw_tick import KernelEvent
from pulsed.reader.kernel_log.journal_export import JournalExport
from pulsed.reader.kernel_log.line_formats import LogLine, Now, parse_line
from pulsed.reader.kernel_log.messages import DRIVERS, parse_message

LONGEST_LINE = 8192
"""Bytes of a line that count: as many as a record of /dev/kmsg has (`CONSOLE_EXT_LOG_MAX`)."""

_CONTINUATIONS = (" ", "\t", "-- ")
"""How lines begin that belong to the line before, and journalctl's own."""

_SHOWN = 60


class LogText:
    """Parser of the text of a log.

    Attributes:
        unknown: shape of the first line whose format is not known, while no line has a known one; empty otherwise.
    """

    def __init__(self) -> None:
        self.unknown = ""
        self._last = b""
        self._is_known = False
        self._begun = b""
        self._length = 0
        self._journal = JournalExport()

    def feed(self, data: bytes, now: Now) -> list[KernelEvent]:
        """Return the events of the lines that end in the next part of the text."""
        self._last = b""
        return [event for line, length in self._lines(data) for event in self._events(line, length, now)]

    @property
    def last(self) -> LogLine | None:
        """The last line of the part before; None if it has no time stamp."""
        return parse_line(self._last.decode("utf-8", "replace"))

    def _lines(self, data: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield the beginning of each complete line, and its length with the line feed."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._keep(end)
            line, length, self._begun, self._length = self._begun, self._length + 1, b"", 0
            yield line, length
        self._keep(rest)

    def _keep(self, part: bytes) -> None:
        self._begun += part[: LONGEST_LINE - len(self._begun)]
        self._length += len(part)

    def _events(self, line: bytes, length: int, now: Now) -> tuple[KernelEvent, ...]:
        if self._journal.has(line):
            self._set_known()
            entry = self._journal.add(line, length, now)
            event = parse_message(*entry) if entry else None
            return () if event is None else (event,)
        self._last = line
        if self._is_known and not any(name in line for name in DRIVERS):  # nearly all lines end here
            return ()
        text = line.decode("utf-8", "replace")
        parsed = parse_line(text)
        if parsed is not None:
            self._set_known()
            return event_of(parsed, now)
        if not self._is_known and not self.unknown and text.strip() and not text.startswith(_CONTINUATIONS):
            self.unknown = _shape(text)
        return ()

    def _set_known(self) -> None:
        self._is_known, self.unknown = True, ""


def event_of(line: LogLine, now: Now) -> tuple[KernelEvent, ...]:
    """Return the event of a line, if it has one, and a time that is plausible."""
    event = parse_message(line.message, 0.0)
    time = None if event is None else line.time(now)
    return () if event is None or time is None else (event._replace(time=time),)


def _shape(line: str) -> str:
    """Return the beginning of a line without what it tells: letters are `x`, digits `0`."""
    return re.sub(r"[^\W\d_]", "x", re.sub(r"\d", "0", line[:_SHOWN])) + "…" * (len(line) > _SHOWN)
