"""The files of the history: the minutes of the last day, so that a restart loses none but its own."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from pulsed.daemon.day_files import DayFiles
from pulsed.daemon.state_file import WriteStatus
from pulsed.durations import DAY, MINUTE
from pulsed.json_text import json_bytes
from pulsed.present.api.day_history import DayMinute
from pulsed.regular_file import open_regular

log = logging.getLogger(__name__)

MAX_GPUS = 64
"""Minutes of more are not written: some 60 MB a day."""

_MAX_LINE_BYTES = 4 * 2**20

WAITING = 100
"""Minutes that wait to be written; the oldest is dropped."""


class HistoryFiles:
    """`history-DAY.ndjson`: the minutes of a day (UTC), one per line and target; those of the last day are kept.

    Attributes:
        status: whether minutes are written.
    """

    def __init__(self, folder: Path) -> None:
        self._files = DayFiles(folder, "history")
        self._waiting: deque[bytes] = deque(maxlen=WAITING)
        self.status = WriteStatus(self._files.pattern, "minutes of the history")

    def add(self, minute: DayMinute) -> None:
        """Let a minute wait to be written."""
        self._waiting.append(json_bytes(minute.dump()))

    def write(self) -> None:
        """Write the waiting rows; after a failure they wait for the next call."""
        lines = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if not lines:
            return
        try:
            self._files.append(lines)
        except OSError as error:
            self._waiting.extendleft(reversed(lines))
            self.status.failed(error)
            return
        self.status.succeeded()
        self._files.remove_old(DAY)

    def read(self) -> Iterator[DayMinute]:
        """Yield the minutes of the last day, the oldest first; what cannot be read is left out."""
        oldest = (time.time() - DAY) / MINUTE
        for path in self._files.paths():
            try:
                with open(open_regular(path, follow_links=False), "rb") as file:
                    for line in iter(lambda: file.readline(_MAX_LINE_BYTES), b""):
                        minute = _minute_of(line)
                        if minute is not None and minute.minute >= oldest:
                            yield minute
            except OSError as error:
                log.warning("minutes of the history cannot be read", extra={"path": str(path), "error": str(error)})


def _minute_of(line: bytes) -> DayMinute | None:
    try:
        saved: Any = orjson.loads(line)
        return DayMinute.load(saved)
    except (ValueError, RecursionError):  # torn by a power cut
        return None
