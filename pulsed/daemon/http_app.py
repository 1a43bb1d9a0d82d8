"""The HTTP side's front: one ASGI application that answers the hot and the vital paths by itself.

`/metrics` goes out as the bytes that were rendered for the tick, and the probes are answered without any framework;
everything else is the JSON API's, which is loaded by the first request that needs it: a node that is only scraped never
pays its memory. Nothing here waits for a source, and no state of a source makes an answer fail.

Documents of the API are made one at a time: their size is up to the client, and together they would take the memory
and the time that scrapes need.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from pulsed.errors import GpuNotForgettable, GpuNotFound
from pulsed.json_text import json_text
from pulsed.model.target_store import TargetStore
from pulsed.present.asgi import (
    EVENTS,
    FORGET,
    HEAD_ONLY,
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
from pulsed.present.exposition.page import Pages
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.present.exposition.text_format import accepts_gzip, choose_format
from pulsed.server.fair_queue import FairQueue, QueueFull

MOST_WAITING, PATIENCE_SECONDS = 128, 5.0
"""How many requests may wait for their document to be made, and how long; others get 503."""


class _Answer(NamedTuple):
    """A status, a text without its last line break, and headers."""

    status: int
    text: str
    headers: tuple[Header, ...] = ()


_ONLY_READS = _Answer(405, "only GET and HEAD", ((b"allow", b"GET, HEAD"),))


def _reads(scope: Scope) -> bool:
    """Return whether a request changes nothing."""
    return scope["method"] in ("GET", "HEAD")


class DaemonApp:
    """The ASGI application.

    Args:
        api: makes the application for every other path; called in a thread when it is first needed.
        reload: reloads the configuration and returns its error; None: requests that change something are refused.
        forget: forgets an absent GPU by its name and its node, and returns a text; raises as `CollectorPool.forget`.
        route_prefix: prefix of all paths, without a slash at the end. `/` and probes redirect to it; others are 404.
    """

    def __init__(
        self,
        store: TargetStore,
        pages: Pages,
        api: Callable[[], App],
        telemetry: Telemetry,
        telemetry_path: str,
        max_requests: int,
        reload: Callable[[], str] | None,
        forget: Callable[[str, str | None], Awaitable[str]] | None,
        route_prefix: str,
    ) -> None:
        self._store = store
        self._pages = pages
        self._make_api = api
        self._api: asyncio.Future[App] | None = None
        self._telemetry = telemetry
        self._telemetry_path = telemetry_path
        self._max_requests = max_requests
        self._reload, self._forget = reload, forget
        self._route_prefix = route_prefix
        self._running = 0
        self._turns = FairQueue(MOST_WAITING, PATIENCE_SECONDS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        path = route_of(scope, self._route_prefix)
        if path == self._telemetry_path:
            await self._metrics(scope, send)
        elif path is None:
            await self._answer("other", self._outside(scope), scope, send)
        elif path in PROBES:
            await self._answer(path, self._probe(path, scope), scope, send)
        elif path in (RELOAD, FORGET):
            await self._answer(path, await self._manage(path, scope), scope, send)
        else:
            await self._others(scope, receive, send)

    def reconfigure(self, max_requests: int) -> None:
        """Serve by a changed configuration: call `api` again when it is needed next."""
        self._max_requests, self._api = max_requests, None

    async def _answer(self, name: str, answer: _Answer, scope: Scope, send: Send) -> None:
        self._telemetry.count_request(name, answer.status)
        body = f"{answer.text}\n".encode()
        await respond(scope, send, answer.status, body, *answer.headers)

    async def _metrics(self, scope: Scope, send: Send) -> None:
        """Answer with the metrics page."""
        path = self._telemetry_path
        if not _reads(scope):
            await self._answer(path, _ONLY_READS, scope, send)
            return
        if self._max_requests and self._running >= self._max_requests:
            busy = _Answer(503, "too many requests at the same time", ((b"retry-after", b"1"),))
            await self._answer(path, busy, scope, send)
            return
        self._running += 1
        try:
            await self._page(scope, send)
        finally:
            self._running -= 1

    async def _page(self, scope: Scope, send: Send) -> None:
        accept, encoding = (header_of(scope["headers"], name) for name in (b"accept", b"accept-encoding"))
        chosen, gzip = choose_format(accept), accepts_gzip(encoding)
        self._telemetry.count_request(self._telemetry_path, 200)
        body = await self._pages.serve(time.monotonic(), openmetrics=chosen.openmetrics, gzip=gzip)
        headers = [(b"vary", b"Accept, Accept-Encoding"), *([(b"content-encoding", b"gzip")] if gzip else ())]
        await respond(scope, send, 200, body, *headers, content_type=chosen.content_type.encode())

    def _probe(self, path: str, scope: Scope) -> _Answer:
        if not _reads(scope):
            return _ONLY_READS
        if path != READY:
            return _Answer(200, "pulsed is healthy")
        now, targets = time.monotonic(), self._store.targets
        if any(target.fresh(now) for target in targets):
            return _Answer(200, "pulsed is ready")
        why = [f"{target.name}: {target.error or 'no data yet'}" for target in targets]
        return _Answer(503, "\n".join(("no fresh data", *why)), ((b"retry-after", b"5"),))

    async def _manage(self, path: str, scope: Scope) -> _Answer:
        """Do what changes something, if it is enabled."""
        if self._reload is None or self._forget is None:
            hint = ", SIGHUP reloads" if path == RELOAD else ""
            return _Answer(403, f"POST {path} is off; --web.enable-lifecycle allows it{hint}")
        if scope["method"] not in ("POST", "PUT"):
            return _Answer(405, "only POST and PUT", ((b"allow", b"POST, PUT"),))
        if not _is_same_site(scope):
            return _Answer(403, f"POST {path} is not accepted from a page of another site")
        if path == RELOAD:
            problem = self._reload()
            return _Answer(500, f"the old configuration stays: {problem}") if problem else _Answer(200, "reloaded")
        return await _forgotten(self._forget, parse_qs(scope["query_string"].decode("latin-1")))

    def _outside(self, scope: Scope) -> _Answer:
        """Return the answer outside the route prefix."""
        if not _reads(scope):
            return _ONLY_READS
        root, path = f"{self._route_prefix}/", scope["path"]
        places = {"/": root, self._route_prefix: root} | {probe: f"{self._route_prefix}{probe}" for probe in PROBES}
        text = f"all pages are below {root}"
        return _Answer(302, text, ((b"location", places[path].encode()),)) if path in places else _Answer(404, text)

    async def _others(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = 500
        path = route_of(scope, self._route_prefix)
        scope = {**scope, "root_path": self._route_prefix}
        if scope["method"] == "HEAD":  # the server leaves the body away
            scope = {**scope, "method": "GET", HEAD_ONLY: True}

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        if self._api is None:
            # In a thread: the import takes some 0.2 s, and ticks go on arriving.
            self._api = asyncio.ensure_future(asyncio.to_thread(self._make_api))
        try:
            api = await asyncio.shield(self._api)
            # Streams end when the client wishes: these wait for nobody.
            answer = api if path == EVENTS else self._in_turn(api)
            await answer(scope, receive, watch)
        finally:
            route = scope.get("route")
            self._telemetry.count_request(getattr(route, "path", "other"), status)

    def _in_turn(self, app: App) -> App:
        """Return an application that makes one answer at a time; while one is sent, the next is made."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            has_turn = True

            def release() -> None:
                nonlocal has_turn
                if has_turn:
                    has_turn = False
                    self._turns.release()

            async def send_without_turn(message: Message) -> None:
                if message["type"] == "http.response.body":
                    release()
                await send(message)

            client = client_of(scope)
            try:
                await self._turns.acquire(client.network, client.is_gone)
            except QueueFull:
                await _busy(scope, send)
                return
            try:
                await app(scope, receive, send_without_turn)
            finally:
                release()

        return answer


