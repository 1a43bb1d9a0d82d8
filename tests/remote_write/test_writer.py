"""The queue of remote write, against a server that refuses, fails, and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from http.server import ThreadingHTTPServer

import pytest

from pulsed.remote_write import writer as module
from pulsed.remote_write.messages import STALE
from pulsed.remote_write.settings import RemoteWriteSettings
from pulsed.remote_write.writer import RemoteWriter
from support.http_servers import QuietHandler, running
from support.waiting import eventually

PAGES = [b'a{b="1"} 1\nc 2\n', b"d 3\n"]


class Receiver(ThreadingHTTPServer):
    """Answers with these statuses, then with 204; keeps what it took."""

    def __init__(self, statuses: Sequence[int]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.statuses = list(statuses)
        self.taken: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.url = f"http://user:secret@127.0.0.1:{self.server_port}/write"


class Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.statuses.pop(0) if self.server.statuses else 204
        if status < 300:
            self.server.taken.append(body)
            self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


class Written:
    """A writer at work; `pages` are those that it reads."""

    def __init__(self, url: str) -> None:
        self.pages = list(PAGES)
        self.writer = RemoteWriter(self.read, lambda: "node-1")
        self.writer.configure(RemoteWriteSettings(url=url, interval=0.05, headers={"X-Scope-OrgID": "gpus"}))
        self.task: asyncio.Task[None]

    async def read(self) -> AsyncIterator[bytes]:
        for page in self.pages:
            yield page

    async def __aenter__(self) -> Written:
        self.task = asyncio.create_task(self.writer.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def test_what_fails_is_sent_again_and_all_series_end_with_the_daemon() -> None:
    async def main(receiver: Receiver) -> None:
        async with Written(receiver.url) as written:
            await eventually(lambda: len(receiver.taken) >= 2)
            assert not any(written.writer.dropped.values())
            assert (written.writer.sent or 0) >= 3
        assert receiver.taken[-1].count(STALE) == 3

    with running(receiver := Receiver([503, 429, 500])):
        asyncio.run(main(receiver))
    assert b"node-1" in receiver.taken[0]
    assert receiver.headers[0]["authorization"] == "Basic dXNlcjpzZWNyZXQ="
    assert receiver.headers[0]["x-scope-orgid"] == "gpus"
    assert receiver.headers[0]["content-encoding"] == "snappy"
    assert receiver.headers[0]["x-prometheus-remote-write-version"] == "0.1.0"


def test_a_series_that_ends_gets_a_marker() -> None:
    async def main(receiver: Receiver) -> None:
        async with Written(receiver.url) as written:
            await eventually(lambda: bool(receiver.taken))
            del written.pages[1]
            await eventually(lambda: any(body.count(STALE) == 1 for body in receiver.taken))

    with running(receiver := Receiver([])):
        asyncio.run(main(receiver))


def test_what_the_server_refuses_is_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def main(receiver: Receiver) -> None:
        async with Written(receiver.url) as written:
            await eventually(lambda: bool(receiver.taken))
            assert written.writer.dropped == {"expired": 0, "full": 0, "refused": 3}

    with running(receiver := Receiver([400])):
        asyncio.run(main(receiver))
    assert [record.message for record in caplog.records] == ["remote write fails"]
    assert "secret" not in str(caplog.records[0].__dict__)


def test_what_waits_for_too_long_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUE_SECONDS", 0.0)
    monkeypatch.setattr(module, "_END_SECONDS", 0.0)

    async def main() -> None:
        async with Written("http://127.0.0.1:1/write") as written:
            await eventually(lambda: written.writer.dropped["expired"] >= 6)
            assert written.writer.sent == 0

    asyncio.run(main())


def test_the_queue_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUE_BYTES", 1000)
    monkeypatch.setattr(module, "_END_SECONDS", 0.0)

    async def main() -> None:
        async with Written("http://127.0.0.1:1/write") as written:
            await eventually(lambda: written.writer.dropped["full"] >= 6)

    asyncio.run(main())


def test_another_server_gets_all_from_then_on() -> None:
    async def main(first: Receiver, second: Receiver) -> None:
        async with Written(first.url) as written:
            await eventually(lambda: bool(first.taken))
            written.writer.configure(RemoteWriteSettings(url=second.url, interval=0.05))
            await eventually(lambda: bool(second.taken))
            written.writer.configure(RemoteWriteSettings())
            await eventually(lambda: second.taken[-1].count(STALE) == 3)
        assert any(body.count(STALE) == 3 for body in first.taken)

    with running(first := Receiver([])), running(second := Receiver([])):
        asyncio.run(main(first, second))
