"""One HTTP connection: uvicorn's, with limits on what a client may send, keep waiting and leave unread.

uvicorn itself waits for a request for ever, takes requests of any size and number, keeps any amount of unread answers,
and cannot check whose certificate a client has. Here a connection's requests are parsed one at a time: the next one
begins when the answer before it was sent. Time is looked at from outside, once a second (`overdue`).
"""

from __future__ import annotations

import asyncio
import http
import ipaddress
from collections.abc import Callable

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from pulsed.present.asgi import CLIENT, Client
from pulsed.server.settings import WebServerSettings
from pulsed.server.tls_context import Certificate, common_names

MOST_HEADER_BYTES = 64 * 1024
"""Request line and headers of one request; Prometheus sends some 400."""

MOST_BODY_BYTES = 64 * 1024
"""What follows the headers of one request: body, lines of chunks and trailers. No route takes a body: this much is read
and thrown away, so that a client gets its response."""

MOST_AHEAD_BYTES = 64 * 1024
"""What a client may send before its earlier requests are answered."""

STUCK_SECONDS = 30.0
"""How long a client may take nothing of what waits for it, or leave a closed connection half open."""

SENDING_SECONDS = 60.0
"""How long a client may leave any part of its answers unread: 2 MB need some 35 kB/s."""

LINGER_SECONDS = 1.0
"""How long a refused client has to read why, before the connection goes."""

MAX_HEADER_LINES = 100
"""Header lines of one request. Once parsed, a short line takes 30 times its bytes."""

_PIECE_BYTES = 4096
"""What is parsed at once."""

_HEAD_END = b"\r\n\r\n"

Admits = Callable[[Certificate], bool]
"""Returns whether a client is admitted, by its certificate, which TLS has verified."""


class _Refused(Exception):
    """Ends the parsing of a request; the parser raises an error of its own in its place, with this as the context."""

    def __init__(self, status: http.HTTPStatus) -> None:
        super().__init__(status)
        self.status = status


def network_of(host: str) -> str:
    """Return what counts as one client: an IPv4 address, the /64 of an IPv6 address; empty for Unix sockets."""
    if not host:
        return ""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
        address = address.ipv4_mapped
    return str(address)


