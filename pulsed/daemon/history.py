"""Recent samples of every GPU and the minutes of a day in memory, the files of the minutes, and their routes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from pulsed.background_tasks import aligned_sleep
from pulsed.daemon.day_files import DayFiles
from pulsed.daemon.feature import Feature, FeatureParts
from pulsed.daemon.state_file import WriteStatus
from pulsed.durations import DAY, MINUTE
from pulsed.json_text import json_bytes
from pulsed.model.result import Removal
from pulsed.model.tick import Tick
from pulsed.present.api.day_history import DayHistory, DayMinute
from pulsed.present.api.history import History
from pulsed.regular_file import open_regular

if TYPE_CHECKING:
    from fastapi import APIRouter

log = logging.getLogger(__name__)

MAX_GPUS = 64
"""Minutes of more are not written: some 60 MB a day."""

_MAX_LINE_BYTES = 4 * 2**20


class HistoryFiles(DayFiles):
    """`history-DAY.ndjson`: the minutes of a day (UTC), one per line and target; the last day's minutes are kept."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "history", "minutes of the history", lambda: (DAY, inf))

    def read(self) -> Iterator[DayMinute]:
        """Yield the minutes of the last day, the oldest first; what cannot be read is left out."""
        oldest = (time.time() - DAY) / MINUTE
        for path in self.paths():
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


class HistoryFeature(Feature):
    """Keeps samples by the section `history` of the start.

    Attributes:
        files: the files of the minutes; None without `state_dir`.
    """

    name = "history"

    def __init__(self, parts: FeatureParts) -> None:
        config = parts.active.config
        settings, folder = config.history, config.state_dir
        self._store, self._history = parts.store, History(settings.seconds, settings.max_bytes, settings.fields)
        self._day = DayHistory(self._history.fields, settings.day_max_bytes)
        self.files = HistoryFiles(Path(folder)) if folder else None

    def take_tick(self, tick: Tick) -> None:
        """Keep the samples of a tick, and the minute that it ends."""
        minute = self._day.add(tick, self._history.add(tick))
        if minute is not None and self.files is not None and self._day.gpus <= MAX_GPUS:
            self.files.add(json_bytes(minute.dump()))

    def forget(self, removal: Removal) -> None:
        """Hide the samples of a GPU."""
        self._history.forget(removal.device)
        self._day.forget(removal.device)

    async def run(self) -> None:
        """Read the minutes of earlier runs, and write new ones, until cancelled."""
        files = self.files
        if files is None:
            return
        self._day.continue_from(await asyncio.to_thread(lambda: self._day.earlier(files.read())))
        while True:
            await aligned_sleep(MINUTE)
            await asyncio.to_thread(files.write)

    def save(self) -> None:
        """Write the minutes that wait."""
        if self.files is not None:
            self.files.write()

    def statuses(self) -> Iterator[WriteStatus]:
        """Yield whether minutes are written."""
        if self.files is not None:
            yield self.files.status

    def routes(self) -> Iterator[APIRouter]:
        """Yield the routes of samples."""
        from pulsed.present.api.routes.history import history_router

        yield history_router(self._store, self._history, self._day)
