"""One HTTP connection: uvicorn's on h11, with limits on what a client may send, keep waiting and leave unread.

uvicorn itself waits for a request without end, accepts any number of header lines and keeps any number of unread
answers. Deadlines are checked from outside, once a second (`is_overdue`).
"""

from __future__ import annotations

import asyncio
import ssl
import time
from asyncio import sslproto

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.server import ServerState

from pulsed.lane import FairSemaphore
from pulsed.present.asgi import CLIENT, Client, Message, Receive, Scope, Send
from pulsed.server.limits import RequestParser, drop_unread, network_of
from pulsed.server.reloader import InForce
from pulsed.server.tls_context import common_names, is_allowed

STUCK_SECONDS = 30.0
"""How long a client may read nothing of its answer, or leave a closed connection half open."""

SENDING_SECONDS = 60.0
"""How long a client may leave any part of its answers unread: 2 MB need some 35 kB/s."""

LINGER_SECONDS = 1.0
"""How long a refused client has to read why, before the connection is closed."""

PIECE_BYTES = 16 * 1024
"""Size of the pieces in which answers are written, also the write buffer of a connection."""

READ_BYTES = 4 * 1024
"""What is read at once of a connection with TLS, whose buffers keep this size: a request has some 400 bytes."""


class ServerConnection(H11Protocol):
    """A connection and its limits.

    Args:
        web: the web configuration at the begin of the connection; None without one.

    Attributes:
        network: the client, see `network_of`.
    """

    conn: RequestParser

    def __init__(self, config: uvicorn.Config, server_state: ServerState, web: InForce | None) -> None:
        super().__init__(config=config, server_state=server_state, app_state={})
        self.conn, self._web = RequestParser(), web
        self._application, self.app = self.app, self._answer
        self.network = ""
        self._awaited_since = self._active = self._moved = time.monotonic()  # of a request, or of the TLS handshake
        self._unread_since = 0.0
        self._unwritten = self._unread = 0
        self._is_shut = False

    @property
    def is_running(self) -> bool:
        """Whether an answer is being made or sent."""
        return self.cycle is not None and not (self.cycle.response_complete or self.cycle.disconnected)

    @property
    def waiting(self) -> tuple[bool, bool, float]:
        """Whether its answer is being made, whether it is idle after an answer that was read, and since when."""
        waits = bool(self._awaited_since or self.unread)
        since = self._awaited_since or self._unread_since or self._active
        return self.is_running and not self.unread, not waits, since

    @property
    def unread(self) -> int:
        """Bytes of answers that the client has not read."""
        return self._unwritten + self.transport.get_write_buffer_size()

    def accept(self, transport: asyncio.Transport) -> None:
        """Begin: count the connection, also before its TLS handshake."""
        self.transport = transport
        self.client = get_remote_addr(transport)
        self.network = network_of(self.client[0] if self.client else "")
        self.connections.add(self)
        self.server_state.accepted(self)  # type: ignore[attr-defined] # the server's

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept requests, unless the client's certificate has the wrong name."""
        if self not in self.connections:
            self.accept(transport)
        super().connection_made(transport)
        transport.set_write_buffer_limits(PIECE_BYTES)
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert() if tls is not None else None
        names = common_names(certificate) if certificate else frozenset[str]()
        self.app_state[CLIENT] = Client(self.network, transport.is_closing, names)
        sans = self._web.settings.tls_server_config.client_allowed_sans if self._web is not None else ()
        if certificate and not is_allowed(certificate, sans):
            self.drop()

    def data_received(self, data: bytes) -> None:
        """Parse a part of a request."""
        if self._is_shut:  # data that the transport had received before it was stopped
            return
        if not self.conn.has_partial_request:
            self._active = time.monotonic()
        super().data_received(data)
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """End: what the application still sends is ignored, and memory does not wait for the garbage collector."""
        self._disconnect()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self.release()

    def release(self) -> None:
        """Release what refers back to the connection, and its last request."""
        self.connections.discard(self)
        self.app, self.app_state, self.headers = self._application, {}, []

    def on_response_complete(self) -> None:
        """Continue with the next request; an idle connection keeps nothing of the last one."""
        self.headers, self.scope = [], None  # type: ignore[assignment] # the next request begins with others
        self.cycle.scope, self.cycle.body = {}, bytearray()  # type: ignore[typeddict-item] # nothing reads them
        super().on_response_complete()
        self._set_deadline()

    def send_400_response(self, msg: str) -> None:
        """Send the status of the refused request, if possible, and end the connection."""
        if self.is_running and self.cycle.response_started:  # in the middle of an answer there is no place for another
            self.drop()
            return
        self._disconnect()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            status, headers = self.conn.refusal, list(self.server_state.default_headers)
            text = f"{status.phrase}\n".encode()
            headers += (b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(text))
            headers.append((b"connection", b"close"))
            response = h11.Response(status_code=status, headers=headers, reason=status.phrase)
            events = (response, h11.Data(data=text), h11.EndOfMessage())
            self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.conn = RequestParser()  # without what has arrived of the request
        self.flow.pause_reading()
        if self.transport.can_write_eof():  # TLS has no such half: there the client waits
            self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def drop(self) -> None:
        """End the connection now; it no longer counts."""
        self.connections.discard(self)
        self._disconnect()
        self.transport.abort()

    def is_overdue(self, now: float, request_seconds: float) -> bool:
        """Return whether the client exceeded its time to send a request or to read an answer; called once a second."""
        unread = self.unread
        if unread < self._unread or not (unread or self.transport.is_closing()):
            self._moved = now
        self._unread, self._unread_since = unread, (self._unread_since or now) if unread else 0.0
        is_late = self._awaited_since and now - self._awaited_since > request_seconds
        is_slow = self._unread_since and now - self._unread_since > SENDING_SECONDS
        return bool(is_late or is_slow) or now - self._moved > STUCK_SECONDS

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, and write its answer in pieces: of an unread one no copy is kept."""

        async def send_pieces(message: Message) -> None:
            if self.transport.is_closing():  # a write would be logged
                self._disconnect()
            body = message.get("body", b"")
            if len(body) <= PIECE_BYTES or message.get("more_body"):
                await send(message)
                return
            self._unwritten, self._unread_since = len(body), self._unread_since or time.monotonic()
            drop_unread(self, all_connections(self.server_state))
            while self._unwritten > 0:
                if self.transport.is_closing():
                    self._disconnect()
                start = len(body) - self._unwritten
                piece = body[start : start + PIECE_BYTES]
                await send({**message, "body": piece, "more_body": len(piece) < self._unwritten})
                self._unwritten -= len(piece)

        begins: FairSemaphore = self.server_state.begins  # type: ignore[attr-defined] # the server's
        await begins.acquire(self.network)
        self.loop.call_soon(begins.release)
        if self.transport.is_closing():
            self._disconnect()
            return
        try:
            await self._application(scope, receive, send_pieces)
        finally:
            self._unwritten = 0

    def _set_deadline(self) -> None:
        """Set since when the rest of a request is awaited."""
        is_awaited = not self._is_shut and self.conn.has_partial_request
        self._awaited_since = (self._awaited_since or time.monotonic()) if is_awaited else 0.0

    def _disconnect(self) -> None:
        self._is_shut = True
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()


def all_connections(state: ServerState) -> list[ServerConnection]:
    """Return all connections of a server."""
    return [each for each in state.connections if isinstance(each, ServerConnection)]


class TlsProtocol(sslproto.SSLProtocol):
    """TLS of one connection, which counts from its begin on."""

    max_size = READ_BYTES

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: ServerConnection, context: ssl.SSLContext) -> None:
        super().__init__(loop, connection, context, None, server_side=True, ssl_shutdown_timeout=STUCK_SECONDS)  # type: ignore[arg-type] # without a waiter
        # Otherwise 256 KiB of each client whose requests wait:
        self._set_read_buffer_limits(PIECE_BYTES)  # type: ignore[attr-defined] # typeshed does not have it
        self._release = connection.release
        self._accept = connection.accept

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        """Begin the handshake."""
        self._accept(transport)
        super().connection_made(transport)

    def _on_handshake_complete(self, handshake_exc: BaseException | None) -> None:
        """End the handshake; the frames of its error would keep the connection until the garbage collector runs."""
        super()._on_handshake_complete(handshake_exc)
        if isinstance(handshake_exc, BaseException):  # asyncio also passes a class
            handshake_exc.__traceback__ = None

    def connection_lost(self, exc: BaseException | None) -> None:
        """End, also before the handshake was complete."""
        super().connection_lost(exc)
        self._release()
        del self._accept, self._release  # they refer to the connection, which refers to this
