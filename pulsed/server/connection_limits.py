"""Limits on all connections together: their number, and the bytes of answers that clients leave unread.

The client with the most connections loses those that wait longest: for a request to arrive, or for the client to read
its answer; then those that are idle after an answer. A scraper that finds its connection closed opens another one.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Collection
from heapq import nsmallest
from typing import NamedTuple, Protocol

MAX_PER_CLIENT = 32
"""Connections of one client. Of more, those are closed that have waited for `PATIENCE_SECONDS`."""

PATIENCE_SECONDS = 1.0

CLOSED_AT_ONCE = 16
"""When all connections are in use one part of so many is closed, so that a flood does not cost a search for each."""

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


def make_room(newest: LimitedConnection, connections: Collection[LimitedConnection], limit: int, now: float) -> None:
    """Close connections, if the newest one is too many for its client or for the server.

    When all connections are in use, answers are interrupted only of a client with more connections than the newest
    one's; otherwise the newest one is closed.
    """
    counts = Counter(each.network for each in connections)
    others = [each for each in connections if each is not newest]
    if len(connections) > limit:
        most = max(counts.values())
        crowd = [each for each in others if counts[each.network] == most]
        chosen = [each for each in crowd if not each.waiting.is_in_use or each.network != newest.network]
        for each in nsmallest(max(1, limit // CLOSED_AT_ONCE), chosen, key=_waiting) or [newest]:
            each.drop()
    elif counts[newest.network] > MAX_PER_CLIENT:
        crowd = [each for each in others if each.network == newest.network and not each.waiting.is_in_use]
        for each in nsmallest(1, [each for each in crowd if now - each.waiting.since > PATIENCE_SECONDS], key=_waiting):
            each.drop()


def _waiting(connection: LimitedConnection) -> Waiting:
    return connection.waiting


def drop_unread(newest: LimitedConnection, connections: Collection[LimitedConnection]) -> None:
    """Close the connections that leave answers unread for the longest, if too much is unread with the newest one."""
    sizes = {each: size for each in connections if (size := each.unread)}
    excess = sum(sizes.values()) - max(MAX_UNREAD_BYTES, UNREAD_ANSWERS * newest.unread)
    for each in sorted(sizes, key=lambda each: each.waiting.since):
        if excess <= 0:
            return
        if each is not newest:
            excess -= sizes[each]
            each.drop()


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
