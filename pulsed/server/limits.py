"""Limits on what clients may use: connections, answers that they leave unread, and the size of requests."""

from __future__ import annotations

import http
import ipaddress
import re
import resource
import time
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Protocol

import h11

SHARE_OF_FILES = 3
"""At most this fraction (1/N) of the process's descriptors are connections; sources and files need the others."""

MAX_PER_CLIENT = 32
"""Connections of one client."""

PATIENCE_SECONDS = 1.0
"""Time of a connection to send a request, or to read an answer, before it makes room for others of its client."""

MAX_UNREAD_BYTES = 16 * 2**20
"""Bytes of answers that clients may leave unread, all together."""

UNREAD_ANSWERS = 8
"""More may be left unread where answers are large: this number of the newest one's size."""

MAX_HEAD_BYTES = 32 * 1024
"""Request line and headers of one request; Prometheus sends some 400."""

MAX_HEADER_LINES = 100
"""Header lines of one request. Once parsed, a short line takes 30 times its bytes."""

MAX_BODY_BYTES = 64 * 1024
"""Body of one request. No route takes one: this much is read and discarded, so that a client gets its answer."""

MAX_BODY_PIECES = 1000
"""Chunks of a body, and packets of it: each costs 30 µs, however small it is."""

_HEAD_END = re.compile(rb"\n\r?\n")


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
    def waiting(self) -> tuple[bool, bool, float]:
        """Whether its answer is being made, whether it is idle, and since when; the smallest is closed first."""

    def drop(self) -> None:
        """End it now; it no longer counts."""


def connection_limit(max_connections: int) -> int:
    """Return how many connections the configuration and the descriptors of the process allow."""
    return min(max_connections, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // SHARE_OF_FILES)


def make_room(newest: Sequence[LimitedConnection], connections: Collection[LimitedConnection], limit: int) -> bool:
    """Close the connections that wait longest if the newest ones are too many, of their client or of all.

    Of all, they are of the client with the most; of a client, as many as it has new ones, of those that wait for
    `PATIENCE_SECONDS`. Return whether all connections were in use.
    """
    by_network: dict[str, list[LimitedConnection]] = {}
    for each in connections:
        by_network.setdefault(each.network, []).append(each)
    excess = len(connections) - limit
    counts, closable = Counter({network: len(each) for network, each in by_network.items()}), {}
    begun = Counter(each.network for each in newest)
    for network in by_network if excess > 0 else [each for each in begun if counts[each] > MAX_PER_CLIENT]:
        is_new = frozenset(newest)
        closable[network] = sorted(
            [(each in is_new, *each.waiting, at) for at, each in enumerate(by_network[network])], reverse=True
        )
    for _ in range(excess):
        network = max(counts, key=counts.__getitem__)
        by_network[network][closable[network].pop()[-1]].drop()
        counts[network] -= 1
    late = time.monotonic() - PATIENCE_SECONDS
    for network, count in begun.items():
        for _ in range(min(count, counts[network] - MAX_PER_CLIENT)):
            *_, since, at = closable[network].pop()
            if since < late:
                by_network[network][at].drop()
    return excess > 0


def drop_unread(newest: LimitedConnection, connections: Collection[LimitedConnection]) -> None:
    """Close the connections that leave answers unread for the longest, if too much is unread with the newest one."""
    sizes = {each: size for each in connections if (size := each.unread)}
    excess = sum(sizes.values()) - max(MAX_UNREAD_BYTES, UNREAD_ANSWERS * newest.unread)
    for each in sorted(sizes, key=lambda each: each.waiting) if excess > 0 else ():
        if excess > 0 and each is not newest:
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


class RequestParser(h11.Connection):
    """h11's parser of requests, which refuses those that are too large.

    Attributes:
        refusal: the status for a request that `next_event` has refused.
    """

    def __init__(self) -> None:
        super().__init__(h11.SERVER, MAX_HEAD_BYTES)
        self.refusal = http.HTTPStatus.BAD_REQUEST
        self._body_bytes = self._body_pieces = 0

    @property
    def has_partial_request(self) -> bool:
        """Whether a part of a request has arrived, but not its end."""
        return self.their_state is h11.SEND_BODY or (self.their_state is h11.IDLE and bool(self.trailing_data[0]))

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the next part of a request. Raises `h11.RemoteProtocolError` and sets `refusal`."""
        is_head = self.their_state is h11.IDLE
        status = 431 if is_head and self._is_head_too_large() else 0
        if not status:
            try:
                event = super().next_event()
            except h11.RemoteProtocolError as error:
                error.__traceback__ = None  # it has a frame of h11 that refers to the error: a cycle
                status = error.error_status_hint
                if status == 431 and not is_head:
                    status = 413
            else:
                status = self._refusal_of(event)
                if not status:
                    return event
        self.refusal = http.HTTPStatus(status)
        raise h11.RemoteProtocolError(self.refusal.phrase, status)

    def _refusal_of(self, event: object) -> int:
        """Return the status for another version, a tunnel, and a body that is, or will be, too large; 0: accepted."""
        if isinstance(event, h11.Request):
            if event.http_version not in (b"1.0", b"1.1") or event.method == b"CONNECT":  # h11 would end HTTP
                return 400
            self._body_bytes = self._body_pieces = 0
            length = next((int(value) for name, value in event.headers if name == b"content-length"), 0)
            return 413 if length > MAX_BODY_BYTES else 0
        if isinstance(event, h11.Data):
            self._body_bytes += len(event.data)
            self._body_pieces += 1
        return 413 if self._body_bytes > MAX_BODY_BYTES or self._body_pieces > MAX_BODY_PIECES else 0

    def _is_head_too_large(self) -> bool:
        data = self.trailing_data[0]
        most = MAX_HEADER_LINES + 1  # and the request line
        if len(data) <= MAX_HEAD_BYTES and data.count(b"\n") <= most:
            return False
        end = _HEAD_END.search(data)
        head = data[: end.end()] if end else data
        return len(head) > MAX_HEAD_BYTES or head.count(b"\n") > most + bool(end)
