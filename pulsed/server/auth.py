"""The web configuration in front of the application: rate limit, basic authentication, and headers of responses.

In the order of exporter-toolkit: excess requests are refused before a password is checked.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pulsed.lane import LaneFull
from pulsed.present.asgi import PROBES, App, Header, Message, Receive, Scope, Send, client_of, respond, route_of
from pulsed.server.reloader import WebConfigReloader
from pulsed.server.settings import WebServerSettings
from pulsed.server.web_config import RateLimitSection

CHALLENGE = (b"www-authenticate", b'Basic realm="pulsed", charset="UTF-8"')


def protected(
    app: App, live: WebConfigReloader, settings: WebServerSettings, count: Callable[[str, int], None], metrics: str
) -> App:
    """Return an application with a web configuration in front of it; `metrics` is the path of the metrics page."""
    open_paths = PROBES if settings.open_probes else frozenset[str]()
    return AuthMiddleware(ConfiguredHeaders(app, live), live, count, PROBES | {metrics}, open_paths, settings.prefix)


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
        if self._bucket is not None and not self._bucket.consume_token(time.monotonic()):
            await self._refuse(scope, send, 429, b"Too Many Requests\n", (b"retry-after", b"1"))
            return
        users = self._live.now.users
        if users is not None and not self._is_open(scope):
            authorization = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            allowed = users.cached(authorization) if authorization else False
            if allowed is None:
                try:
                    allowed = await users.check(authorization, client_of(scope))
                except LaneFull:
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

    def consume_token(self, now: float) -> bool:
        """Consume a token; return false if none is left."""
        self._stock = min(self._burst, self._stock + (now - self._time) / self._interval)
        self._time = now
        if self._stock < 1:
            return False
        self._stock -= 1
        return True


class ConfiguredHeaders:
    """ASGI middleware that removes headers which the web configuration sets: the server adds these to every response.

    Two policies for contents would both be in force, and other headers would be repeated.
    """

    def __init__(self, app: App, live: WebConfigReloader) -> None:
        self._app, self._live = app, live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        names = {name for name, _ in self._live.now.headers}
        if not names:
            await self._app(scope, receive, send)
            return

        async def remove(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [each for each in message["headers"] if each[0] not in names]}
            await send(message)

        await self._app(scope, receive, remove)
