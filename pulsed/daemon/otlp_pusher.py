"""Sends series to a server at an interval by OTLP: a queue of two minutes, and retries.

One task reads series and fills the queue, another sends. What is too old, or too much, is dropped and counted. Must not
depend on what the series mean, or on how the protocol writes them.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pulsed import __version__
from pulsed.http.credentials import BadCredentials, BadTlsFiles, ClientTls, basic_authorization, masked, read_token
from pulsed.pauses import Backoff, aligned_sleep
from pulsed.present.otlp.encoder import OtlpEncoder, OtlpPlan, Receiver

if TYPE_CHECKING:
    from pulsed.http.client import Answer, HttpClient

QUEUE_SECONDS = 120.0
"""How long a message is tried."""

QUEUE_BYTES = 256 * 2**20
"""Size of all waiting messages; the oldest are dropped."""

PROTOCOL = "otlp"
"""The label of metrics, and the field of logs."""

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0
_END_SECONDS = 2.0
_REFUSAL_BYTES = 64 * 1024

PUSHED = b"""\
# HELP pulsed_push_up 1 while pulsed sends its series itself: `up`, which a scrape has, is not there
# TYPE pulsed_push_up gauge
pulsed_push_up 1
"""
"""A page with the series by which an alert sees a daemon that no longer sends."""

log = logging.getLogger(__name__)


class _NotDelivered(Exception):
    """No answer came; the text goes behind the name of the server."""


@dataclass(frozen=True, slots=True)
class _Message:
    receiver: Receiver
    encoder: OtlpEncoder
    body: bytes
    samples: int
    until: float


class Pusher:
    """Sends series until its task is cancelled.

    Attributes:
        sent: samples that the server took; None before a server is configured.
        dropped: samples that were not delivered, by reason: `expired`, `full` or `refused`.
        failed_reads: how often the series could not be read, or written as messages.
    """

    def __init__(self, encoder: Callable[[OtlpPlan], OtlpEncoder]) -> None:
        self._make_encoder = encoder
        self._plan: OtlpPlan | None = None
        self._used: OtlpPlan | None = None
        self._encoder: OtlpEncoder | None = None
        self._is_changed = asyncio.Event()
        self._queue: deque[_Message] = deque()
        self._bytes = 0
        self._is_filled, self._is_empty = asyncio.Event(), asyncio.Event()
        self._failure = ""
        self.sent: int | None = None
        self.dropped: Counter[str] = Counter(dict.fromkeys(("expired", "full", "refused"), 0))
        self.failed_reads = 0

    @property
    def waiting(self) -> int:
        """Samples that wait to be sent."""
        return sum(each.samples for each in self._queue)

    def configure(self, plan: OtlpPlan | None) -> None:
        """Send by this plan from the next samples on; what waits is sent by the one before. None: send nothing."""
        if plan != self._plan:
            self._plan = plan
            self._is_changed.set()
        if plan is not None and self.sent is None:
            self.sent = 0

    async def run(self) -> None:
        """Send until cancelled; then end all series, as far as the server takes that within seconds."""
        sender: asyncio.Task[None] | None = None
        try:
            while True:
                self._is_changed.clear()
                if self._plan != self._used:
                    self._end_series()
                    self._used = self._plan
                    self._encoder = None if self._plan is None else self._make_encoder(self._plan)
                if self._used is None or self._encoder is None:
                    await self._is_changed.wait()
                    continue
                sender = sender or asyncio.create_task(self._send_all())
                await self._take_samples(self._used, self._encoder)
                await aligned_sleep(self._used.interval)
        finally:
            if sender is not None:
                await self._stop(sender)

    async def _stop(self, sender: asyncio.Task[None]) -> None:
        self._end_series()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._is_empty.wait()
        except TimeoutError:
            log.warning(
                "samples were not delivered before the end",
                extra={"protocol": PROTOCOL, "samples": self.waiting},
            )
        sender.cancel()
        await asyncio.gather(sender, return_exceptions=True)

    async def _take_samples(self, plan: OtlpPlan, encoder: OtlpEncoder) -> None:
        try:
            async for body, samples in encoder.messages():
                self._put(plan.receiver, encoder, body, samples)
        except Exception:
            self.failed_reads += 1
            log.exception("series could not be read", extra={"protocol": PROTOCOL})

    def _end_series(self) -> None:
        if self._used is not None and self._encoder is not None:
            for body, samples in self._encoder.ended():
                self._put(self._used.receiver, self._encoder, body, samples)

    def _put(self, receiver: Receiver, encoder: OtlpEncoder, body: bytes, samples: int) -> None:
        now = time.monotonic()
        self._queue.append(_Message(receiver, encoder, body, samples, now + QUEUE_SECONDS))
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
                try:
                    pause = await self._deliver(client, first)
                except Exception as error:
                    if repr(error) != self._failure:
                        log.exception("a message could not be sent", extra={"protocol": PROTOCOL})
                    pause = self._failed(masked(first.receiver.url), repr(error))
                if pause is None:
                    backoff.reset()
                elif self._queue and self._queue[0] is first:
                    await asyncio.sleep(max(pause, backoff.next()))
        finally:
            await client.close()

    async def _deliver(self, client: HttpClient, first: _Message) -> float | None:
        """Send the first message of the queue; return the least seconds until it may be tried again, None if done."""
        server = masked(first.receiver.url)
        try:
            answer = await _post(client, first)
        except _NotDelivered as error:
            return self._failed(server, str(error))
        is_first = bool(self._queue) and self._queue[0] is first  # the queue may have dropped it meanwhile
        if 200 <= answer.status < 300:
            refused, why = first.encoder.refused(answer.page)
            if is_first:
                self._next()
                self.sent = (self.sent or 0) + first.samples - refused
                self.dropped["refused"] += refused
            if refused:
                self._failed(server, f"refused {refused} samples: {why}")
            elif self._failure:
                log.info("otlp works again", extra={"server": server})
                self._failure = ""
            return None
        reason = f"answered {answer.status} {answer.reason} {answer.page[:200].decode('utf-8', 'replace')}".strip()
        if first.encoder.is_temporary(answer.status):
            return self._failed(server, reason, float(answer.retry_seconds or 0))
        self._failed(server, reason)
        if is_first:
            self._drop("refused")
        return None

    def _failed(self, server: str, reason: str, pause: float = 0.0) -> float:
        """Log a failure unless it is that of before; drop what has waited for too long."""
        if reason != self._failure:
            log.warning("otlp fails", extra={"server": server, "error": reason})
            self._failure = reason
        while self._queue and self._queue[0].until < time.monotonic():
            self._drop("expired")
        return min(pause, QUEUE_SECONDS)


async def _post(client: HttpClient, message: _Message) -> Answer:
    """Send a message once; raises `_NotDelivered`."""
    from pulsed.http.body import BadBody, Body
    from pulsed.http.client import BrokenAnswer, Content, DeadlineMissed, address_of, request_bytes
    from pulsed.http.connection import describe

    receiver, encoder = message.receiver, message.encoder
    parts = urlsplit(receiver.url)
    headers = {"User-Agent": f"pulsed/{__version__}", **encoder.headers, **receiver.headers}
    try:
        if receiver.bearer_token_file:
            headers["Authorization"] = f"Bearer {read_token(receiver.bearer_token_file)}"
        elif parts.username is not None:
            headers["Authorization"] = basic_authorization(unquote(parts.username), unquote(parts.password or ""))
        address = address_of(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl())
        request = request_bytes(address, headers, Content("POST", encoder.media_type, message.body))
        context = _tls(*receiver.certificates, receiver.is_verified).context() if address.secure else None
        return await client.get(address, request, Body(_REFUSAL_BYTES), receiver.timeout, context)
    except (BadCredentials, BadTlsFiles, BadBody) as error:
        raise _NotDelivered(str(error)) from error
    except DeadlineMissed as error:
        raise _NotDelivered(f"did not answer in {receiver.timeout:g} s") from error
    except (BrokenAnswer, OSError) as error:
        raise _NotDelivered(describe(error)[1]) from error
    except ValueError:  # its text may repeat a header
        raise _NotDelivered("cannot be sent this request: look for line breaks in the URL and headers") from None


@lru_cache(maxsize=4)
def _tls(ca_file: str, cert_file: str, key_file: str, is_verified: bool) -> ClientTls:
    """Return the same contexts for all requests, because a connection is kept for its context."""
    return ClientTls(ca_file, cert_file, key_file, is_verified=is_verified)
