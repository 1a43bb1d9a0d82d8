"""The state of all features in `state_dir`: restored at start, written while the daemon runs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from pulsed.background_tasks import aligned_sleep
from pulsed.daemon.accounts import AccountsFeature
from pulsed.daemon.feature import Feature, FeatureParts, Section
from pulsed.daemon.state_file import Draft, StateFile, WriteStatus
from pulsed.json_text import as_text
from pulsed.model.clocks import Monotonic

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""Seconds until a change of a section's mark is written."""

WRITE_SECONDS = 60.0
"""Seconds between two writes of content with an unchanged mark, such as the sums of running accounts."""


class StateFolder(Feature):
    """The sections of all features, in one file. Without `state_dir`, nothing is kept."""

    name = "state"

    def __init__(self, parts: FeatureParts) -> None:
        self._features = parts.features
        self._accounts = parts.feature(AccountsFeature)
        folder = parts.active.config.state_dir
        self._file = StateFile(Path(folder)) if folder else None
        self._saved: dict[str, object] = {}
        self._written_marks: Sequence[object] = ()
        self._written_at = 0.0

    def restore(self) -> None:
        """Restore the sections of an earlier run; one that is not valid costs only itself."""
        if self._file is None:
            return
        saved, problems = self._file.load(), []
        for section in self._sections():
            try:
                if section.name in saved:
                    section.restore(saved[section.name])
                    self._saved[section.name] = saved[section.name]
            except ValueError as error:
                problems.append(f"{section.name}: {error}")
        if problems:
            self._file.set_aside("; ".join(problems))

    async def run(self) -> None:
        """Write what has changed, until cancelled."""
        while self._file is not None:
            await aligned_sleep(LOOK_SECONDS)
            marks, now = self._marks(), time.monotonic()
            if marks != self._written_marks or now - self._written_at >= WRITE_SECONDS:
                self._written_at = now
                await asyncio.to_thread(self._write, self._file, marks, self._draft(self._file))

    def save(self) -> None:
        """Write everything."""
        if self._file is not None:
            self._write(self._file, self._marks(), self._draft(self._file))

    def metrics(self, now: Monotonic) -> Iterator[Metric]:
        """Yield the families of the files; none without `state_dir`."""
        if self._file is not None and (ended := self._accounts.ended_files) is not None:
            statuses = [status for feature in self._features.values() for status in feature.statuses()]
            yield from state_families((self._file.status, *statuses), ended.dropped)

    def _sections(self) -> Iterator[Section]:
        for feature in self._features.values():
            yield from feature.sections()

    def _marks(self) -> Sequence[object]:
        return [section.mark() for section in self._sections()]

    def _draft(self, file: StateFile) -> Draft:
        """Return all sections; one that fails, because of an error in pulsed, stays as it was and costs no other."""
        for section in self._sections():
            try:
                self._saved[section.name] = as_text(section.save())
            except Exception:  # of a feature's code: the other sections are written all the same
                log.exception(
                    "internal error in a section of the state; please report it", extra={"section": section.name}
                )
        return file.draft(dict(self._saved))

    def _write(self, file: StateFile, marks: Sequence[object], draft: Draft) -> None:
        if file.save(draft):
            self._written_marks = marks


def state_families(statuses: Sequence[WriteStatus], lost_accounts: int) -> Iterator[Metric]:
    """Yield the families of files.

    Args:
        lost_accounts: accounts of ended owners that were never written.
    """
    up = GaugeMetricFamily("pulsed_state_up", "1 while the file in state_dir can be written", labels=["file"])
    for status in statuses:
        up.add_metric([status.name], int(not status.is_failing))
    yield up
    yield CounterMetricFamily(
        "pulsed_state_lost_accounts",
        "Accounts of ended owners dropped because too many were waiting to be written",
        value=lost_accounts,
    )
