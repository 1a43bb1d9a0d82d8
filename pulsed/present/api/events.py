"""What happens, as it happens: server-sent events for any number of readers that may be slow.

An event is written once and its bytes are shared by all who get it; while nobody listens nothing is written at all. No
reader can hold anything up: each has a queue that is bounded in number and bytes, and when it is full the oldest ticks
go first, changes last, and the reader is told how many it has lost. One that reads nothing for long is cut off.

The format is WHATWG's (HTML, section 9.2). Knows ASGI messages, but no framework.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pulsed.compute.tick import ComputedTick
from pulsed.present.api.event_documents import (
    CHANGES,
    KINDS,
    TICK,
    Change,
    Document,
    change_document,
    encoded,
    gpu_document,
)
from pulsed.present.api.event_queue import MAX_QUEUED, Event, Subscriber
from pulsed.present.gpu_keys import names_of
from pulsed.present.rfc3339 import rfc3339

if TYPE_CHECKING:
    from pulsed.present.asgi import Receive, Send

log = logging.getLogger(__name__)

MAX_SUBSCRIBERS = 32
HEARTBEAT_SECONDS = 15.0
"""Something is sent at least so often, so that proxies keep the connection and both sides notice its end."""

PATIENCE_SECONDS = 30.0
"""A reader whose queue has been full for so long, and that has taken nothing, is cut off."""

RETRY_SECONDS = 2.0
"""How long a browser waits before it connects again."""

CLOSING_SECONDS = 0.3
"""How long a stream may take to end; less than the server leaves its connections when it stops."""

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Besides the type: nobody keeps it, and nginx passes it on at once."""

_HEARTBEAT = b": nothing happened for a while\n\n"


class TooManySubscribers(Exception):
    """All places are taken, or the daemon ends: try again later."""


class EventBroadcaster:
    """Hands out what happens.

    Args:
        here: gives this process's node, for GPUs whose source does not say where they are.
        max_subscribers: readers at the same time.
        heartbeat: seconds without an event after which a comment is sent.
        patience: seconds after which a reader that takes nothing from a full queue is cut off.
        max_queued: how many events may wait for a reader.
        now: a clock that never steps, seconds.
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
        self._closed = False

    @property
    def subscribers(self) -> Sequence[Subscriber]:
        """All readers."""
        return tuple(self._subscribers)

    def publish(self, tick: ComputedTick) -> None:
        """Tell all readers of a tick, and of the changes that it brought. Waits for nobody and never fails."""
        if not self._subscribers:
            # So that who comes back sees how much there was.
            self._number += 1 + len(tick.changes) + len(tick.health_changes)
            return
        canonical = tick.canonical
        head = {"time": rfc3339(canonical.time), "target": canonical.target}

        def written(gpu: str | None) -> Document | None:
            rows = zip(canonical.devices, canonical.readings, tick.results, strict=True)
            chosen = [gpu_document(*row, self._here()) for row in rows if gpu is None or gpu in names_of(row[0])]
            return {**head, "gpus": chosen} if chosen or gpu is None else None

        self._hand_out(TICK, written)
        for find in CHANGES.values():
            for change in find(tick):
                self.announce(change)

    def announce(self, change: Change) -> None:
        """Tell all readers of a change."""
        document = change_document(change, self._here())
        names = names_of(change.device)
        self._hand_out(change.kind, lambda gpu: document if gpu is None or gpu in names else None)

    @contextmanager
    def subscribed(self, kinds: Collection[str] = KINDS, gpu: str | None = None) -> Iterator[Subscriber]:
        """Have a place.

        Args:
            kinds: what is wanted of `KINDS`.
            gpu: the only GPU that is of interest, as a person calls it; None: all.

        Raises:
            TooManySubscribers: there is none.
        """
        if self._closed or len(self._subscribers) >= self._max_subscribers:
            raise TooManySubscribers
        subscriber = Subscriber(kinds, gpu, self._max_queued)
        self._subscribers[subscriber] = None
        try:
            yield subscriber
        finally:
            del self._subscribers[subscriber]

    async def serve(self, subscriber: Subscriber, receive: Receive, send: Send) -> None:
        """Send a subscriber's events as the body of an answer that has begun, until either side ends it."""
        sending = asyncio.create_task(self._send(subscriber, send))
        leaving = asyncio.create_task(_gone(receive))
        subscriber.cut = sending.cancel
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
        """End all streams, a little later also those that nobody reads, and let nobody in any more."""
        self._closed = True
        for subscriber in self._subscribers:
            subscriber.end()
            asyncio.get_running_loop().call_later(CLOSING_SECONDS, subscriber.cut)

    def _hand_out(self, kind: str, written: Callable[[str | None], Document | None]) -> None:
        """Queue an event with all who want it, written once for each GPU that somebody asks for."""
        self._number += 1
        now = self._now()
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
                log.warning("a reader of /events was cut off: it takes nothing", extra={"seconds": self._patience})
                subscriber.cut()

    async def _send(self, subscriber: Subscriber, send: Send) -> None:
        data = f"retry: {RETRY_SECONDS * 1000:.0f}\n\n".encode()
        while True:
            await send({"type": "http.response.body", "body": data, "more_body": True})
            await subscriber.wait(self._heartbeat)
            if subscriber.ended:
                break
            data = subscriber.take() or _HEARTBEAT
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    """Wait until the client has gone; what it may send is nothing to us."""
    while (await receive())["type"] != "http.disconnect":
        pass
