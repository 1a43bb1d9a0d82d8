"""Files of the days (UTC) in `state_dir`: lines are added to that of today, and old days are removed."""

from __future__ import annotations

import calendar
import logging
import math
import time
from collections.abc import Sequence
from pathlib import Path

from pulsed.durations import DAY
from pulsed.regular_file import FOLDER_MODE, append_lines

log = logging.getLogger(__name__)


class DayFiles:
    """`NAME-DAY.ndjson`, a line of JSON for each entry.

    Attributes:
        pattern: their path, for messages.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._unremovable: set[Path] = set()
        self.pattern = folder / f"{name}-DAY.ndjson"

    def append(self, lines: Sequence[bytes]) -> None:
        """Add lines to the file of today; raises OSError, and then none of them is there."""
        self._folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        path = self._folder / time.strftime(f"{self._name}-%Y-%m-%d.ndjson", time.gmtime())
        append_lines(path, b"\n".join(lines) + b"\n")

    def paths(self) -> list[Path]:
        """Return the files, the oldest first."""
        try:
            return sorted(self._folder.glob(f"{self._name}-????-??-??.ndjson"))
        except OSError as error:
            log.warning("state_dir cannot be listed", extra={"path": str(self._folder), "error": str(error)})
            return []

    def end_of(self, path: Path) -> float:
        """Return the Unix time until which lines were added to a file; infinity of a name without a date."""
        try:
            return calendar.timegm(time.strptime(path.stem, f"{self._name}-%Y-%m-%d")) + DAY
        except ValueError:
            return math.inf

    def remove_old(self, seconds: float, max_bytes: float = math.inf) -> None:
        """Remove the oldest files beyond an age or size, never the newest; what cannot be removed is logged once."""
        room, oldest = max_bytes, time.time() - seconds
        for number, path in enumerate(reversed(self.paths())):
            try:
                room -= path.lstat().st_size
                if number and (self.end_of(path) < oldest or room < 0):
                    path.unlink()
            except OSError as error:
                if path not in self._unremovable:
                    log.warning("an old file in state_dir cannot be removed", extra={"error": str(error)})
                self._unremovable.add(path)
