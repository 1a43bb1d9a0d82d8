"""Reads a daemon's answers in a thread: regular requests, and the requests of the shown view.

All texts are made safe for a terminal here, once, as they arrive.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlencode

from pulsed.apps.daemon_client import RequestRefused, all_jobs
from pulsed.errors import PulsedError
from pulsed.present.terminal.model import SUMMARY_FIELDS, Answers
from pulsed.printable import clean, cleaned

SLOW_SECONDS = 5.0
"""Time between two requests of jobs and of the host, and the longest between two of a daemon that does not answer."""

REST = 4.0
"""Least time between requests, as a multiple of the time that they took: large answers are read less often."""

JOBS = "/jobs?state=running"
"""All owners that have a GPU, however many pages they are."""


class Requests(Protocol):
    """A client of a daemon, as `DaemonClient`."""

    def json(self, path: str) -> Any:
        """Return a JSON document; raises `PulsedError`."""


class Connection(NamedTuple):
    """A client, and what its daemon is called."""

    client: Requests
    label: str


class Wanted(NamedTuple):
    """A document: its path, and the least seconds between two requests; None for the interval of the feed."""

    path: str
    pause: float | None = None


ALWAYS: Mapping[str, Wanted] = {
    "summary": Wanted(f"/gpus?{urlencode({'view': 'summary', 'fields': ','.join(SUMMARY_FIELDS)}, safe=',')}"),
    "host": Wanted("/host", SLOW_SECONDS),
    "version": Wanted("/version", inf),
    "config": Wanted("/config", inf),
}
"""What every view needs, by the names of the documents."""


class Feed:
    """Reads a daemon.

    Args:
        connect: finds the daemon; called in the thread, again after `PulsedError`.
        label: shown until it is found.
        interval: seconds between two summaries.
    """

    def __init__(self, connect: Callable[[], Connection], label: str, interval: float = 1.0) -> None:
        self.answers, self.interval = Answers(clean(label)), interval
        self._connect = connect
        self._connection: Connection | None = None
        self._wanted = ALWAYS
        self._due: dict[Wanted, float] = {}
        self._wake, self._is_over = threading.Event(), False
        self._failures = 0

    def start(self, changed: Callable[[], None]) -> None:
        """Start to read; `changed` is called in the thread when there is something new."""
        threading.Thread(target=self._run, args=(changed,), name="feed", daemon=True).start()

    def stop(self) -> None:
        """End the thread after its current request."""
        self._is_over = True
        self._wake.set()

    def want(self, documents: Mapping[str, Wanted]) -> None:
        """Set what is needed in addition, by name; something new is requested at once."""
        wanted = {**ALWAYS, **documents}
        if wanted != self._wanted:
            self._due = {each: due for each, due in self._due.items() if each in wanted.values()}
            self._wanted = wanted
            self._wake.set()

    def poll(self) -> None:
        """Make the requests that are due; an error is part of the answers."""
        try:
            if self._connection is None:
                self._connection = self._connect()
                self.answers = replace(self.answers, label=clean(self._connection.label))
            now = time.monotonic()
            for name, wanted in self._wanted.items():
                if now >= self._due.get(wanted, 0.0):
                    self._due[wanted] = now + 0.9 * (self.interval if wanted.pause is None else wanted.pause)
                    self._read(self._connection.client, name, wanted.path)
            self._failures = 0
        except PulsedError as error:
            self._fail(str(error))
        except (KeyError, TypeError, ValueError, IndexError, RecursionError) as error:
            self._fail(f"{self.answers.label}: the answer is not as this version of pulsed expects ({error!r})")

    def _fail(self, error: str) -> None:
        self._failures += 1
        self.answers = replace(self.answers, error=clean(error))

    def _run(self, changed: Callable[[], None]) -> None:
        while not self._is_over:
            begun = time.monotonic()
            self._wake.clear()
            self.poll()
            changed()
            pause = min(self.interval * 2**self._failures, max(SLOW_SECONDS, self.interval))
            used = time.monotonic() - begun
            self._wake.wait(max(pause - used, REST * used, 0.01))

    def _read(self, client: Requests, name: str, path: str) -> None:
        answers, begun = self.answers, time.monotonic()
        try:
            document = cleaned(
                all_jobs(answers.label, client.json, "&state=running") if path == JOBS else client.json(path)
            )
        except RequestRefused as error:
            if error.status != 404 or name in ALWAYS:
                raise
            document = {}  # such as of a GPU that is gone
        if name == "summary":
            document["gpus"], document["fields"], document["stale"]
            now, before = time.monotonic(), answers.documents.get(name)
            if before is not None and before["sample_time"] != document["sample_time"]:
                answers = replace(answers, before=before)
            answers = replace(answers, error="", arrived=now, seconds=now - begun)
        self.answers = replace(answers, documents={**answers.documents, name: document})
