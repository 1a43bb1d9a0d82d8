"""Log lines for people and machines: logfmt or JSON on stderr, one line an event.

Characters that are not printable are escaped.
Call `log.info("what happened", extra={"target": url})`: the extra keys become fields of the line.
"""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pulsed.config.settings import Settings, setting
from pulsed.printable import escaped

log = logging.getLogger(__name__)

MAX_LINES, LIMIT_SECONDS = 300, 60.0
"""Lines of one kind, in this time; a daemon of 1,024 targets that all fail writes as many."""

Level = Literal["debug", "info", "warn", "error"]
Format = Literal["logfmt", "json"]

_LEVELS: dict[Level, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}
_NAMES = {number: name for name, number in _LEVELS.items()} | {logging.CRITICAL: "error"}
_RECORD_KEYS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


@dataclass(frozen=True, slots=True)
class LogSettings(Settings):
    """What the daemon writes to its standard error."""

    level: Level = setting("info", "Minimum level.")
    format: Format = setting("logfmt", "Line format.")


_PRIORITIES = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}
"""Of the journal, by level (syslog(3))."""


def is_journal(descriptor: int = 2) -> bool:
    """Return whether standard error is the journal (JOURNAL_STREAM of systemd.exec(5))."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def error_lines(text: str) -> str:
    """Return lines for standard error; the journal gets their priority."""
    if not is_journal():
        return text
    prefix = f"<{_PRIORITIES[logging.ERROR]}>"
    return "".join([f"{prefix}{line}" for line in text.splitlines(keepends=True)])


class LineLimit(logging.Filter):
    """Lets pass `MAX_LINES` a minute of one kind: the lines that one place of the code logs.

    How many were left out is logged with the first line of any kind after that minute. Text from outside, such as the
    UUIDs of a page, may change with each sample.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock, self._ends = clock, -math.inf
        self._lines: dict[tuple[str, int], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written."""
        if (now := self._clock()) >= self._ends:
            before, self._lines, self._ends = self._lines, {}, now + LIMIT_SECONDS
            for (path, line), count in before.items():
                if count > MAX_LINES:
                    log.warning(
                        f"lines of the log were left out: more than {MAX_LINES} of one kind in a minute",
                        extra={"lines": count - MAX_LINES, "code": f"{Path(path).name}:{line}"},
                    )
        kind = record.pathname, record.lineno
        self._lines[kind] = self._lines.get(kind, 0) + 1
        return self._lines[kind] <= MAX_LINES


def setup(level: Level = "info", format: Format = "logfmt") -> None:
    """Send everything that is logged in this process to stderr, from `level` up."""
    handler = logging.StreamHandler()
    if level != "debug":
        handler.addFilter(LineLimit())
    formatter = _Json() if format == "json" else _Logfmt()
    handler.setFormatter(_Prioritized(formatter) if is_journal() else formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS[level])
    for chatty, least in (("asyncio", logging.WARNING), ("uvicorn", logging.ERROR)):  # it warns of invalid requests
        logging.getLogger(chatty).setLevel(logging.DEBUG if level == "debug" else least)


def _fields(record: logging.LogRecord, formatter: logging.Formatter) -> dict[str, object]:
    when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    fields: dict[str, object] = {
        "time": when.replace("+00:00", "Z"),
        "level": _NAMES.get(record.levelno, record.levelname.lower()),
        "logger": record.name,
        "msg": record.getMessage(),
    }
    fields.update((key, value) for key, value in vars(record).items() if key not in _RECORD_KEYS)
    if record.exc_info:
        fields["exception"] = formatter.formatException(record.exc_info)
    return fields


class _Logfmt(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_quoted(str(value))}" for key, value in _fields(record, self).items())


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return escaped(json.dumps(_fields(record, self), default=str, ensure_ascii=False))


class _Prioritized(logging.Formatter):
    """Begins each line with the priority that the journal stores (sd-daemon(3))."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self._formatter = formatter

    def format(self, record: logging.LogRecord) -> str:
        return f"<{_PRIORITIES.get(record.levelno, 6)}>{self._formatter.format(record)}"


def _quoted(text: str) -> str:
    if text and text.isprintable() and not any(c in ' "=\\' for c in text):
        return text
    return escaped(json.dumps(text, ensure_ascii=False))
