"""The HTTP server: uvicorn's, with limits on its connections and a web configuration that is reloaded."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import signal
import socket
import time
from collections.abc import Callable, Iterator

import uvicorn

from pulsed.background_tasks import next_multiple
from pulsed.lane import FairSemaphore
from pulsed.present.asgi import App
from pulsed.server.connection import ServerConnection, TlsProtocol, all_connections
from pulsed.server.limits import connection_limit, make_room
from pulsed.server.listeners import BACKLOG
from pulsed.server.reloader import WebConfigReloader
from pulsed.server.settings import WebServerSettings

log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 1
"""How long requests may take to finish once the daemon stops."""

CHECK_SECONDS = 1
"""Time between two checks of deadlines and changed files."""

BEGINS = 4
"""Requests that begin per iteration of the event loop: a probe needs some iterations, and a crowd fills each."""

LOG_SECONDS = 60.0

RECEIVE_BYTES, SEND_BYTES = 16 * 2**10, 64 * 2**10
"""What the kernel keeps of a connection in each direction; it uses twice as much. Otherwise it would be megabytes."""

ACCEPTED_AT_ONCE = 8
"""At most this fraction (1/N) of all connections is accepted per iteration of the event loop, before those that have to
make room are closed. Were it one connection, a probe would wait for 3 s in a flood."""


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
        self._max_connections, self._logged = connection_limit(limits.max_connections), -LOG_SECONDS
        super().__init__(
            uvicorn.Config(
                app,
                interface="asgi3",
                http=self._protocol,  # type: ignore[arg-type] # to uvicorn it is what makes a protocol
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=max(1, round(limits.keep_alive)),
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
                backlog=max(1, self._max_connections // ACCEPTED_AT_ONCE),
            )
        )
        self._limits, self._live, self._on_ready = limits, live, on_ready
        self._stopped = asyncio.Event()
        self._newest: list[ServerConnection] = []
        self.server_state.begins = FairSemaphore(BEGINS)  # type: ignore[attr-defined] # used by connections
        self.server_state.accepted = self._count_accepted  # type: ignore[attr-defined] # called by connections

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self._live is not None and self._live.now.context is not None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the daemon."""
        yield

    def stop(self, number: signal.Signals) -> None:
        """Stop the server; the signal is logged."""
        log.info("stopping", extra={"signal": number.name})
        self.should_exit = True
        self._stopped.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections from now on."""
        listening = sockets or []
        if self._live is not None and self._live.now.users and not self.tls and any(map(_is_public, listening)):
            log.warning("passwords are sent unencrypted; set tls_server_config in the web configuration")
        for each in listening:  # accepted connections inherit it
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        await super().startup(listening)
        for each in listening:
            each.listen(BACKLOG)
        self._on_ready()

    async def main_loop(self) -> None:
        """Check connections and files once a second until the server is stopped; uvicorn's own wakes ten times."""
        while not self.should_exit:
            now = time.monotonic()
            for connection in all_connections(self.server_state):
                if connection.is_overdue(now, self._limits.request_timeout):
                    connection.drop()
            if self._live is not None:
                self._live.poll()
                self.config.encoded_headers = list(self._live.now.headers)
            await self.on_tick(counter=0)  # the headers of the next second
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(next_multiple(CHECK_SECONDS, asyncio.get_running_loop().time())):
                    await self._stopped.wait()

    def _count_accepted(self, newest: ServerConnection) -> None:
        """Make room for the connections that are accepted in this iteration of the event loop, at its end."""
        self._newest.append(newest)
        if len(self._newest) == 1:
            asyncio.get_running_loop().call_soon(self._make_room)

    def _make_room(self) -> None:
        """Close connections if the newest ones are too many; a limit that is reached is logged once a minute."""
        now, newest, self._newest = time.monotonic(), self._newest, []
        is_full = make_room(newest, all_connections(self.server_state), self._max_connections)
        if is_full and now - self._logged >= LOG_SECONDS:
            self._logged = now
            log.warning(
                "the limit of connections is reached: those that wait longest are closed",
                extra={"connections": self._max_connections},
            )

    def _protocol(self, **_: object) -> asyncio.BaseProtocol:
        """Return the protocol of a new connection."""
        web = self._live.now if self._live is not None else None
        connection = ServerConnection(self.config, self.server_state, web)
        if web is None or web.context is None:
            return connection
        return TlsProtocol(asyncio.get_running_loop(), connection, web.context)


def _is_public(listening: socket.socket) -> bool:
    """Return whether more than this machine can reach it."""
    if listening.family == socket.AF_UNIX:
        return False
    host: str = listening.getsockname()[0]
    return not ipaddress.ip_address(host).is_loopback