async def _busy(scope: Scope, send: Send) -> None:
    body = json_text({"error": "too many requests at the same time; try again in a second"}).encode()
    headers = ((b"retry-after", b"1"), (b"connection", b"close"))  # else what is pipelined comes at once
    await respond(scope, send, 503, body, *headers, content_type=b"application/json")


def _is_same_site(scope: Scope) -> bool:
    """Return whether a request comes from no page of another site, by what browsers send with it."""
    headers = dict(scope["headers"])
    if (site := headers.get(b"sec-fetch-site")) is not None:  # sent over TLS only, and to this machine
        return site in (b"none", b"same-origin")
    origin = headers.get(b"origin")
    return origin is None or urlsplit(origin.decode("latin-1")).netloc.encode() == headers.get(b"host")


async def _forgotten(
    forget: Callable[[str, str | None], Awaitable[str]], query: Mapping[str, Sequence[str]]
) -> _Answer:
    """Forget the GPU of a query; return what was forgotten, or the error."""
    if not (gpus := query.get("gpu")):
        return _Answer(400, f"name the GPU: {FORGET}?gpu=UUID")
    try:
        return _Answer(200, await forget(gpus[0], next(iter(query.get("node", ())), None)))
    except GpuNotFound as error:
        return _Answer(404, str(error))
    except GpuNotForgettable as error:
        return _Answer(409, str(error))
