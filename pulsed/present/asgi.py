"""Types of an ASGI application, and what the JSON API and the server agree on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, NamedTuple

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]

PLAIN_TEXT = b"text/plain; charset=utf-8"

HEALTHY, HEALTH, READY, RELOAD, FORGET = "/-/healthy", "/health", "/-/ready", "/-/reload", "/-/forget"
"""Paths that the server answers itself."""

PROBES = frozenset((HEALTHY, HEALTH, READY))
"""Paths of probes. Outside the route prefix they redirect, so that a probe needs no configuration."""

EVENTS = "/events"
"""Path of the stream of events."""


CLIENT = "client"
"""Key of a scope's `state`: the `Client` of the connection."""


class Client(NamedTuple):
    """Who sent a request.

    Attributes:
        network: what counts as one client: an IPv4 address, the /64 of an IPv6 address; empty on a Unix socket.
        is_gone: returns whether the connection was closed.
        names: common names of the client's certificate, which TLS has verified; empty without one.
    """

    network: str = ""
    is_gone: Callable[[], bool] = lambda: False
    names: frozenset[str] = frozenset()


def client_of(scope: Scope) -> Client:
    """Return who sent a request."""
    client: Client = scope.get("state", {}).get(CLIENT, Client())
    return client


def route_of(scope: Scope, prefix: str) -> str | None:
    """Return the path of a request below a route prefix; None outside."""
    path: str = scope["path"]
    if not prefix:
        return path
    return path[len(prefix) :] if path.startswith(f"{prefix}/") else None


def header_of(headers: Iterable[Header], header_name: bytes) -> str:
    """Return the values of a header, joined by commas; its name is in lower case."""
    return ",".join(value.decode("latin-1") for name, value in headers if name == header_name)


HEAD_ONLY = "pulsed.head"
"""Key of a scope whose request was HEAD: for answers that would not end."""


async def respond(
    scope: Scope, send: Send, status: int, body: bytes, *headers: Header, content_type: bytes = PLAIN_TEXT
) -> None:
    """Send a whole response; without its body where the request was HEAD."""
    start = [(b"content-type", content_type), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
