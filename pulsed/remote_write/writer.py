"""Sends the series of a page to a server at an interval: a queue of two minutes, and retries.

One task reads pages and fills the queue, another sends. What is too old, or too much, is dropped and counted. Must not
depend on what the series mean.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pulsed import __version__
from pulsed.http.credentials import BadCredentials, BadTlsFiles, ClientTls, basic_authorization, masked, read_token
from pulsed.pauses import Backoff, aligned_sleep, within
from pulsed.remote_write.messages import HEADERS, MEDIA_TYPE, STALE, encoded_labels, message, values
from pulsed.remote_write.settings import RemoteWriteSettings

if TYPE_CHECKING:
    from pulsed.http.client import Answer, HttpClient

QUEUE_SECONDS = 120.0
"""How long a message is tried."""

QUEUE_BYTES = 256 * 2**20
"""Size of all waiting messages; the oldest are dropped."""

MESSAGE_SAMPLES = 2000
"""Samples of a message, as Prometheus sends them."""

_TIMEOUT_SECONDS = 10.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0
_END_SECONDS = 2.0
_REFUSAL_BYTES = 64 * 1024
_TOO_MANY_REQUESTS = 429

ReadPages = Callable[[], AsyncIterator[bytes]]
"""Reads all series, as pages in the text format without timestamps, of which no series is on two."""

log = logging.getLogger(__name__)


class _NotDelivered(Exception):
    """No answer came; the text goes behind the name of the server."""


@dataclass(frozen=True, slots=True)
class _Message:
    settings: RemoteWriteSettings
    body: bytes
    samples: int
    until: float


class RemoteWriter:
    """Sends series until its task is cancelled.

    Attributes:
        sent: samples that the server took; None before a server is configured.
        dropped: samples that were not delivered, by reason: `expired`, `full` or `refused`.
    """

    def __init__(self, read: ReadPages, node: Callable[[], str]) -> None:
        self._read, self._node = read, node
        self._settings = self._used = RemoteWriteSettings()
        self._is_changed = asyncio.Event()
        self._queue: deque[_Message] = deque()
        self._bytes = 0
        self._is_filled, self._is_empty = asyncio.Event(), asyncio.Event()
        self._series: dict[bytes, bytes] = {}
        self._failure = ""
        self.sent: int | None = None
        self.dropped: Counter[str] = Counter(dict.fromkeys(("expired", "full", "refused"), 0))

    @property
    def waiting(self) -> int:
        """Samples that wait to be sent."""
        return sum(each.samples for each in self._queue)

    def configure(self, settings: RemoteWriteSettings) -> None:
        """Send by these settings from the next samples on; what waits is sent by those before."""
        if settings != self._settings:
            self._settings = settings
            self._is_changed.set()
        if settings.url is not None and self.sent is None:
            self.sent = 0

    async def run(self) -> None:
        """Send until cancelled; then end all series, as far as the server takes that within seconds."""
        sender: asyncio.Task[None] | None = None
        try:
            while True:
                self._is_changed.clear()
                if self._settings is not self._used:
                    self._end_series(self._series)
                    self._used, self._series = self._settings, {}
                if self._used.url is None:
                    await self._is_changed.wait()
                    continue
                sender = sender or asyncio.create_task(self._send_all())
                await self._take_samples()
                await aligned_sleep(self._used.interval)
        finally:
            if sender is not None:
                await self._stop(sender)

    async def _stop(self, sender: asyncio.Task[None]) -> None:
        self._end_series(self._series)
        try:
            await within(_END_SECONDS, self._is_empty.wait())
        except asyncio.TimeoutError:
            log.warning(
                "samples were not delivered before the end",
                extra={"server": masked(self._used.url or ""), "samples": self.waiting},
            )
        sender.cancel()
        await asyncio.gather(sender, return_exceptions=True)

    async def _take_samples(self) -> None:
        """Queue a sample of each series, and the end of those that are gone."""
        labels = {"job": "pulsed", "instance": self._node(), **self._used.labels}
        extra = {name.encode(): value.encode("utf-8", "replace") for name, value in labels.items()}
        milliseconds = time.time_ns() // 1_000_000
        before, series = self._series, dict[bytes, bytes]()
        samples: list[tuple[bytes, bytes]] = []
        async for page in self._read():
            for name, value in values(page):
                known = before.get(name) or encoded_labels(name, extra)
                series[name] = known
                samples.append((known, value))
                if len(samples) == MESSAGE_SAMPLES:
                    self._put(samples, milliseconds)
                    samples = []
                    await asyncio.sleep(0)
        self._put(samples, milliseconds)
        self._series = series
        self._end_series({name: before[name] for name in before.keys() - series.keys()}, milliseconds)

    def _end_series(self, series: Mapping[bytes, bytes], milliseconds: int | None = None) -> None:
        labels, time_ms = list(series.values()), milliseconds or time.time_ns() // 1_000_000
        for first in range(0, len(labels), MESSAGE_SAMPLES):
            self._put([(each, STALE) for each in labels[first : first + MESSAGE_SAMPLES]], time_ms)

    def _put(self, samples: Sequence[tuple[bytes, bytes]], milliseconds: int) -> None:
        if not samples:
            return
        now = time.monotonic()
        body = message(samples, milliseconds)
        self._queue.append(_Message(self._used, body, len(samples), now + QUEUE_SECONDS))
        self._bytes += len(body)
        while self._queue[0].until < now:
            self._drop("expired")
        while self._bytes > QUEUE_BYTES:
            self._drop("full")
        self._is_empty.clear()
        self._is_filled.set()

    def _drop(self, reason: str) -> None:
        self.dropped[reason] += self._next().samples

    def _next(self) -> _Message:
        first = self._queue.popleft()
        self._bytes -= len(first.body)
        return first

    async def _send_all(self) -> None:
        from pulsed.http.client import HttpClient  # a daemon that sends nothing has no need of it

        client = HttpClient(idle_seconds=2 * QUEUE_SECONDS, refusal_bytes=_REFUSAL_BYTES)
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, random.random)
        try:
            while True:
                if not self._queue:
                    self._is_filled.clear()
                    self._is_empty.set()
                    await self._is_filled.wait()
                first = self._queue[0]
                pause = await self._deliver(client, first)
                if pause is None:
                    backoff.reset()
                elif self._queue and self._queue[0] is first:
                    await asyncio.sleep(max(pause, backoff.next()))
        finally:
            await client.close()

    async def _deliver(self, client: HttpClient, first: _Message) -> float | None:
        """Send the first message of the queue; return the least seconds until it may be tried again, None if done."""
        server = masked(first.settings.url or "")
        try:
            answer = await _post(client, first.settings, first.body)
        except _NotDelivered as error:
            return self._failed(server, str(error))
        is_first = bool(self._queue) and self._queue[0] is first  # the queue may have dropped it meanwhile
        if 200 <= answer.status < 300:
            if is_first:
                self._next()
                self.sent = (self.sent or 0) + first.samples
            if self._failure:
                log.info("remote write works again", extra={"server": server})
                self._failure = ""
            return None
        reason = f"answered {answer.status} {answer.reason} {answer.page[:200].decode('utf-8', 'replace')}".strip()
        if answer.status >= 500 or answer.status == _TOO_MANY_REQUESTS:
            return self._failed(server, reason, float(answer.retry_seconds or 0))
        self._failed(server, reason)
        if is_first:
            self._drop("refused")
        return None

    def _failed(self, server: str, reason: str, pause: float = 0.0) -> float:
        """Log a failure unless it is that of before; drop what has waited for too long."""
        if reason != self._failure:
            log.warning("remote write fails", extra={"server": server, "error": reason})
            self._failure = reason
        while self._queue and self._queue[0].until < time.monotonic():
            self._drop("expired")
        return min(pause, QUEUE_SECONDS)


async def _post(client: HttpClient, settings: RemoteWriteSettings, content: bytes) -> Answer:
    """Send a message once; raises `_NotDelivered`."""
    from pulsed.http.body import BadBody, Body
    from pulsed.http.client import BrokenAnswer, Content, DeadlineMissed, address_of, request_bytes
    from pulsed.http.connection import describe

    parts = urlsplit(settings.url or "")
    headers = {"User-Agent": f"pulsed/{__version__}", **HEADERS, **settings.headers}
    try:
        if settings.bearer_token_file:
            headers["Authorization"] = f"Bearer {read_token(settings.bearer_token_file)}"
        elif parts.username is not None:
            headers["Authorization"] = basic_authorization(unquote(parts.username), unquote(parts.password or ""))
        address = address_of(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl())
        request = request_bytes(address, headers, Content("POST", MEDIA_TYPE, content))
        context = _tls(settings.ca_file or "").context() if address.secure else None
        return await client.get(address, request, Body(_REFUSAL_BYTES), _TIMEOUT_SECONDS, context)
    except (BadCredentials, BadTlsFiles, BadBody) as error:
        raise _NotDelivered(str(error)) from error
    except DeadlineMissed as error:
        raise _NotDelivered(f"did not answer in {_TIMEOUT_SECONDS:g} s") from error
    except (BrokenAnswer, OSError) as error:
        raise _NotDelivered(describe(error)[1]) from error
    except ValueError:  # its text may repeat a header
        raise _NotDelivered("cannot be sent this request: look for line breaks in the URL and headers") from None


@lru_cache(maxsize=2)
def _tls(ca_file: str) -> ClientTls:
    """Return the same contexts for all requests, because a connection is kept for its context."""
    return ClientTls(ca_file)
