"""Server-sent events for any number of subscribers, which may be slow.

An event is encoded once and shared by all its subscribers; without subscribers no tick is encoded. No subscriber
blocks: each has a bounded queue, which drops the oldest ticks first and changes last. A subscriber that reads nothing
for a long time is disconnected.

The format is WHATWG's (HTML, section 9.2). This module must not depend on a web framework.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING

from pulsed.json_text import rfc3339
from pulsed.model.clocks import Monotonic
from pulsed.model.gpu import names_of
from pulsed.model.tick import Tick
from pulsed.present.api.event_documents import CHANGES, KINDS, TICK, Change, change_document, encoded, tick_row
from pulsed.present.api.incident_documents import IncidentLog
from pulsed.present.api.kept_events import MAX_QUEUED, Event, RecentChanges, Subscriber
from pulsed.present.api.schema import Document
from pulsed.present.settings import HEARTBEAT_SECONDS, MAX_SUBSCRIBERS

if TYPE_CHECKING:
    from pulsed.present.api.gpu_columns import ColumnReader
    from pulsed.present.asgi import Receive, Send

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 30.0
"""Time after which a subscriber that reads nothing from a full queue is disconnected."""

RETRY_SECONDS = 2.0
"""Time before a browser reconnects."""

CLOSING_SECONDS = 0.3
"""Time for a stream to end; less than the server's own timeout when it stops."""

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Headers besides the type: no caching, and no buffering in nginx."""

_NOT_READING = "a subscriber of /events was disconnected: it does not read"
_HEARTBEAT = b": nothing happened for a while\n\n"


class TooManySubscribers(Exception):
    """The limit of subscribers is reached, or the daemon is stopping: try again later."""


class EventBroadcaster:
    """Broadcaster of ticks and changes.

    Args:
        here: returns this process's node, for GPUs whose source does not name one.
        heartbeat: seconds without an event after which a comment is sent.
        patience: seconds after which a subscriber that reads nothing from a full queue is disconnected.
    """

    def __init__(
        self,
        here: Callable[[], str],
        max_subscribers: int = MAX_SUBSCRIBERS,
        heartbeat: float = HEARTBEAT_SECONDS,
        patience: float = PATIENCE_SECONDS,
        max_queued: int = MAX_QUEUED,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._here, self._max_subscribers, self._now = here, max_subscribers, now
        self._heartbeat, self._patience, self._max_queued = heartbeat, patience, max_queued
        self._subscribers: dict[Subscriber, None] = {}
        self._number = 0
        self.recent = RecentChanges()
        self.incidents = IncidentLog()
        self._closed = False

    @property
    def subscribers(self) -> Sequence[Subscriber]:
        """All subscribers."""
        return tuple(self._subscribers)

    def publish(self, tick: Tick) -> None:
        """Send a tick and its changes to all subscribers. Never blocks, never fails."""

        def written(gpu: str | None) -> Document | None:
            head = {"time": rfc3339(tick.time), "target": tick.target}
            shown = [row for row in tick.gpus if gpu is None or gpu in names_of(row.device)]
            chosen = [tick_row(row.device, row.reading, row.result, self._here()) for row in shown]
            return {**head, "gpus": chosen} if chosen or gpu is None else None

        self._hand_out(TICK, written)
        for find in CHANGES.values():
            for change in find(tick):
                self.announce(change)

    def announce(self, change: Change) -> None:
        """Send a change to all subscribers."""

        def written(gpu: str | None) -> Document | None:
            return change_document(change, self._here()) if gpu is None or gpu in names_of(change.device) else None

        self._hand_out(change.kind, written)
        self.recent.add(self._number, change, self._here())
        self.incidents.add(change)

    @contextmanager
    def subscribed(
        self, kinds: Collection[str] = KINDS, gpu: str | None = None, client: str = ""
    ) -> Iterator[Subscriber]:
        """Subscribe to some of `KINDS`, of one GPU or of all, for the time of the context.

        If the limit is reached, the client with the most streams loses its newest one to a client that has at least two
        less; otherwise raises `TooManySubscribers`.
        """
        if self._closed or (len(self._subscribers) >= self._max_subscribers and not self._make_room(client)):
            raise TooManySubscribers
        subscriber = Subscriber(kinds, gpu, self._max_queued, client)
        self._subscribers[subscriber] = None
        try:
            yield subscriber
        finally:
            self._subscribers.pop(subscriber, None)

    async def serve(
        self, subscriber: Subscriber, receive: Receive, send: Send, columns: ColumnReader | None = None
    ) -> None:
        """Send the events of a subscriber and of columns, as a response that has begun, until either side ends it."""
        sending = asyncio.create_task(self._send(subscriber, send, columns))
        leaving = asyncio.create_task(_gone(receive))
        subscriber.send_with(sending)
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            leaving.cancel()
            ends = await asyncio.gather(sending, leaving, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def close(self) -> None:
        """End all streams, after a timeout also those that are not read, and refuse new subscribers."""
        self._closed = True
        for subscriber in self._subscribers:
            subscriber.end()
            asyncio.get_running_loop().call_later(CLOSING_SECONDS, subscriber.cut)

    def _make_room(self, newest: str) -> bool:
        """Return whether there is room for one more stream of a client; another one may lose one for it."""
        counts = Counter(each.client for each in self._subscribers)
        (client, count), *_ = counts.most_common(1) or [("", 0)]
        if count < counts[newest] + 2:
            return False
        last = next(each for each in reversed(self._subscribers) if each.client == client)
        last.end()
        last.cut()
        del self._subscribers[last]
        return True

    def _hand_out(self, kind: str, written: Callable[[str | None], Document | None]) -> None:
        """Queue an event for its subscribers, encoded once for each GPU that is subscribed to."""
        self._number += 1
        now = Monotonic(self._now())
        events: dict[str | None, Event | None] = {}
        for subscriber in self._subscribers:
            if kind not in subscriber.kinds:
                continue
            if subscriber.gpu not in events:
                document = written(subscriber.gpu)
                data = None if document is None else encoded(kind, document, self._number)
                events[subscriber.gpu] = None if data is None else Event(self._number, data)
            event = events[subscriber.gpu]
            if event is None:
                continue
            subscriber.put(event, tick=kind == TICK, now=now)
            if subscriber.full_since is not None and now - subscriber.full_since >= self._patience:
                log.warning(_NOT_READING, extra={"seconds": self._patience})
                subscriber.cut()

    async def _send(self, subscriber: Subscriber, send: Send, columns: ColumnReader | None) -> None:
        data = f"retry: {RETRY_SECONDS * 1000:.0f}\n\n".encode()
        due = 0.0 if columns is not None else inf
        while True:
            try:
                async with asyncio.timeout(None if columns is None else self._patience):
                    await send({"type": "http.response.body", "body": data, "more_body": True})
            except TimeoutError:
                log.warning(_NOT_READING, extra={"seconds": self._patience})
                return
            data, heartbeat = b"", self._now() + self._heartbeat
            while not data:
                await subscriber.wait(max(0.0, min(due, heartbeat) - self._now()))
                if subscriber.ended:
                    break
                now = Monotonic(self._now())
                data = subscriber.next_chunk()
                if columns is not None and now >= due:
                    data += columns.read(now, time.time())
                    due = now + columns.interval
                if not data and now >= heartbeat:
                    data = _HEARTBEAT
            if subscriber.ended:
                break
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    """Wait until the client disconnects; its messages are ignored."""
    while (await receive())["type"] != "http.disconnect":
        pass
