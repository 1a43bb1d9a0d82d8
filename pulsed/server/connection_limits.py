"""How much of the daemon one client can take up: numbers, each with what it is for."""

from __future__ import annotations

from dataclasses import dataclass

MOST_HEADER_BYTES = 64 * 1024
"""Request line and headers of one request; Prometheus sends some 400."""

MOST_BODY_BYTES = 64 * 1024
"""No route takes a body: this much is read and thrown away, so that a client gets its response."""

STUCK_SECONDS = 30.0
"""How long a client may take nothing of what waits for it, or leave a closed connection half open."""

LINGER_SECONDS = 1.0
"""How long a refused client has to read why, before the connection goes."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What an operator may choose.

    Attributes:
        connections: open at the same time, over all listeners, handshakes included.
        request_seconds: from a request's first byte, or from the connection's begin, to the request's last byte.
        keep_alive_seconds: how long a connection stays open between requests.
    """

    connections: int = 512
    request_seconds: float = 10.0
    keep_alive_seconds: float = 120.0
