"""One HTTP connection: uvicorn's, with an end to what a client may send and how long it may take.

uvicorn itself waits for a request for ever, takes headers and bodies of any size, and cannot check whose certificate a
client has. Per request this costs a few comparisons; time is looked at from outside, once a second (`overdue`).
"""

from __future__ import annotations

import asyncio
import http
from collections.abc import Callable

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from pulsed.config.model import WebSection
from pulsed.present.asgi import CLIENT_NAMES
from pulsed.server.tls_context import Certificate, common_names

MOST_HEADER_BYTES = 64 * 1024
"""Request line and headers of one request; Prometheus sends some 400."""

MOST_BODY_BYTES = 64 * 1024
"""No route takes a body: this much is read and thrown away, so that a client gets its response."""

STUCK_SECONDS = 30.0
"""How long a client may take nothing of what waits for it, or leave a closed connection half open."""

LINGER_SECONDS = 1.0
"""How long a refused client has to read why, before the connection goes."""

Admits = Callable[[Certificate], bool]
"""Returns whether a client is admitted, by its certificate, which TLS has verified."""


class _Refused(Exception):
    """Ends the parsing of a request; the parser raises an error of its own in its place, with this as the context."""

    def __init__(self, status: http.HTTPStatus) -> None:
        super().__init__(status)
        self.status = status


class ServerConnection(HttpToolsProtocol):
    """A connection and its limits; `admits` decides about a client with a certificate once its handshake is done.

    `set_headers` is called before an answer; it sets what all answers have. `active` is the loop time of the last
    request's first byte; before any, of the connection's begin.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        limits: WebSection,
        admits: Admits,
        opened: Callable[[], object],
        set_headers: Callable[[], None],
    ) -> None:
        super().__init__(config=config, server_state=server_state, app_state={})
        self._limits = limits
        self._admits = admits
        self._opened, self._set_headers = opened, set_headers
        self.active = self.loop.time()
        self._since = self.active  # of the request that is awaited or comes in; 0: there is none
        self._in_head = True
        self._head_bytes = 0
        self._body_bytes = 0
        self._shut = False
        self._unsent = 0
        self._moved = self.active

    @property
    def has_requested(self) -> bool:
        """Whether a request was received."""
        return self.cycle is not None

    @property
    def running(self) -> bool:
        """Whether an answer is being made or sent."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, or refuse a client whose certificate has the wrong name."""
        super().connection_made(transport)
        self._opened()
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert() if tls is not None else None
        if not certificate:
            return
        self.app_state[CLIENT_NAMES] = common_names(certificate)
        if not self._admits(certificate):
            self.drop()

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request."""
        if self._shut:  # data that the transport had received before it was stopped
            return
        self._unset_keepalive_if_required()
        self._set_headers()
        if not self._since:
            self._since = self.active = self.loop.time()
        self._head_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return  # the request to upgrade is ignored (RFC 9110, 7.8)
        except httptools.HttpParserError as error:
            refused = error.__context__
            self._refuse(refused.status if isinstance(refused, _Refused) else http.HTTPStatus.BAD_REQUEST)
        else:
            if self._in_head and self._head_bytes > MOST_HEADER_BYTES:
                self._refuse(http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_headers_complete(self) -> None:
        """Have the request answered, unless its head is too large or announces too large a body."""
        if self._head_bytes > MOST_HEADER_BYTES and self._head_size() > MOST_HEADER_BYTES:
            raise _Refused(http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if self.parser.get_method() != b"GET" and self._announced_body() > MOST_BODY_BYTES:
            raise _Refused(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        super().on_headers_complete()
        self._in_head = False

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body, which no route reads."""
        self._body_bytes += len(body)
        if self._body_bytes > MOST_BODY_BYTES:
            raise _Refused(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete: its time is over."""
        self.cycle.more_body = False
        self.cycle.message_event.set()
        self._since = 0.0
        self._in_head = True
        self._head_bytes = self._body_bytes = 0

    def drop(self) -> None:
        """End the connection now."""
        self._shut = True
        self.transport.abort()

    def overdue(self, now: float) -> bool:
        """Return whether the client exceeded its time to send a request or to take an answer; called once a second."""
        unsent = self.transport.get_write_buffer_size()
        if unsent < self._unsent or not (unsent or self.transport.is_closing()):
            self._moved = now
        self._unsent = unsent
        late = self._since and now - self._since > self._limits.request_timeout
        return bool(late) or now - self._moved > STUCK_SECONDS

    def _refuse(self, status: http.HTTPStatus) -> None:
        """Send the status of the refused request, if possible, and end the connection."""
        self._shut = True
        if self._in_head and not self.running:
            self._send_status(status)
        elif self.running and not self.cycle.response_started and not self._in_head and not self.pipeline:
            self.cycle.disconnected = True  # further output of the application is dropped
            self.cycle.message_event.set()
            self._send_status(status)
        elif self.running:
            self.drop()  # in the middle of an answer there is no place for another
            return
        self.flow.pause_reading()
        if self.transport.can_write_eof():  # TLS has no such half: there the client waits
            self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _send_status(self, status: http.HTTPStatus) -> None:
        text = f"{status.phrase}\n".encode()
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(text)).encode()),
            (b"connection", b"close"),
        ]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        self.transport.write(f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() + lines + b"\r\n" + text)

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def _announced_body(self) -> int:
        for name, value in self.headers:
            if name == b"content-length":
                return int(value)  # the parser has seen that it is a number
        return 0
