"""One HTTP/1.1 connection: sends a GET and parses the answer as it arrives.

httptools parses messages by RFC 9112; this module adds what a client needs: limits, answers that end with the
connection, and whether the connection can be reused. Must not depend on addresses, redirects, or the content of a page.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast

import httptools

from pulsed.http.body import BadBody, Body

_MAX_HEAD_BYTES = 64 * 1024
_MAX_HEADERS = 256
_CHUNK_FRAMING = 8  # bytes of framing for each byte of the body: a chunk of one byte, sizes with leading zeros
_WANTED = frozenset(
    (b"content-encoding", b"content-length", b"content-type", b"location", b"retry-after", b"transfer-encoding")
)
_MAX_SHOWN = 100


FailureKind = Literal["certificate", "tls", "name", "broken", "connect"]


class DeadlineMissed(Exception):
    """The answer was not complete in time."""


class BrokenAnswer(Exception):
    """No complete answer came over an open connection; its text names what came instead, in a few words."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered.

    Attributes:
        status: 101, or 200 and above.
        reason: the words beside the status, printable.
        location: where a redirect leads, printable, empty without one.
        page: what `Body.end` gave; with another status than 200 its body if the client reads it, else empty.
        retry_seconds: the header Retry-After, if it is a number; None without.
        content_type: the header Content-Type, printable, empty without one.
    """

    status: int
    reason: str
    location: str
    page: bytes
    retry_seconds: int | None = None
    content_type: str = ""


class ClientConnection(asyncio.Protocol):
    """One connection, for one request after the other.

    A request may be given before the connection is established: it is sent at that moment, so that even the answer of a
    server that does not wait for the request is awaited.

    Args:
        lost: called when the connection has ended, or is given up before it is established.
        refusal_bytes: limit of the body of an answer with another status than 200; 0: it is not read.
    """

    def __init__(self, lost: Callable[[ClientConnection], None], refusal_bytes: int = 0) -> None:
        self._lost, self._refusal_bytes = lost, refusal_bytes
        self._transport: asyncio.Transport | None = None
        # Parser and protocol refer to each other; both are released with the connection.
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        # As tolerant of old and home-made servers as other clients are. An answer cannot be taken for that of another:
        # a connection ends with the first byte that no request asked for.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._waiter: asyncio.Future[Answer] | None = None
        self._whole = True
        self._kept = False
        self.idle_since = 0.0

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent: the last answer is whole, and the server keeps the connection open."""
        return self._whole and self._kept and self._transport is not None and not self._transport.is_closing()

    @property
    def silent(self) -> bool:
        """Whether no byte has arrived since the last request."""
        return self._received == 0

    def send(self, request: bytes, body: Body) -> asyncio.Future[Answer]:
        """Send a request.

        Returns:
            A future of the answer: once it is complete, or as soon as the status has come if the body is not read. Its
            errors are BrokenAnswer, DeadlineMissed, BadBody, and the argument of `fail`. A refusal whose body is broken
            or too large is an answer without a body.
        """
        self._request, self._body = request, body
        self._read: Body | None = None  # the body that is read, of a page or a refusal
        self._received = self._body_bytes = self._headers = self._header_bytes = self._status = 0
        self._reason = b""
        self._wanted: dict[bytes, bytes] = {}
        self._whole = self._kept = False
        self._waiter = asyncio.get_running_loop().create_future()
        if self._transport is not None:
            self._transport.write(request)
        return self._waiter

    def expire(self) -> None:
        """End the connection because its time is over."""
        self.fail(DeadlineMissed())

    def fail(self, error: BaseException) -> None:
        """End the connection; a pending answer fails with the error, unless its status is a refusal."""
        if self._status not in (0, 200):
            self._answer(b"")
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self.close()

    def close(self) -> None:
        """End the connection at once: nothing that is still on its way is of use to either side."""
        self._waiter, self._kept = None, False
        if self._transport is not None:
            self._transport.abort()
        else:
            self._lost(self)

    # --- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send what was given meanwhile."""
        self._transport = cast("asyncio.Transport", transport)
        if self._waiter is None or self._waiter.done():  # given up meanwhile
            self._transport.abort()
        else:
            self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Take a piece of an answer, cut anywhere."""
        if self._whole or self._parser is None:
            self.close()  # unrequested data: a server's last words before it closes an idle connection
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            self.fail(error.__context__ or error)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.fail(BrokenAnswer(f"invalid HTTP: {str(error)[:_MAX_SHOWN]}"))
        else:
            # Limits what the parser reports only at its end: a header, a trailer, the extension of a chunk.
            if not self._whole and self._received > _MAX_HEAD_BYTES + (1 + _CHUNK_FRAMING) * self._body_bytes:
                self.fail(_too_large())

    def connection_lost(self, exc: Exception | None) -> None:
        """End the answer, whole or broken."""
        if self._waiter is not None and not self._waiter.done():
            if self._read is not None and exc is None and self._ends_with_the_connection():
                self._complete(self._read)
            else:
                broken = BrokenAnswer(getattr(exc, "strerror", None) or "connection closed")
                broken.__cause__ = exc
                self.fail(broken)
        self._parser = None
        self._waiter = None
        self._lost(self)

    def _ends_with_the_connection(self) -> bool:
        """Return whether nothing but the end of the connection can end the body that is read (RFC 9112, 6.3)."""
        chunked = self._wanted.get(b"transfer-encoding", b"").lower().endswith(b"chunked")
        return not chunked and b"content-length" not in self._wanted

    # --- called by httptools: what these raise stops it, and comes out of its `feed_data`

    def on_message_begin(self) -> None:
        """Take the first byte of an answer, interim ones included."""
        if self._whole:
            raise BrokenAnswer("more than one answer")
        self._reason, self._wanted = b"", {}

    def on_status(self, piece: bytes) -> None:
        """Take words beside the status."""
        self._reason += piece

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header or trailer."""
        self._headers += 1
        self._header_bytes += len(name) + len(value)
        if self._headers > _MAX_HEADERS or self._header_bytes > _MAX_HEAD_BYTES:
            raise _too_large()
        lower = name.lower()
        if lower in _WANTED:
            self._wanted.setdefault(lower, value.strip())

    def on_headers_complete(self) -> None:
        """Take the status, which decides whether the body is read."""
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < 100:
            raise BrokenAnswer(f"invalid HTTP: status {status}")
        if status < 200 and status != 101:
            return  # an interim answer: the final one follows
        self._status = status
        if status != 200 and not self._refusal_bytes:
            self._answer(b"")
            return
        self._read = self._body if status == 200 else Body(self._refusal_bytes)
        encoding = self._wanted.get(b"content-encoding", b"identity")
        length = self._wanted.get(b"content-length", b"")
        # httptools has checked the number.
        announced = int(length) if length.isdigit() else 0
        self._read.begin(_shown(encoding[:_MAX_SHOWN].lower()), announced)

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body, without chunk framing."""
        self._body_bytes += len(data)
        if self._read is not None:
            self._read.feed(data)

    def on_message_complete(self) -> None:
        """The last byte of an answer."""
        if self._status == 0:
            return  # that was an interim answer
        assert self._parser is not None
        self._kept = self._parser.should_keep_alive()
        if self._read is not None:
            self._complete(self._read)
        else:
            self._whole = True

    def _complete(self, body: Body) -> None:
        """Deliver the answer, whose last byte has come."""
        try:
            page = body.end()
        except BadBody as error:
            self.fail(error)
        else:
            self._whole = True
            self._answer(page)

    def _answer(self, page: bytes) -> None:
        if self._waiter is not None and not self._waiter.done():
            reason, location = self._reason[:_MAX_SHOWN], self._wanted.get(b"location", b"")
            retry = self._wanted.get(b"retry-after", b"")[:_MAX_SHOWN]
            seconds = int(retry) if retry.isdigit() else None
            kind = _shown(self._wanted.get(b"content-type", b"")[:_MAX_SHOWN])
            self._waiter.set_result(Answer(self._status, _shown(reason), _shown(location), page, seconds, kind))
            self._waiter = None  # or a kept connection would keep the page too


def _too_large() -> BrokenAnswer:
    return BrokenAnswer(f"a header of more than {_MAX_HEAD_BYTES} bytes or {_MAX_HEADERS} lines")


def _shown(text: bytes) -> str:
    """Return what a server wrote, as a log may hold it."""
    decoded = text.decode("utf-8", "replace")
    return decoded if decoded.isprintable() else "".join(c if c.isprintable() else "?" for c in decoded)


def describe(error: BrokenAnswer | OSError) -> tuple[FailureKind, str]:
    """Return the kind of an error, and a text to put behind the name of the server."""
    cause = error.__cause__ if isinstance(error.__cause__, ssl.SSLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "certificate", f"shows a certificate that is not trusted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return "tls", f"fails in TLS: {(cause.reason or 'error').replace('_', ' ').lower()}"
    if isinstance(error, socket.gaierror):
        return "name", "has a host name that is not known"
    if isinstance(error, BrokenAnswer):
        return "broken", f"broke off the answer ({error})"
    return "connect", f"cannot be reached: {os.strerror(error.errno) if error.errno else 'no connection'}"
