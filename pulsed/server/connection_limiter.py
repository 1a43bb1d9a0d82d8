"""How many connections there are, and which go when there are too many or have had their time.

Connections with a request stay; of the others those are closed first that never sent a request, then those that were
silent the longest: a scraper that finds its connection closed opens another and is let in.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from heapq import nsmallest

from uvicorn.server import ServerState

from pulsed.config.model import WebSection
from pulsed.server.connection import ServerConnection

log = logging.getLogger(__name__)

LOG_SECONDS = 60.0
"""Least seconds between two log lines about a flood."""

SHARE = 16
"""At the limit one part of so many is closed at once, so that a flood does not cost a search for each."""


class ConnectionLimiter:
    """All connections of a server.

    `opening` has the sockets of connections that are not ready yet (TLS handshake), with the loop time of their begin.
    """

    def __init__(self, state: ServerState, limits: WebSection) -> None:
        self._connections = state.connections
        self._limits = limits
        self.opening: dict[socket.socket, float] = {}
        self._logged = -LOG_SECONDS

    def has_room(self, now: float) -> bool:
        """Return whether one more connection may be accepted at loop time `now`, after closing idle ones if needed."""
        count = len(self._connections) + len(self.opening)
        return count < self._limits.max_connections or self.relieve(now, "as many connections as allowed")

    def relieve(self, now: float, why: str) -> bool:
        """Close some idle connections; return whether there were any. The log gives `why`."""
        closed = self._close_idle(max(1, self._limits.max_connections // SHARE))
        if now - self._logged >= LOG_SECONDS:
            self._logged = now
            log.warning(f"{why}, closing those that are idle", extra={"open": len(self._connections), "closed": closed})
        return closed > 0

    def sweep(self, now: float) -> None:
        """Close what is overdue; to be called once a second."""
        for connection in [each for each in self._connections if isinstance(each, ServerConnection)]:
            if connection.overdue(now):
                connection.drop()

    def _close_idle(self, count: int) -> int:
        idle: list[tuple[bool, float, ServerConnection | socket.socket]] = [
            (each.has_requested, each.active, each)
            for each in self._connections
            if isinstance(each, ServerConnection) and not each.running
        ]
        idle += [(False, since, taken) for taken, since in self.opening.items()]
        chosen = nsmallest(count, idle, key=lambda entry: entry[:2])
        for _, _, each in chosen:  # they count no more from now on, not only when the loop comes to it
            if isinstance(each, ServerConnection):
                self._connections.discard(each)
                each.drop()
            else:
                del self.opening[each]
                with contextlib.suppress(OSError):  # it has ended by itself
                    each.shutdown(socket.SHUT_RDWR)
        return len(chosen)
