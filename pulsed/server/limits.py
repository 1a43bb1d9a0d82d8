"""Limits on what clients may use: connections, answers that they leave unread, and the size of requests.

The client with the most connections loses those that wait longest: for a request to arrive, or for the client to read
its answer; then those that are idle after an answer. A scraper that finds its connection closed opens another one.
"""

from __future__ import annotations

import http
import ipaddress
import logging
import re
import resource
import time
from collections import Counter
from collections.abc import Collection
from heapq import nsmallest
from math import inf
from typing import NamedTuple, Protocol

import h11

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


MAX_HEAD_BYTES = 64 * 1024
"""Request line and headers of one request; Prometheus sends some 400."""

MAX_HEADER_LINES = 100
"""Header lines of one request. Once parsed, a short line takes 30 times its bytes."""

MAX_BODY_BYTES = 64 * 1024
"""Body of one request. No route takes one: this much is read and discarded, so that a client gets its answer."""

MAX_BODY_PIECES = 1000
"""Chunks of a body, and packets of it: each costs 30 µs, however small it is."""

_HEAD_END = re.compile(rb"\n\r?\n")


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
        if is_head and self._is_head_too_large():
            raise self._refused(http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        try:
            event = super().next_event()
        except h11.RemoteProtocolError as error:
            error.__traceback__ = None  # it has a frame of h11 that refers to the error: a cycle
            status = error.error_status_hint
        else:
            self._check(event)
            return event
        is_large_body = status == http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE and not is_head
        raise self._refused(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE if is_large_body else status)

    def _check(self, event: object) -> None:
        """Refuse another version of HTTP, a tunnel, and a body that is, or is announced to be, too large."""
        if isinstance(event, h11.Request):
            if event.http_version not in (b"1.0", b"1.1"):
                raise self._refused(http.HTTPStatus.BAD_REQUEST)
            if event.method == b"CONNECT":  # h11 would end HTTP with the answer
                raise self._refused(http.HTTPStatus.BAD_REQUEST)
            self._body_bytes = self._body_pieces = 0
            length = next((int(value) for name, value in event.headers if name == b"content-length"), 0)
        elif isinstance(event, h11.Data):
            self._body_bytes += len(event.data)
            self._body_pieces += 1
            length = self._body_bytes
        else:
            return
        if length > MAX_BODY_BYTES or self._body_pieces > MAX_BODY_PIECES:
            raise self._refused(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

    def _is_head_too_large(self) -> bool:
        data = self.trailing_data[0]
        most = MAX_HEADER_LINES + 1  # and the request line
        if len(data) <= MAX_HEAD_BYTES and data.count(b"\n") <= most:
            return False
        end = _HEAD_END.search(data)
        head = data[: end.end()] if end else data
        return len(head) > MAX_HEAD_BYTES or head.count(b"\n") > most + bool(end)

    def _refused(self, status: int) -> h11.RemoteProtocolError:
        self.refusal = http.HTTPStatus(status)
        return h11.RemoteProtocolError(self.refusal.phrase, status)