class ServerConnection(HttpToolsProtocol):
    """A connection and its limits.

    Args:
        admits: decides about a client with a certificate once its handshake is done.
        opened: called when the connection is ready.
        set_headers: called before a request is answered; it sets what all answers have.
        answered: called with the connection when a whole answer was handed to it, which the client may not have read.

    Attributes:
        network: who the client is, see `network_of`.
        active: loop time of the last request's first byte; before any, of the connection's begin.
        sending_since: loop time since when answers wait for the client to read them; 0: none does.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        limits: WebServerSettings,
        admits: Admits,
        opened: Callable[[], object],
        set_headers: Callable[[], None],
        answered: Callable[[ServerConnection], object],
    ) -> None:
        super().__init__(config=config, server_state=server_state, app_state={})
        self._limits = limits
        self._admits = admits
        self._opened, self._set_headers, self._answered = opened, set_headers, answered
        self.network = ""
        self.active = self.loop.time()
        self._since = self.active  # of the request that is awaited or comes in; 0: there is none
        self._ahead = b""  # not parsed yet
        self._in_message, self._in_head = False, True
        self._part_bytes = 0  # of the head, or of what follows it
        self._body_left = 0  # bytes of a body whose length is known
        self._earlier: RequestResponseCycle | None = None  # the one before `cycle`, if it ended within a piece of data
        self._shut = False
        self._refusal: http.HTTPStatus | None = None  # of the message behind the one that is being answered
        self._unsent = 0
        self._moved = self.active
        self.sending_since = 0.0

    @property
    def has_requested(self) -> bool:
        """Whether a request was received."""
        return self.cycle is not None

    @property
    def running(self) -> bool:
        """Whether an answer is being made or sent."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def unsent(self) -> int:
        """Bytes of answers that the client has not taken."""
        return self.transport.get_write_buffer_size()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, or refuse a client whose certificate has the wrong name."""
        super().connection_made(transport)
        self._opened()
        self.network = network_of(self.client[0] if self.client else "")
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert() if tls is not None else None
        names = common_names(certificate) if certificate else frozenset[str]()
        if tls is not None:  # by default it keeps 512 KiB of a connection that is not read
            transport.set_read_buffer_limits(MOST_AHEAD_BYTES)  # type: ignore[attr-defined] # of transports with TLS
        self.app_state[CLIENT] = Client(self.network, transport.is_closing, names)
        if certificate and not self._admits(certificate):
            self.drop()

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request."""
        if not self._shut:  # data that the transport had received before it was stopped
            self._ahead += data
            self._parse()

    def connection_lost(self, exc: Exception | None) -> None:
        """End: what applications still send is ignored, and the request's memory does not wait for the collector."""
        self._disconnect()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self.cycle = self._earlier = None  # type: ignore[assignment] # no more is parsed
        self._release_head()

    def resume_writing(self) -> None:
        """Go on: the client has read most of what it was sent."""
        super().resume_writing()
        self._parse()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header line; lines after the body, which are ignored, are not kept."""
        if not self._in_head:
            return
        if len(self.headers) >= MAX_HEADER_LINES:
            raise _Refused(http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Have the request answered, unless its head is too large, is ambiguous, or announces too large a body."""
        if self._part_bytes > MOST_HEADER_BYTES:
            raise _Refused(http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        hosts = [value for name, value in self.headers if name == b"host"]
        if len(hosts) > 1 or (not hosts and self.parser.get_http_version() == "1.1"):  # RFC 9112, 3.2
            raise _Refused(http.HTTPStatus.BAD_REQUEST)
        if (length := self._announced_body()) > MOST_BODY_BYTES:
            raise _Refused(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        self._body_left = length
        self._earlier = self.cycle if self.running else None
        super().on_headers_complete()
        self._release_head()
        self._in_message, self._in_head, self._part_bytes = True, False, 0  # also behind another one in the same piece

    def on_message_complete(self) -> None:
        """The request is complete: its time is over."""
        self.cycle.more_body = False
        self.cycle.message_event.set()
        self._since = 0.0
        self._in_message, self._in_head, self._part_bytes = False, True, 0

    def on_response_complete(self) -> None:
        """Go on with the next request."""
        super().on_response_complete()
        for cycle in (self.cycle, self._earlier):
            if cycle is not None and cycle.response_complete:
                cycle.scope = {}  # type: ignore[typeddict-item] # nothing reads it any more
                cycle.body = bytearray()
        if self.unsent and not self.sending_since:
            self.sending_since = self.loop.time()
        self._answered(self)
        if self._refusal is not None:
            self._refuse(self._refusal)
        self._parse()

    def drop(self) -> None:
        """End the connection now; what an application still sends is ignored."""
        self._disconnect()
        self.transport.abort()

    def overdue(self, now: float) -> bool:
        """Return whether the client exceeded its time to send a request or to take an answer; called once a second."""
        unsent = self.unsent
        if unsent < self._unsent or not (unsent or self.transport.is_closing()):
            self._moved = now
        self._unsent = unsent
        self.sending_since = (self.sending_since or now) if unsent else 0.0
        is_late = self._since and now - self._since > self._limits.request_timeout
        is_slow = self.sending_since and now - self.sending_since > SENDING_SECONDS
        return bool(is_late or is_slow) or now - self._moved > STUCK_SECONDS

    def _disconnect(self) -> None:
        self._shut, self._ahead = True, b""
        for cycle in (self.cycle, self._earlier):
            if cycle is not None:
                cycle.disconnected = True
                cycle.message_event.set()

    def _parse(self) -> None:
        """Parse what was received, but not the next request before this one was answered and sent."""
        while self._ahead and not self._shut:
            if not self._in_message and (self.running or self.flow.write_paused):
                if len(self._ahead) > MOST_AHEAD_BYTES:
                    self.drop()
                else:
                    self.flow.pause_reading()
                return
            end = self._ahead.find(_HEAD_END, 0, _PIECE_BYTES)
            size = _PIECE_BYTES if end < 0 else end + len(_HEAD_END)
            if self._body_left:  # no part of the next message
                size = min(size, self._body_left, len(self._ahead))
                self._body_left -= size
            piece, self._ahead = self._ahead[:size], self._ahead[size:]
            self._feed(piece)

    def _feed(self, piece: bytes) -> None:
        self._unset_keepalive_if_required()
        self._set_headers()
        if not self._since:
            self._since = self.active = self.loop.time()
        self._part_bytes += len(piece)
        self._in_message = True
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:  # the wish is ignored (RFC 9110, 7.8); what follows may be of either kind
            self.cycle.keep_alive = False
            self._shut = True
        except httptools.HttpParserError as error:
            refused = error.__context__
            self._refuse(refused.status if isinstance(refused, _Refused) else http.HTTPStatus.BAD_REQUEST)
        else:
            if self._in_head and self._part_bytes > MOST_HEADER_BYTES:
                self._refuse(http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            elif self._part_bytes > MOST_BODY_BYTES:
                self._refuse(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

    def _refuse(self, status: http.HTTPStatus) -> None:
        """Send the status of the refused request, if possible, and end the connection."""
        self._shut, self._ahead = True, b""
        self._release_head()
        if self._in_head and self.running:  # the request before it is answered first
            self._refusal = status
            return
        if self._in_head:
            self._send_status(status)
        elif self.running and not self.cycle.response_started and not self._in_head and not self.pipeline:
            self._disconnect()  # further output of the application is dropped
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

    def _release_head(self) -> None:
        """Leave the head to the request that is answered: an idle or refused connection keeps none of it."""
        self.headers, self.url = [], b""
        self.scope = None  # type: ignore[assignment] # the next request begins with another

    def _announced_body(self) -> int:
        for name, value in self.headers:
            if name == b"content-length":
                return int(value)  # the parser has seen that it is a number
        return 0
