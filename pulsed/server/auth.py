"""Access control: the rate limit and basic authentication, in front of the application.

In the order of exporter-toolkit: what is too much is refused before a password is checked.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pulsed.present.asgi import App, Header, Receive, Scope, Send, client_of, respond, route_of
from pulsed.server.fair_queue import QueueFull
from pulsed.server.reloader import WebConfigReloader
from pulsed.server.web_config import RateLimitSection

CHALLENGE = (b"www-authenticate", b'Basic realm="pulsed", charset="UTF-8"')


class AuthMiddleware:
    """An ASGI application that lets some requests through to another.

    Args:
        live: users in force, and the rate limit, which is read once.
        count: called with the path's name and the status of each request that is refused; `other` stands for all paths
            that anybody could make up.
        named: paths that are counted by name.
        open_paths: paths that need no password, also outside the prefix, where they redirect.
        route_prefix: prefix of all paths.
    """

    def __init__(
        self,
        app: App,
        live: WebConfigReloader,
        count: Callable[[str, int], None],
        named: frozenset[str] = frozenset(),
        open_paths: frozenset[str] = frozenset(),
        route_prefix: str = "",
    ) -> None:
        self._app = app
        self._live = live
        self._count = count
        self._named = named
        self._open_paths = open_paths
        self._route_prefix = route_prefix
        rate = live.now.settings.rate_limit
        self._bucket = Bucket(rate, time.monotonic()) if rate.interval else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or have it answered."""
        if self._bucket is not None and not self._bucket.take(time.monotonic()):
            await self._refuse(scope, send, 429, b"Too Many Requests\n", (b"retry-after", b"1"))
            return
        users = self._live.now.users
        if users is not None and not self._is_open(scope):
            authorization = _authorization(scope)
            allowed = users.cached(authorization) if authorization else False
            if allowed is None:
                try:
                    allowed = await users.check(authorization, client_of(scope))
                except QueueFull:
                    await self._refuse(scope, send, 503, b"too many logins at the same time\n", (b"retry-after", b"1"))
                    return
            if not allowed:
                await self._refuse(scope, send, 401, b"Unauthorized\n", CHALLENGE)
                return
        await self._app(scope, receive, send)

    def _is_open(self, scope: Scope) -> bool:
        path = route_of(scope, self._route_prefix)
        return (scope["path"] if path is None else path) in self._open_paths

    async def _refuse(self, scope: Scope, send: Send, status: int, body: bytes, header: Header) -> None:
        path = route_of(scope, self._route_prefix)
        self._count(path if path in self._named else "other", status)
        await respond(scope, send, status, body, header)


class Bucket:
    """Tokens for requests: one more every interval, and at most `burst` in stock."""

    __slots__ = ("_burst", "_interval", "_stock", "_time")

    def __init__(self, rate: RateLimitSection, now: float) -> None:
        self._interval, self._burst = rate.interval, rate.burst
        self._stock, self._time = float(rate.burst), now

    def take(self, now: float) -> bool:
        """Take a token; return false if there is none."""
        self._stock = min(self._burst, self._stock + (now - self._time) / self._interval)
        self._time = now
        if self._stock < 1:
            return False
        self._stock -= 1
        return True


def _authorization(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == b"authorization":
            found: bytes = value
            return found
    return b""
