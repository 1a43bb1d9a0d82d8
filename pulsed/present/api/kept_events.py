"""Events that are kept in memory: the bounded queue of each subscriber, and the last changes for `/events/recent`.

When a queue is full, the oldest ticks are dropped first and changes last; a `lag` event has their number.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Collection, Iterable
from heapq import merge
from itertools import islice
from typing import NamedTuple

from pulsed.json_text import json_bytes
from pulsed.model.clocks import Monotonic
from pulsed.model.gpu import names_of
from pulsed.present.api.event_documents import CHANGE_KINDS, KINDS, Change, change_document, encoded

MAX_QUEUED = 256
MAX_QUEUED_BYTES = 2**20
_SEND_BYTES = 64 * 2**10

MAX_CHANGES = 1000
"""Recent changes of each kind, some 1 kB each: frequent ones displace only their own kind."""

MAX_CHANGES_BYTES = 2 * 2**20
"""Their documents together: names of owners and messages may be long."""


class Event(NamedTuple):
    """An event as bytes, with its number in the order of all events."""

    number: int
    data: bytes


class Subscriber:
    """One subscriber and its queue. `full_since` is the monotonic time since which a full queue was not read."""

    def __init__(
        self,
        kinds: Collection[str] = KINDS,
        gpu: str | None = None,
        max_queued: int = MAX_QUEUED,
        client: str = "",
    ) -> None:
        self.kinds, self.gpu, self.client = frozenset(kinds), gpu, client
        self.lost_ticks = self.lost_changes = 0
        self.full_since: float | None = None
        self.ended = False
        self._sending: asyncio.Task[None] | None = None
        self._max_queued = max_queued
        self._ticks, self._changes = deque[Event](), deque[Event]()
        self._bytes = 0
        self._wake = asyncio.Event()

    @property
    def queued(self) -> tuple[int, int]:
        """Number of queued events, and their bytes."""
        return len(self._ticks) + len(self._changes), self._bytes

    def put(self, event: Event, *, tick: bool, now: Monotonic) -> None:
        """Queue an event; if the queue is full, drop the oldest, ticks before changes. One event always fits."""
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

    def send_with(self, task: asyncio.Task[None]) -> None:
        """Set the task that sends the events."""
        self._sending = task

    def cut(self) -> None:
        """End the stream at once."""
        if self._sending is not None:
            self._sending.cancel()

    def end(self) -> None:
        """End the stream after the queued events."""
        self.ended = True
        self._wake.set()

    async def wait(self, seconds: float) -> None:
        """Wait until an event is queued, or until the timeout."""
        timer = asyncio.get_running_loop().call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    def next_chunk(self) -> bytes:
        """Return queued events in order, up to about 64 KiB, after a `lag` event if any were dropped."""
        parts: list[bytes] = []
        size = 0
        if self.lost_ticks or self.lost_changes:
            lost = {"lost": self.lost_ticks + self.lost_changes, "ticks": self.lost_ticks, "changes": self.lost_changes}
            parts.append(encoded("lag", lost))
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
        return count > 1 and (count > self._max_queued or size > MAX_QUEUED_BYTES)

    def _next(self) -> deque[Event] | None:
        """Return the queue with the oldest event."""
        ticks, changes = self._ticks, self._changes
        if ticks and changes:
            return ticks if ticks[0].number < changes[0].number else changes
        return ticks or changes or None


class KeptChange(NamedTuple):
    """A change as it is kept: its document, encoded, and what it is found by."""

    number: int
    time: float
    names: Collection[str]
    document: bytes


class RecentChanges:
    """The newest changes of each kind, limited in number and bytes. A restart clears them."""

    def __init__(self, max_changes: int = MAX_CHANGES, max_bytes: int = MAX_CHANGES_BYTES) -> None:
        self._max_changes, self._max_bytes = max_changes, max_bytes
        self._kept = {kind: deque[KeptChange]() for kind in CHANGE_KINDS}
        self._bytes = Counter[str]()

    def add(self, number: int, change: Change, here: str) -> None:
        """Keep a change; its number is greater than all before. `here` is as in `change_document`."""
        document = json_bytes({"id": number, "event": change.kind, **change_document(change, here)})
        kept = self._kept[change.kind]
        kept.append(KeptChange(number, change.time, names_of(change.device), document))
        self._bytes[change.kind] += len(document)
        while len(kept) > self._max_changes or self._bytes[change.kind] > self._max_bytes:
            self._bytes[change.kind] -= len(kept.popleft().document)

    def find(self, kinds: Iterable[str], gpu: str | None, since: float, limit: int) -> list[KeptChange]:
        """Return some changes, the newest first, from a Unix time on; of one GPU, by any of its names, or of all."""
        newest_first = merge(*[reversed(self._kept[kind]) for kind in set(kinds)], key=lambda each: -each.number)
        matching = (each for each in newest_first if each.time >= since and (gpu is None or gpu in each.names))
        return list(islice(matching, limit))
