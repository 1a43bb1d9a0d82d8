"""How many connections there are and how much waits for them, and which go when it is too much or they are overdue.

Clients with more than an equal share of all connections lose theirs before others do. Of a client those go first that
await it the longest: to send its first request, or to read its answer; then those that are idle after an answer. A
scraper that finds its connection closed opens another and is let in.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections import Counter
from heapq import nsmallest
from typing import NamedTuple

from uvicorn.server import ServerState

from pulsed.server.connection import ServerConnection
from pulsed.server.settings import WebServerSettings

log = logging.getLogger(__name__)

LOG_SECONDS = 60.0
"""Least seconds between two log lines about a flood."""

SHARE = 16
"""At the limit one part of so many is closed at once, so that a flood does not cost a search for each."""

MOST_UNSENT_BYTES = 16 * 2**20
"""Bytes of answers that clients may leave unread, all together."""

UNSENT_ANSWERS = 8
"""More may be left unread where answers are large: so many of the newest one's size."""


class Handshake(NamedTuple):
    """A connection that is not ready yet: its client, and the loop time of its begin."""

    network: str
    since: float


class _Rank(NamedTuple):
    """Order in which connections are closed to make room, the first ones first.

    Attributes:
        is_within_share: whether the client has no more than an equal share of all connections.
        is_in_use: whether an answer is being made.
        is_idle: whether an answer was read.
        since: loop time since when the client is awaited, or of its last request.
    """

    is_within_share: bool
    is_in_use: bool
    is_idle: bool
    since: float


class ConnectionLimiter:
    """All connections of a server.

    Attributes:
        opening: sockets of connections that are not ready yet (TLS handshake).
    """

    def __init__(self, state: ServerState, limits: WebServerSettings) -> None:
        self._state = state
        self._limits = limits
        self.opening: dict[socket.socket, Handshake] = {}
        self._unsent: set[ServerConnection] = set()
        self._logged = -LOG_SECONDS

    def has_room(self, network: str, now: float) -> bool:
        """Return whether a client may have one more connection at loop time `now`, after closing some if needed."""
        count = len(self._state.connections) + len(self.opening)
        return count < self._limits.max_connections or self.relieve(now, "as many connections as allowed", network)

    def relieve(self, now: float, why: str, network: str = "") -> bool:
        """Close some connections; return whether there were any that may be closed.

        Args:
            now: loop time.
            why: for the log.
            network: the client that needs room.
        """
        count = len(self._state.connections)
        closed = self._make_room(max(1, self._limits.max_connections // SHARE), network, now)
        self._log(now, f"{why}, closing those that are idle or do not read", count, closed)
        return closed > 0

    def sweep(self, now: float) -> None:
        """Close what is overdue; to be called once a second."""
        for connection in self.connections():
            if connection.overdue(now):
                connection.drop()

    def answered(self, connection: ServerConnection) -> None:
        """Close the connections that left answers unread for the longest, if too much is unread."""
        newest = connection.unsent
        if not newest:
            return
        self._unsent = {each for each in self._unsent if each.unsent}
        self._unsent.add(connection)
        sizes = {each: each.unsent for each in self._unsent}
        unsent, closed = sum(sizes.values()), 0
        limit = max(MOST_UNSENT_BYTES, UNSENT_ANSWERS * newest)
        if unsent <= limit:
            return
        count = len(self._state.connections)
        for each in sorted(sizes, key=lambda each: each.sending_since):
            if unsent <= limit or each is connection:
                continue
            unsent -= sizes[each]
            self._drop(each)
            closed += 1
        self._log(connection.loop.time(), "clients do not read their answers, closing connections", count, closed)

    def connections(self) -> list[ServerConnection]:
        """Return all connections that are ready."""
        return [each for each in self._state.connections if isinstance(each, ServerConnection)]

    def _make_room(self, count: int, network: str, now: float) -> int:
        connections = self.connections()
        clients = Counter({network: 0})
        clients.update(each.network for each in connections)
        clients.update(each.network for each in self.opening.values())
        share = self._limits.max_connections / len(clients)
        ranked: list[tuple[_Rank, ServerConnection | socket.socket]] = [
            (_Rank(clients[opening.network] <= share, False, False, opening.since), taken)
            for taken, opening in self.opening.items()
        ]
        for each in connections:
            is_within_share = clients[each.network] <= share
            if each.unsent:
                ranked.append((_Rank(is_within_share, False, False, each.sending_since or now), each))
            elif not each.running or not is_within_share:
                ranked.append((_Rank(is_within_share, each.running, each.has_requested, each.active), each))
        chosen = nsmallest(count, ranked, key=lambda entry: entry[0])
        for _, connection in chosen:
            self._drop(connection)
        return len(chosen)

    def _drop(self, each: ServerConnection | socket.socket) -> None:
        """Close a connection; it counts no more from now on, not only when the loop comes to it."""
        if isinstance(each, ServerConnection):
            self._state.connections.discard(each)
            self._unsent.discard(each)
            each.drop()
        else:
            del self.opening[each]
            with contextlib.suppress(OSError):  # it has ended by itself
                each.shutdown(socket.SHUT_RDWR)

    def _log(self, now: float, message: str, count: int, closed: int) -> None:
        if now - self._logged >= LOG_SECONDS:
            self._logged = now
            log.warning(message, extra={"open": count, "closed": closed})
