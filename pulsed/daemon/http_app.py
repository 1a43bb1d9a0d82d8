"""The HTTP application of the daemon: `/metrics`, probes and management, and what all requests share.

Nothing here waits for a source, and no state of a source makes an answer fail.

Documents of the API are made one at a time: together they would take the memory and the time that scrapes need.
Documents of the present wait neither for documents whose size a client chooses, nor for documents from files.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from starlette.routing import BaseRoute

from pulsed.errors import GpuNotForgettable, GpuNotFound
from pulsed.json_text import json_bytes
from pulsed.lane import Lane, LaneFull
from pulsed.model.clocks import Monotonic
from pulsed.model.target_store import TargetStore
from pulsed.present.api.routing import PlainRoute
from pulsed.present.asgi import (
    FORGET,
    HEAD_ONLY,
    PLAIN_TEXT,
    PROBES,
    READY,
    RELOAD,
    App,
    Header,
    Message,
    Receive,
    Scope,
    Send,
    client_of,
    header_of,
    respond,
    route_of,
)
from pulsed.present.exposition.page import Pages, compress
from pulsed.present.exposition.text_format import accepts_gzip, choose_format, only_named

MAX_WAITING, PATIENCE_SECONDS = 128, 5.0
"""Number of requests that may wait for their document, and the seconds that they wait; others get 503."""

_OF_THE_PRESENT = re.compile(r"/|/static/.*|/health/[^/]+|/gpus(/[^/]+(/class)?)?|/workloads|/host|/version")
"""Paths of documents of the present state, and of files that never change."""

_WITH_OWN_LANES = re.compile(r"/jobs(/.*)?|/report")
"""Paths of documents that may be made of files; see `owner_router`."""


class WholeAnswer(NamedTuple):
    """An answer that is made as a whole."""

    status: int
    body: bytes
    headers: tuple[Header, ...] = ()
    content_type: bytes = PLAIN_TEXT

    async def send(self, scope: Scope, send: Send) -> None:
        """Send the answer."""
        await respond(scope, send, self.status, self.body, *self.headers, content_type=self.content_type)


def _text(status: int, text: str, *headers: Header) -> WholeAnswer:
    return WholeAnswer(status, f"{text}\n".encode(), headers)


_ONLY_READS = _text(405, "only GET and HEAD", (b"allow", b"GET, HEAD"))


class _Endpoint:
    """An endpoint of all methods."""

    def __init__(self, answer: Callable[[Scope], Awaitable[WholeAnswer]]) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (await self._answer(scope)).send(scope, send)


def _reads(scope: Scope) -> bool:
    """Return whether a request changes nothing."""
    return scope["method"] in ("GET", "HEAD")


class FrontRoutes:
    """The routes that need neither documents nor a turn: the metrics page, probes, and management.

    Attributes:
        max_requests: metrics pages that are sent at once; 0: any number.

    Args:
        reload: reloads the configuration and returns its error; None: requests that change something are refused.
        forget: forgets an absent GPU by its name and its node, and returns a text; raises as `CollectorPool.forget`.
    """

    def __init__(
        self,
        store: TargetStore,
        pages: Pages,
        telemetry_path: str,
        max_requests: int,
        reload: Callable[[], Awaitable[str]] | None,
        forget: Callable[[str, str | None], Awaitable[str]] | None,
    ) -> None:
        self._store, self._pages, self._telemetry_path = store, pages, telemetry_path
        self.max_requests = max_requests
        self._reload, self._forget = reload, forget
        self._running = 0

    @property
    def paths(self) -> frozenset[str]:
        """The paths of all routes."""
        return PROBES | {self._telemetry_path, RELOAD, FORGET}

    def routes(self) -> list[BaseRoute]:
        """Return the routes, of any method."""
        answers = {self._telemetry_path: self._metrics, RELOAD: self._manage, FORGET: self._manage}
        return [PlainRoute(path, _Endpoint(answers.get(path, self._probe))) for path in self.paths]

    async def _metrics(self, scope: Scope) -> WholeAnswer:
        """Return the metrics page."""
        if not _reads(scope):
            return _ONLY_READS
        query = parse_qs(scope["query_string"].decode("latin-1"))
        if "collect[]" in query:
            return _text(400, "collect[] is not supported: every page has all collectors; name[]=FAMILY selects series")
        if self.max_requests and self._running >= self.max_requests:
            return _text(503, "too many requests at the same time", (b"retry-after", b"1"))
        self._running += 1
        try:
            accept, encoding = (header_of(scope["headers"], name) for name in (b"accept", b"accept-encoding"))
            chosen, gzip = choose_format(accept), accepts_gzip(encoding)
            body = await self._page(query.get("name[]", ()), openmetrics=chosen.openmetrics, gzip=gzip)
        finally:
            self._running -= 1
        headers = ((b"vary", b"Accept, Accept-Encoding"), *(((b"content-encoding", b"gzip"),) if gzip else ()))
        return WholeAnswer(200, body, headers, chosen.content_type.encode())

    async def _page(self, names: Collection[str], *, openmetrics: bool, gzip: bool) -> bytes:
        """Return the page, or the part of it with samples of these names, as client_python's `name[]` selects them."""
        page = await self._pages.serve(Monotonic(time.monotonic()), openmetrics=openmetrics, gzip=gzip and not names)
        if not names:
            return page
        part = await asyncio.to_thread(only_named, page, frozenset(names))
        return compress(part) if gzip else part

    async def _probe(self, scope: Scope) -> WholeAnswer:
        if not _reads(scope):
            return _ONLY_READS
        if route_of(scope, scope["root_path"]) != READY:
            return _text(200, "pulsed is healthy")
        now, targets = Monotonic(time.monotonic()), self._store.targets
        if any(target.delivers(now) for target in targets):
            return _text(200, "pulsed is ready")
        why = [f"{target.name}: {target.failure}" for target in targets]
        return _text(503, "\n".join(("no fresh data", *why)), (b"retry-after", b"5"))

    async def _manage(self, scope: Scope) -> WholeAnswer:
        """Do what changes something, if it is enabled."""
        path = route_of(scope, scope["root_path"])
        if self._reload is None or self._forget is None:
            hint = ", SIGHUP reloads" if path == RELOAD else ""
            return _text(403, f"POST {path} is off; --web.enable-lifecycle allows it{hint}")
        if scope["method"] not in ("POST", "PUT"):
            return _text(405, "only POST and PUT", (b"allow", b"POST, PUT"))
        if not _is_same_site(scope):
            return _text(403, f"POST {path} is not accepted from a page of another site")
        if path == RELOAD:
            problem = await self._reload()
            return _text(500, f"the old configuration stays: {problem}") if problem else _text(200, "reloaded")
        query = parse_qs(scope["query_string"].decode("latin-1"))
        if not (gpus := query.get("gpu")):
            return _text(400, f"name the GPU: {FORGET}?gpu=UUID")
        try:
            return _text(200, await self._forget(gpus[0], next(iter(query.get("node", ())), None)))
        except GpuNotFound as error:
            return _text(404, str(error))
        except GpuNotForgettable as error:
            return _text(409, str(error))


