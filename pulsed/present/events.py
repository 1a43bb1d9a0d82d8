"""What happens, as it happens: server-sent events for any number of readers that may be slow.

An event is written once and its bytes are shared by all who get it; while nobody listens nothing is written at all. No
reader can hold anything up: each has a queue that is bounded in number and bytes, and when it is full the oldest ticks
go first, changes last, and the reader is told how many it has lost. One that reads nothing for long is cut off.

The format is WHATWG's (HTML, section 9.2). Knows ASGI messages, but no framework.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from pulsed.compute.tick import ComputedTick, Result
from pulsed.present.history import DERIVED, WORDS, names_of
from pulsed.present.identity import node_of
from pulsed.present.rfc3339 import rfc3339
from pulsed.translate.tick import Device
from pulsed.translate.vocabulary import POSITION, Reading, Value

if TYPE_CHECKING:
    from pulsed.present.front import Receive, Send

log = logging.getLogger(__name__)

MAX_SUBSCRIBERS = 32
MAX_QUEUED = 256
MAX_QUEUED_BYTES = 2**20
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

READINGS = (
    "sm_active_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "memory_used_bytes",
    "power_watts",
    "temperature_celsius",
)
"""The readings that a tick event repeats; all others are in `/gpus`."""

TICK = "tick"

_SEND_BYTES = 64 * 2**10
_HEARTBEAT = b": nothing happened for a while\n\n"

Document = dict[str, Any]


class Change(NamedTuple):
    """Something about a GPU is not as it was.

    Attributes:
        kind: the name of the event.
        device: which GPU.
        time: since when, in Unix seconds.
        document: what has changed; the GPU and the time are added.
    """

    kind: str
    device: Device
    time: float
    document: Document


def _class_changes(tick: ComputedTick) -> Iterator[Change]:
    for change in tick.changes:
        bottleneck = tick.results[change.position].held.bottleneck
        yield Change(
            "workload_class",
            tick.canonical.devices[change.position],
            change.time,
            {"before": change.before, "after": change.after, "bottleneck": bottleneck},
        )


def _health_changes(tick: ComputedTick) -> Iterator[Change]:
    for change in tick.health_changes:
        yield Change(
            "health",
            change.device,
            change.time,
            {
                "check": change.check or None,
                "before": change.before,
                "after": change.after,
                "message": change.message,
                "remedy": change.remedy,
            },
        )


CHANGES: Mapping[str, Callable[[ComputedTick], Iterable[Change]]] = {
    "workload_class": _class_changes,
    "health": _health_changes,
}
"""The kinds of changes, each with what finds them in a tick."""

KINDS: tuple[str, ...] = (TICK, *CHANGES)
"""What a reader may ask for."""


class TooManySubscribers(Exception):
    """All places are taken, or the daemon ends: try again later."""


class _Event(NamedTuple):
    number: int
    data: bytes


class Subscriber:
    """One reader and what waits for it.

    Args:
        kinds: what it wants of `KINDS`.
        gpu: the only GPU that it wants to hear of, as a person calls it; None: all.
        max_queued: how many events may wait.
        max_bytes: and how many bytes.

    Attributes:
        lost_ticks: tick events that it did not get and has not been told of.
        lost_changes: changes, likewise.
        full_since: since when nothing was taken from a full queue, in monotonic seconds; None: it has room.
        ended: whether there will be nothing more.
        cut: ends its stream at once.
    """

    __slots__ = (
        "_bytes", "_changes", "_max_bytes", "_max_queued", "_ticks", "_wake",
        "cut", "ended", "full_since", "gpu", "kinds", "lost_changes", "lost_ticks",
    )  # fmt: skip

    def __init__(
        self,
        kinds: Collection[str] = KINDS,
        gpu: str | None = None,
        max_queued: int = MAX_QUEUED,
        max_bytes: int = MAX_QUEUED_BYTES,
    ) -> None:
        self.kinds, self.gpu = frozenset(kinds), gpu
        self.lost_ticks = self.lost_changes = 0
        self.full_since: float | None = None
        self.ended = False
        self.cut: Callable[[], object] = lambda: None
        self._max_queued, self._max_bytes = max_queued, max_bytes
        self._ticks, self._changes = deque[_Event](), deque[_Event]()
        self._bytes = 0
        self._wake = asyncio.Event()

    @property
    def queued(self) -> tuple[int, int]:
        """How many events wait, and their bytes."""
        return len(self._ticks) + len(self._changes), self._bytes

    def put(self, event: _Event, *, tick: bool, now: float) -> None:
        """Queue an event; when there is no room the oldest go, ticks before changes. One always has room."""
        (self._ticks if tick else self._changes).append(event)
        self._bytes += len(event.data)
        self._wake.set()
        while self._overflows():
            if self.full_since is None:
                self.full_since = now
            if self._ticks:
                self.lost_ticks += 1
            else:
                self.lost_changes += 1
            self._bytes -= len((self._ticks or self._changes).popleft().data)

    def end(self) -> None:
        """There will be nothing more."""
        self.ended = True
        self._wake.set()

    async def wait(self, seconds: float) -> None:
        """Wait until there is something to take, but no longer than this."""
        timer = asyncio.get_running_loop().call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    def take(self) -> bytes:
        """Take what waits, in order, up to some 64 KiB; what was lost is told first."""
        parts: list[bytes] = []
        size = 0
        if self.lost_ticks or self.lost_changes:
            lost = {"lost": self.lost_ticks + self.lost_changes, "ticks": self.lost_ticks, "changes": self.lost_changes}
            parts.append(_written("lag", lost))
            self.lost_ticks = self.lost_changes = 0
        while size < _SEND_BYTES and (queue := self._next()) is not None:
            data = queue.popleft().data
            size += len(data)
            parts.append(data)
        self._bytes -= size
        self.full_since = None
        if not self._ticks and not self._changes:
            self._wake.clear()
        return b"".join(parts)

    def _overflows(self) -> bool:
        count, size = self.queued
        return count > 1 and (count > self._max_queued or size > self._max_bytes)

    def _next(self) -> deque[_Event] | None:
        """The queue with the oldest event."""
        ticks, changes = self._ticks, self._changes
        if ticks and changes:
            return ticks if ticks[0].number < changes[0].number else changes
        return ticks or changes or None


class Events:
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
            chosen = [_row(*row, self._here()) for row in rows if gpu is None or gpu in names_of(row[0])]
            return {**head, "gpus": chosen} if chosen or gpu is None else None

        self._hand_out(TICK, written)
        for find in CHANGES.values():
            for change in find(tick):
                self.announce(change)

    def announce(self, change: Change) -> None:
        """Tell all readers of a change."""
        identity = _identity(change.device, self._here())
        document = {"time": rfc3339(change.time), **identity, **change.document}
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
        events: dict[str | None, _Event | None] = {}
        for subscriber in self._subscribers:
            if kind not in subscriber.kinds:
                continue
            if subscriber.gpu not in events:
                document = written(subscriber.gpu)
                data = None if document is None else _written(kind, document, self._number)
                events[subscriber.gpu] = None if data is None else _Event(self._number, data)
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


def _written(kind: str, document: Document, number: int | None = None) -> bytes:
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {kind}\ndata: {text}\n\n".encode()


def _identity(device: Device, here: str) -> Document:
    entity = device.entity
    return {
        "gpu": entity.gpu,
        "uuid": entity.uuid or None,
        "mig_id": entity.mig_id or None,
        "node": node_of(device, here),
    }


def _row(device: Device, reading: Reading, result: Result, here: str) -> Document:
    row = _identity(device, here)
    for name, (word, _) in WORDS.items():
        row[name] = word(result)
    row["bottleneck"] = result.held.bottleneck
    for name, number in DERIVED.items():
        row[name] = _finite(number(result))
    for name, position in _READINGS:
        row[name] = _finite(reading[position])
    return row


_READINGS = tuple((name, POSITION[name]) for name in READINGS)


def _finite(value: Value) -> Value:
    """JSON has no word for what no gauge reads."""
    try:
        return value if value is not None and isfinite(value) else None
    except OverflowError:
        return None
