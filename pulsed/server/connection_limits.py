"""Limits on all connections together: their number, and the bytes of answers that clients leave unread.

The client with the most connections loses those that wait longest: for a request to arrive, or for the client to read
its answer; then those that are idle after an answer. A scraper that finds its connection closed opens another one.
"""

from __future__ import annotations

import ipaddress
import logging
import resource
import time
from collections import Counter
from collections.abc import Collection
from heapq import nsmallest
from math import inf
from typing import NamedTuple, Protocol

from pulsed.server.fair_queue import FairQueue

log = logging.getLogger(__name__)

SHARE_OF_FILES = 3
"""At most this fraction (1/N) of the process's descriptors are connections; sources and files need the others."""

LOG_SECONDS = 60.0

MAX_PER_CLIENT = 32
"""Connections of one client. More are closed once they have waited for `PATIENCE_SECONDS`."""

PATIENCE_SECONDS = 1.0

CLOSED_AT_ONCE = 16
"""When all connections are in use, this fraction (1/N) of them is closed at once: a flood costs few searches."""

MAX_UNREAD_BYTES = 16 * 2**20
"""Bytes of answers that clients may leave unread, all together."""

UNREAD_ANSWERS = 8
"""More may be left unread where answers are large: this number of the newest one's size."""


class Waiting(NamedTuple):
    """What a connection waits for; those that sort first are closed first.

    Attributes:
        is_in_use: nothing: its answer is being made.
        is_idle: its client may send another request, after an answer that it has read.
        since: monotonic time since when it waits.
    """

    is_in_use: bool
    is_idle: bool
    since: float


class LimitedConnection(Protocol):
    """A connection.

    Attributes:
        network: the client, see `network_of`.
    """

    network: str

    @property
    def unread(self) -> int:
        """Bytes of answers that the client has not read."""

    @property
    def waiting(self) -> Waiting:
        """What it waits for."""

    def drop(self) -> None:
        """End it now; it no longer counts."""


class ConnectionLimit:
    """The number of connections, which the descriptors of the process limit, too.

    Args:
        max_connections: by the configuration.

    Attributes:
        turns: requests begin one per iteration of the event loop, for the clients in rotation: many small requests that
            arrive at once do not delay a probe by all of them.
    """

    def __init__(self, max_connections: int) -> None:
        self.max_connections = min(max_connections, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // SHARE_OF_FILES)
        self.turns = FairQueue(self.max_connections, inf)
        self._logged = -LOG_SECONDS

    def make_room(self, newest: LimitedConnection, connections: Collection[LimitedConnection]) -> None:
        """Close connections if the newest one is too many; that is logged once a minute."""
        if len(connections) <= self.max_connections:
            return
        now = time.monotonic()
        if now - self._logged >= LOG_SECONDS:
            self._logged = now
            log.warning(
                "the limit of connections is reached: those that wait longest are closed",
                extra={"connections": self.max_connections},
            )
        make_room(newest, connections, self.max_connections)


def make_room(newest: LimitedConnection, connections: Collection[LimitedConnection], limit: int) -> None:
    """Close connections if the newest one is too many; answers that are being made only for a client with fewer."""
    if len(connections) <= limit:
        return
    counts = Counter(each.network for each in connections)
    most = max(counts.values())
    crowd = [(each.waiting, each) for each in connections if counts[each.network] == most and each is not newest]
    chosen = [entry for entry in crowd if not entry[0].is_in_use or entry[1].network != newest.network]
    for _, each in nsmallest(max(1, limit // CLOSED_AT_ONCE), chosen, key=_order):
        each.drop()
    if not chosen:
        newest.drop()


def limit_clients(connections: Collection[LimitedConnection], now: float) -> None:
    """Close the connections of clients with more than `MAX_PER_CLIENT` that wait longest; called once a second."""
    counts = Counter(each.network for each in connections)
    for network, count in counts.items():
        if count > MAX_PER_CLIENT:
            own = [(each.waiting, each) for each in connections if each.network == network]
            late = [entry for entry in own if not entry[0].is_in_use and now - entry[0].since > PATIENCE_SECONDS]
            for _, each in nsmallest(count - MAX_PER_CLIENT, late, key=_order):
                each.drop()


def drop_unread(newest: LimitedConnection, connections: Collection[LimitedConnection]) -> None:
    """Close the connections that leave answers unread for the longest, if too much is unread with the newest one."""
    sizes = {each: size for each in connections if (size := each.unread)}
    excess = sum(sizes.values()) - max(MAX_UNREAD_BYTES, UNREAD_ANSWERS * newest.unread)
    if excess <= 0:
        return
    for _, each in sorted(((each.waiting, each) for each in sizes if each is not newest), key=_order):
        if excess > 0:
            excess -= sizes[each]
            each.drop()


def _order(entry: tuple[Waiting, LimitedConnection]) -> Waiting:
    return entry[0]


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
