"""The queue of a pusher, against a server that refuses, fails, and comes back."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from pulsed.daemon import otlp_pusher as module
from pulsed.daemon.otlp_pusher import Pusher
from pulsed.present.otlp.encoder import OtlpEncoder
from pulsed.present.otlp.settings import OtlpSettings
from tests.support.certificates import make
from tests.support.http_servers import QuietHandler, running
from tests.support.waiting import eventually

PAGES = [b'# TYPE a gauge\na{b="1"} 1\n# TYPE c gauge\nc 2\n', b"# TYPE d gauge\nd 3\n"]


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


def ended(body: bytes) -> int:
    """Return how many series end with a message."""
    (resource,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    (scope,) = resource.scope_metrics
    return sum(point.flags for metric in scope.metrics for point in metric.gauge.data_points)


class Pushed:
    """A pusher at work; `pages` are those that it reads."""

    def __init__(self, url: str, **settings: str) -> None:
        self.pages = list(PAGES)
        self.pusher = Pusher(lambda plan: OtlpEncoder(plan, self.read, tuple, lambda: "node-1"))
        self.headers = {"X-Scope-OrgID": "gpus"}
        self.configure(url, **settings)
        self.task: asyncio.Task[None]

    def configure(self, url: str | None, **settings: str) -> None:
        on = url is not None
        given = OtlpSettings(url, self.headers, enabled=on, compression="none", interval=0.05, **settings)  # type: ignore[arg-type]  # names of files
        self.pusher.configure(given.plan({}))

    async def read(self) -> AsyncIterator[bytes]:
        for page in self.pages:
            yield page

    async def __aenter__(self) -> Pushed:
        self.task = asyncio.create_task(self.pusher.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def test_what_fails_is_sent_again_and_all_series_end_with_the_daemon() -> None:
    async def main(receiver: Receiver) -> None:
        async with Pushed(receiver.url) as pushed:
            await eventually(lambda: len(receiver.taken) >= 2)
            assert not any(pushed.pusher.dropped.values())
            assert (pushed.pusher.sent or 0) >= 3
        assert ended(receiver.taken[-1]) == 3

    with running(receiver := Receiver([503, 429, 502])):
        asyncio.run(main(receiver))
    assert b"node-1" in receiver.taken[0]
    assert receiver.headers[0]["authorization"] == "Basic dXNlcjpzZWNyZXQ="
    assert receiver.headers[0]["x-scope-orgid"] == "gpus"
    assert receiver.headers[0]["content-type"] == "application/x-protobuf"


def test_a_series_that_ends_gets_a_marker() -> None:
    async def main(receiver: Receiver) -> None:
        async with Pushed(receiver.url) as pushed:
            await eventually(lambda: bool(receiver.taken))
            del pushed.pages[1]
            await eventually(lambda: any(ended(body) == 1 for body in receiver.taken))

    with running(receiver := Receiver([])):
        asyncio.run(main(receiver))


def test_what_the_server_refuses_is_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def main(receiver: Receiver) -> None:
        async with Pushed(receiver.url) as pushed:
            await eventually(lambda: bool(receiver.taken))
            assert pushed.pusher.dropped == {"expired": 0, "full": 0, "refused": 3}

    with running(receiver := Receiver([400])):
        asyncio.run(main(receiver))
    assert [record.message for record in caplog.records] == ["otlp fails"]
    assert "secret" not in str(caplog.records[0].__dict__)


def test_what_waits_for_too_long_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUE_SECONDS", 0.0)
    monkeypatch.setattr(module, "_END_SECONDS", 0.0)

    async def main() -> None:
        async with Pushed("http://127.0.0.1:1/write") as pushed:
            await eventually(lambda: pushed.pusher.dropped["expired"] >= 6)
            assert pushed.pusher.sent == 0

    asyncio.run(main())


def test_the_queue_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUE_BYTES", 1000)
    monkeypatch.setattr(module, "_END_SECONDS", 0.0)

    async def main() -> None:
        async with Pushed("http://127.0.0.1:1/write") as pushed:
            await eventually(lambda: pushed.pusher.dropped["full"] >= 6)

    asyncio.run(main())


def test_another_server_gets_all_from_then_on() -> None:
    async def main(first: Receiver, second: Receiver) -> None:
        async with Pushed(first.url) as pushed:
            await eventually(lambda: bool(first.taken))
            pushed.configure(second.url)
            await eventually(lambda: bool(second.taken))
            pushed.configure(None)
            await eventually(lambda: ended(second.taken[-1]) == 3)
        assert any(ended(body) == 3 for body in first.taken)

    with running(first := Receiver([])), running(second := Receiver([])):
        asyncio.run(main(first, second))


def test_an_error_in_reading_is_logged_and_counted_and_the_next_interval_is_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(receiver: Receiver) -> None:
        async with Pushed(receiver.url) as pushed:
            pushed.pages = [b"# TYPE a gauge\nnot a sample"]
            await eventually(lambda: pushed.pusher.failed_reads >= 2)
            assert not receiver.taken
            pushed.pages = PAGES
            await eventually(lambda: bool(receiver.taken))

    with running(receiver := Receiver([])):
        asyncio.run(main(receiver))
    assert {record.message for record in caplog.records} == {"series could not be read"}


def test_an_error_in_sending_does_not_end_it(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [True, True]

    def fail_at_first(self: OtlpEncoder, status: int) -> bool:
        if broken:
            broken.pop()
            raise RuntimeError("broken")
        return True

    monkeypatch.setattr(OtlpEncoder, "is_temporary", fail_at_first)

    async def main(receiver: Receiver) -> None:
        async with Pushed(receiver.url):
            await eventually(lambda: bool(receiver.taken))

    with running(receiver := Receiver([503] * 3)):
        asyncio.run(main(receiver))
    assert "a message could not be sent" in {record.message for record in caplog.records}


def test_the_server_gets_a_client_certificate(tmp_path: Path) -> None:
    authority = make("authority", authority=True)
    (tmp_path / "ca.crt").write_bytes(authority.cert_pem)
    server_files, (cert, key) = (make(name, authority).write(tmp_path, name) for name in ("localhost", "client"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca.crt"))
    context.load_cert_chain(*server_files)
    context.verify_mode = ssl.CERT_REQUIRED
    receiver = Receiver([])
    receiver.socket = context.wrap_socket(receiver.socket, server_side=True)

    async def main() -> None:
        url = f"https://localhost:{receiver.server_port}/write"
        async with Pushed(url, ca_file=str(tmp_path / "ca.crt"), cert_file=str(cert), key_file=str(key)):
            await eventually(lambda: bool(receiver.taken))

    with running(receiver):
        asyncio.run(main())


def test_keys_of_certificates_are_checked(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("nothing")
    bad = str(tmp_path / "bad.pem")
    assert [key for key, _ in OtlpSettings(key_file=bad).problems()] == ["key_file"]
    settings = OtlpSettings(ca_file=bad, cert_file=bad, bearer_token_file=str(tmp_path / "none"))
    assert [key for key, _ in settings.unusable()] == ["bearer_token_file", "ca_file", "cert_file"]
