"""What the daemon's application limits: pages and documents that are made at the same time."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest
from fastapi import FastAPI

from pulsed.daemon import http_app as module
from pulsed.daemon.http_app import DaemonApp, FrontRoutes
from pulsed.model.target_store import TargetStore
from pulsed.present.api.routing import PlainRoute
from pulsed.present.asgi import CLIENT, EVENTS, App, Client, Message, Receive, Scope, Send, respond
from pulsed.present.exposition.page import Pages
from pulsed.present.exposition.telemetry import Telemetry

Answer = tuple[int, dict[bytes, bytes], bytes]


class SlowPages:
    """Pages that are not ready until they are released."""

    def __init__(self) -> None:
        self.release = asyncio.Event()

    async def serve(self, now: float, **wanted: object) -> bytes:
        await self.release.wait()
        return b"page"


class Api:
    """An application that counts how many of its answers are made at once; `/long` sends two pieces."""

    def __init__(self) -> None:
        self.making = self.most = 0
        self.sent: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.making += 1
        self.most = max(self.most, self.making)
        await asyncio.sleep(0.001)
        self.making -= 1
        if scope["path"] == "/broken":
            raise ValueError
        if scope["path"] == "/long":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"1", "more_body": True})
            await send({"type": "http.response.body", "body": b"2"})
        else:
            await respond(scope, send, 200, b"document")
        self.sent.append(scope["path"])


def daemon_app(api: App, pages: object = None, max_requests: int = 1) -> DaemonApp:
    store = TargetStore("node")
    telemetry = Telemetry(store)
    pages = cast("Pages", pages) or Pages(store, telemetry)
    front = FrontRoutes(store, pages, "/metrics", max_requests, None, None)
    application = FastAPI(openapi_url=None)
    application.router.routes.extend([*front.routes(), PlainRoute("/{path:path}", api)])
    return DaemonApp(application, telemetry.count_request, "", (*front.paths, EVENTS))


async def ask(app: App, path: str, client: str = "", reads: asyncio.Event | None = None) -> Answer:
    """Return the answer to a request of a client, which reads nothing before the event is set."""
    said: list[Message] = []
    path, _, query = path.partition("?")

    async def send(message: Message) -> None:
        if reads is not None and message["type"] == "http.response.body":
            await reads.wait()
        said.append(message)

    async def receive() -> Any:
        raise AssertionError("no body is read")

    scope = {
        "type": "http",
        "method": "GET",
        "headers": [(b"host", b"a:1")],
        "query_string": query.encode(),
    }
    await app({**scope, "path": path, "raw_path": path.encode(), "state": {CLIENT: Client(client)}}, receive, send)
    return said[0]["status"], dict(said[0]["headers"]), b"".join(each["body"] for each in said[1:])


async def test_a_page_is_selected_by_names_and_not_by_collectors() -> None:
    app = daemon_app(Api())
    names = "name[]=pulsed_build_info&name[]=pulsed_tick_duration_seconds_count&name[]=pulsed_nothing"
    status, _, body = await ask(app, f"/metrics?{names}")
    assert status == 200
    assert [line.split("{")[0] for line in body.decode().splitlines()] == [
        "# HELP pulsed_build_info Version and revision of pulsed, and version of Python",
        "# TYPE pulsed_build_info gauge",
        "pulsed_build_info",
        "# HELP pulsed_tick_duration_seconds Time of a layer for one tick of one source",
        "# TYPE pulsed_tick_duration_seconds histogram",
        *["pulsed_tick_duration_seconds_count"] * 4,
    ]
    assert (await ask(app, "/metrics?name[]=pulsed_nothing"))[::2] == (200, b"")
    status, _, body = await ask(app, "/metrics?collect[]=cpu")
    assert status == 400
    assert b"name[]" in body


async def test_more_pages_at_a_time_than_allowed_are_a_503() -> None:
    pages = SlowPages()
    app = daemon_app(Api(), pages, max_requests=2)
    first = [asyncio.create_task(ask(app, "/metrics")) for _ in range(2)]
    await asyncio.sleep(0)
    status, headers, _ = await ask(app, "/metrics")
    assert (status, headers[b"retry-after"]) == (503, b"1")
    assert (await ask(app, "/-/healthy"))[0] == 200
    pages.release.set()
    assert [status for status, _, _ in await asyncio.gather(*first)] == [200, 200]
    assert (await ask(app, "/metrics"))[::2] == (200, b"page")


async def test_documents_are_made_one_at_a_time() -> None:
    api = Api()
    answers = await asyncio.gather(*[ask(daemon, "/gpus") for daemon in [daemon_app(api)] * 40])
    assert {answer[0] for answer in answers} == {200}
    assert api.most == 1


async def test_an_unread_answer_delays_no_other() -> None:
    app, reads = daemon_app(Api()), asyncio.Event()
    unread = [asyncio.create_task(ask(app, path, reads=reads)) for path in ("/gpus", "/long", "/history")]
    assert (await ask(app, "/gpus"))[::2] == (200, b"document")
    reads.set()
    assert [body for _, _, body in await asyncio.gather(*unread)] == [b"document", b"12", b"document"]


async def test_streams_wait_for_nobody() -> None:
    api = Api()
    app = daemon_app(api)
    await asyncio.gather(*[ask(app, "/events") for _ in range(5)])
    assert api.most == 5


async def test_large_documents_do_not_delay_those_of_the_present() -> None:
    release = asyncio.Event()

    class WaitingApi:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            if scope["path"].endswith(("/history", ".json")):
                await release.wait()
            await respond(scope, send, 200, b"document")

    app = daemon_app(WaitingApi())
    large = [asyncio.create_task(ask(app, path)) for path in ("/history", "/gpus/0/history", "/openapi.json")]
    await asyncio.sleep(0)
    for path in ("/health/gpus", "/gpus", "/gpus/0", "/workloads", "/jobs", "/report"):
        assert (await ask(app, path))[0] == 200
    assert not any(each.done() for each in large)
    release.set()
    await asyncio.gather(*large)


async def test_too_many_requests_are_a_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 4)
    app = daemon_app(Api())
    crowd = [asyncio.create_task(ask(app, "/history", "crowd")) for _ in range(10)]
    await asyncio.sleep(0)
    answers = await asyncio.gather(*crowd)
    refused = [answer for answer in answers if answer[0] == 503]
    assert len(refused) in (5, 6)
    _, headers, body = refused[0]
    assert (headers[b"retry-after"], headers[b"connection"]) == (b"1", b"close")
    assert json.loads(body)["error"].startswith("too many requests")


async def test_an_answer_that_fails_leaves_the_turn_to_the_next() -> None:
    app = daemon_app(Api())
    with pytest.raises(ValueError):  # noqa: PT011 - it has no text
        await ask(app, "/broken")
    assert (await ask(app, "/gpus"))[0] == 200


async def test_a_request_that_is_cancelled_leaves_the_turn_to_the_next() -> None:
    app = daemon_app(Api())
    task = asyncio.create_task(ask(app, "/gpus"))
    for _ in range(50):
        if task.done():
            break
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (await ask(app, "/gpus"))[0] == 200