class DaemonApp:
    """The ASGI application: counts requests, applies the route prefix, and gives documents their turn.

    Args:
        count: called with the path of the route and the status of each answer; `other` stands for unknown paths.
        route_prefix: prefix of all paths, without a slash at the end. `/` and probes redirect to it; others are 404.
        without_turn: paths whose answers do not wait for others.
    """

    def __init__(
        self, api: App, count: Callable[[str, int], None], route_prefix: str, without_turn: Collection[str]
    ) -> None:
        self._api = api
        self._count, self._route_prefix = count, route_prefix
        self._without_turn = frozenset(without_turn)
        self._present, self._large = (Lane(PATIENCE_SECONDS, MAX_WAITING) for _ in range(2))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        status, path = 500, route_of(scope, self._route_prefix)
        if path is None:
            outside = self._outside(scope)
            self._count("other", outside.status)
            await outside.send(scope, send)
            return
        scope = {**scope, "root_path": self._route_prefix}
        if scope["method"] == "HEAD":  # the server leaves the body away
            scope |= {"method": "GET", HEAD_ONLY: True}

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if path in self._without_turn or _WITH_OWN_LANES.fullmatch(path):
                await self._api(scope, receive, watch)
            else:
                lane = self._present if _OF_THE_PRESENT.fullmatch(path) else self._large
                await self._in_turn(lane, scope, receive, watch)
        finally:
            self._count(getattr(scope.get("route"), "path", "other"), status)

    def _outside(self, scope: Scope) -> WholeAnswer:
        """Return the answer outside the route prefix."""
        if not _reads(scope):
            return _ONLY_READS
        root, path = f"{self._route_prefix}/", scope["path"]
        places = {"/": root, self._route_prefix: root} | {probe: f"{self._route_prefix}{probe}" for probe in PROBES}
        text = f"all pages are below {root}"
        return _text(302, text, (b"location", places[path].encode())) if path in places else _text(404, text)

    async def _in_turn(self, lane: Lane, scope: Scope, receive: Receive, send: Send) -> None:
        """Make one answer at a time; while one is sent, the next is made."""
        client, has_turn = client_of(scope), True

        def release() -> None:
            nonlocal has_turn
            if has_turn:
                has_turn = False
                lane.release()

        async def send_without_turn(message: Message) -> None:
            if message["type"] == "http.response.body":
                release()
            await send(message)

        try:
            await lane.acquire(client.network, client.is_gone)
        except LaneFull:
            body = json_bytes({"error": "too many requests at the same time; try again in a second"})
            headers = ((b"retry-after", b"1"), (b"connection", b"close"))  # else what is pipelined comes at once
            await respond(scope, send, 503, body, *headers, content_type=b"application/json")
            return
        try:
            await self._api(scope, receive, send_without_turn)
        finally:
            release()


def _is_same_site(scope: Scope) -> bool:
    """Return whether a request comes from no page of another site, by what browsers send with it."""
    headers = dict(scope["headers"])
    if (site := headers.get(b"sec-fetch-site")) is not None:  # sent over TLS only, and to this machine
        return site in (b"none", b"same-origin")
    origin = headers.get(b"origin")
    return origin is None or urlsplit(origin.decode("latin-1")).netloc.encode() == headers.get(b"host")
