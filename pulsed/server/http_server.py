"""The HTTP server: uvicorn's, with an acceptor of connections of its own.

Connections are accepted here and not by the event loop's server, which would not count the handshakes that go on, nor
end them early, nor take up a new certificate for the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import ipaddress
import logging
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from email.utils import formatdate

import uvicorn

from pulsed.pauses import next_multiple
from pulsed.present.asgi import App
from pulsed.server.connection import Admits, ServerConnection, network_of
from pulsed.server.connection_limiter import ConnectionLimiter, Handshake
from pulsed.server.reloader import WebConfigReloader
from pulsed.server.settings import WebServerSettings
from pulsed.server.tls_context import is_allowed

log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 1
"""How long requests may take to finish once the daemon stops."""

TICK_SECONDS = 1.0
"""Time between two looks at idle connections and changed files."""

KERNEL_BUFFER_BYTES = 64 * 2**10
"""What the kernel keeps of a connection in each direction; it uses twice as much. Otherwise it would be megabytes."""

ACCEPTED_AT_ONCE = 16
PAUSE_SECONDS, SHORT_PAUSE_SECONDS = 1.0, 0.1
"""Pause of accepting when the process has no descriptors left; shorter if idle connections were just closed."""

_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Server(uvicorn.Server):
    """Serves an application on sockets that listen already; without a web configuration as plain HTTP for all.

    Without uvicorn's own signal handling: it would end the process by the signal, not with an exit code.
    """

    def __init__(
        self,
        app: App,
        limits: WebServerSettings,
        live: WebConfigReloader | None = None,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                interface="asgi3",
                http=ServerConnection,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=max(1, round(limits.keep_alive)),
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            )
        )
        self._limits = limits
        self._live = live
        self.limiter = ConnectionLimiter(self.server_state, limits)
        self._on_ready = on_ready
        self._pause: asyncio.Future[None] | None = None
        self._second = -1
        self._more: Sequence[tuple[bytes, bytes]] = ()

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self._context() is not None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the daemon."""
        yield

    def stop(self, number: signal.Signals) -> None:
        """Stop the server; the signal is logged."""
        log.info("stopping", extra={"signal": number.name})
        self.should_exit = True
        self._end_pause()

    async def main_loop(self) -> None:
        """Close overdue connections and take up changed files once a second until `stop`.

        It stands for uvicorn's own loop, which runs ten times a second.
        """
        loop = asyncio.get_running_loop()
        while not self.should_exit:
            self.limiter.sweep(loop.time())
            if self._live is not None:
                self._live.refresh()
            self._pause = loop.create_future()
            timer = loop.call_at(next_multiple(TICK_SECONDS, loop.time()), self._end_pause)
            await self._pause
            timer.cancel()

    def _end_pause(self) -> None:
        if self._pause is not None and not self._pause.done():
            self._pause.set_result(None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections from now on."""
        if self._live is not None and self._live.now.users and not self.tls and any(map(_is_public, sockets or ())):
            log.warning("passwords travel in the clear, set tls_server_config in the web configuration")
        # To uvicorn a server is what can be closed.
        self.servers = [self._acceptor(each) for each in sockets or ()]  # type: ignore[misc]
        self.started = True
        self._on_ready()

    def _acceptor(self, listening: socket.socket) -> ConnectionAcceptor:
        return ConnectionAcceptor(listening, self.limiter, self._protocol, self._context, self._limits.request_timeout)

    def _set_headers(self) -> None:
        """Set the headers of all answers, before a request is answered."""
        now = time.time()
        more = self._live.now.headers if self._live is not None else ()
        if int(now) != self._second or more != self._more:
            self._second, self._more = int(now), more
            self.server_state.default_headers = [(b"date", formatdate(now, usegmt=True).encode()), *more]

    def _context(self) -> ssl.SSLContext | None:
        return self._live.now.context if self._live is not None else None

    def _protocol(self, opened: Callable[[], object]) -> ServerConnection:
        return ServerConnection(
            self.config,
            self.server_state,
            self._limits,
            self._admits(),
            opened,
            self._set_headers,
            self.limiter.answered,
        )

    def _admits(self) -> Admits:
        sans = self._live.now.settings.tls_server_config.client_allowed_sans if self._live is not None else ()
        return lambda certificate: is_allowed(certificate, sans)


class ConnectionAcceptor:
    """Accepts the connections of one listening socket; without a TLS context they are plain."""

    def __init__(
        self,
        listening: socket.socket,
        limiter: ConnectionLimiter,
        protocol: Callable[[Callable[[], object]], ServerConnection],
        context: Callable[[], ssl.SSLContext | None],
        handshake_seconds: float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._limiter = limiter
        self._protocol = protocol
        self._context = context
        self._handshake_seconds = handshake_seconds
        self._paused: asyncio.TimerHandle | None = None
        self._opening: set[asyncio.Task[None]] = set()
        listening.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):  # accepted connections inherit it
            listening.setsockopt(socket.SOL_SOCKET, option, KERNEL_BUFFER_BYTES)
        self._open()

    def close(self) -> None:
        """Stop accepting, and end the handshakes in progress."""
        if self._paused is not None:
            self._paused.cancel()
        self._loop.remove_reader(self._listening.fileno())
        for task in self._opening:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait for the handshakes to end."""
        await asyncio.gather(*self._opening, return_exceptions=True)

    def _open(self) -> None:
        self._paused = None
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                taken, address = self._listening.accept()
            except OSError as error:  # most are of one client: none is there any more, or its network is gone
                if error.errno in _NO_DESCRIPTORS:
                    relieved = self._limiter.relieve(self._loop.time(), f"cannot accept connections: {error.strerror}")
                    self._loop.remove_reader(self._listening.fileno())
                    self._paused = self._loop.call_later(SHORT_PAUSE_SECONDS if relieved else PAUSE_SECONDS, self._open)
                return
            taken.setblocking(False)
            now, network = self._loop.time(), network_of(address[0] if isinstance(address, tuple) else "")
            if self._limiter.has_room(network, now):
                self._limiter.opening[taken] = Handshake(network, now)
                task = self._loop.create_task(self._begin(taken))
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)
            else:
                taken.close()

    async def _begin(self, taken: socket.socket) -> None:
        context = self._context()
        opened = functools.partial(self._limiter.opening.pop, taken, None)
        try:
            await self._loop.connect_accepted_socket(
                functools.partial(self._protocol, opened),
                taken,
                ssl=context,
                ssl_handshake_timeout=self._handshake_seconds if context else None,
            )
        except OSError as error:  # a client that does not speak TLS, or is not let in
            taken.close()
            log.debug("no connection", extra={"error": error})
        finally:
            opened()


def _is_public(listening: socket.socket) -> bool:
    """Return whether more than this machine can reach it."""
    if listening.family == socket.AF_UNIX:
        return False
    host: str = listening.getsockname()[0]
    return not ipaddress.ip_address(host).is_loopback
