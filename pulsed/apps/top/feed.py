"""Reads a daemon's answers in a thread: regular requests, and the requests of the shown view.

All texts are made safe for a terminal here, once, as they arrive.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlencode

from pulsed.apps.daemon_client import RequestRefused, all_jobs
from pulsed.errors import PulsedError
from pulsed.present.terminal.model import SUMMARY_FIELDS, Answers, Gpu
from pulsed.printable import clean, cleaned

SLOW_SECONDS = 5.0
"""Time between two requests of jobs and of the host, and the longest between two of a daemon that does not answer."""

REST = 4.0
"""Least time between requests, as a multiple of the time that they took: large answers are read less often."""

EVENTS = 300
POINTS = 120
"""Points of a history."""

_SUMMARY = f"/gpus?{urlencode({'view': 'summary', 'fields': ','.join(SUMMARY_FIELDS)}, safe=',')}"


class Requests(Protocol):
    """A client of a daemon, as `DaemonClient`."""

    def json(self, path: str) -> Any:
        """Return a JSON document; raises `PulsedError`."""


class Connection(NamedTuple):
    """A client, and what its daemon is called."""

    client: Requests
    label: str


class HistoryWanted(NamedTuple):
    """Which history is needed."""

    gpus: tuple[Gpu, ...]
    fields: tuple[str, ...]
    seconds: float


class Wanted(NamedTuple):
    """What the shown view needs besides the summary."""

    detail: Gpu | None = None
    history: HistoryWanted | None = None
    events: bool = False
    jobs: bool = False


class Feed:
    """Reads a daemon.

    Args:
        connect: finds the daemon; called in the thread, again after `PulsedError`.
        label: shown until it is found.
        interval: seconds between two summaries.
    """

    def __init__(self, connect: Callable[[], Connection], label: str, interval: float = 1.0) -> None:
        self.answers = Answers(clean(label))
        self._connect, self._interval = connect, interval
        self._connection: Connection | None = None
        self._wanted = Wanted()
        self._due: dict[str, float] = {}
        self._wake, self._is_over = threading.Event(), False
        self._failures = 0

    def start(self, changed: Callable[[], None]) -> None:
        """Start to read; `changed` is called in the thread when there is something new."""
        threading.Thread(target=self._run, args=(changed,), name="feed", daemon=True).start()

    def stop(self) -> None:
        """End the thread after its current request."""
        self._is_over = True
        self._wake.set()

    def want(self, requests: Wanted) -> None:
        """Set what is needed besides the summary; something new is requested at once."""
        if requests != self._wanted:
            self._wanted = requests
            for name in ("detail", "history", "events", "jobs"):
                self._due.pop(name, None)
            self._wake.set()

    def poll(self) -> None:
        """Make the requests that are due; an error is part of the answers."""
        try:
            if self._connection is None:
                self._connection = self._connect()
                self.answers = replace(self.answers, label=clean(self._connection.label))
            self._read(self._connection.client)
            self._failures = 0
        except PulsedError as error:
            self._failures += 1
            self.answers = replace(self.answers, error=clean(str(error)))
        except (KeyError, TypeError, ValueError, IndexError, RecursionError) as error:
            self._failures += 1
            message = f"{self.answers.label}: the answer is not as this version of pulsed expects ({error!r})"
            self.answers = replace(self.answers, error=clean(message))

    def _run(self, changed: Callable[[], None]) -> None:
        while not self._is_over:
            begun = time.monotonic()
            self._wake.clear()
            self.poll()
            changed()
            pause = min(self._interval * 2**self._failures, max(SLOW_SECONDS, self._interval))
            used = time.monotonic() - begun
            self._wake.wait(max(pause - used, REST * used, 0.01))

    def _read(self, client: Requests) -> None:
        begun = time.monotonic()
        if self._is_due("summary", self._interval * 0.9, begun):
            summary = _read(client, _SUMMARY)
            summary["gpus"], summary["fields"], summary["stale"]
            now = time.monotonic()
            before = self.answers.summary
            if before is not None and before["sample_time"] == summary["sample_time"]:
                before = self.answers.before
            self.answers = replace(
                self.answers, error="", summary=summary, before=before, arrived=now, seconds=now - begun
            )
        requests = self._wanted
        if requests.detail is not None and self._is_due("detail", self._interval * 0.9, begun):
            self._read_detail(client, requests.detail)
        step = 0.0 if requests.history is None else max(requests.history.seconds / POINTS, self._interval)
        if requests.history is not None and self._is_due("history", step * 0.9, begun):
            self._read_history(client, requests.history)
        if requests.events and self._is_due("events", self._interval * 0.9, begun):
            document = _read(client, f"/events/recent?limit={EVENTS}")
            self.answers = replace(self.answers, events=tuple(document["changes"]))
        if requests.jobs and self._is_due("jobs", SLOW_SECONDS, begun):
            document = all_jobs(self.answers.label, lambda path: _read(client, path), "&state=running")
            processes = _read(client, "/processes")
            shown = tuple(processes["processes"]) if processes["published"] else None
            self.answers = replace(self.answers, jobs=tuple(document["jobs"]), processes=shown)
        if self._is_due("host", SLOW_SECONDS, begun):
            host = _read(client, "/host")
            version = self.answers.version or _read(client, "/version")["version"]
            self.answers = replace(self.answers, host=host, version=version)

    def _read_detail(self, client: Requests, gpu: Gpu) -> None:
        path, query = f"/gpus/{quote(gpu.name, safe='')}", urlencode({"node": gpu.node})
        document = _read_if_there(client, f"{path}?{query}")
        reason = _read_if_there(client, f"{path}/class?{query}")
        self.answers = replace(self.answers, details={gpu: document}, class_reasons={gpu: reason})

    def _read_history(self, client: Requests, request: HistoryWanted) -> None:
        if not self.answers.kept_fields:
            kept = frozenset(_read(client, "/config")["history"]["fields"])
            self.answers = replace(self.answers, kept_fields=kept)
        fields = tuple(name for name in request.fields if name in self.answers.kept_fields)
        history = _read(client, _history_path(request._replace(fields=fields))) if fields else None
        self.answers = replace(self.answers, history=history)

    def _is_due(self, name: str, pause: float, now: float) -> bool:
        """Return whether a request is due, and set when the next one is."""
        if now < self._due.get(name, 0.0):
            return False
        self._due[name] = now + pause
        return True


def _read(client: Requests, path: str) -> Any:
    """Return a document without anything in its texts that a terminal interprets."""
    return cleaned(client.json(path))


def _read_if_there(client: Requests, path: str) -> Any:
    """Return a document; an empty one if the daemon has none, such as for a GPU that is gone."""
    try:
        return _read(client, path)
    except RequestRefused as error:
        if error.status != 404:
            raise
        return {}


def _history_path(request: HistoryWanted) -> str:
    nodes = {gpu.node for gpu in request.gpus}
    query = {
        "gpu": ",".join(gpu.name for gpu in request.gpus),
        "fields": ",".join(request.fields),
        "seconds": f"{request.seconds:g}",
        "points": str(POINTS),
        **({"node": next(iter(nodes))} if len(nodes) == 1 else {}),
    }
    return f"/history?{urlencode(query, safe=',')}"
