"""The server with a small application, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from pulsed import regular_file
from pulsed.server import connection, limits, reloader
from pulsed.server.connection import ServerConnection, TlsProtocol, all_connections
from pulsed.server.http_server import Server
from pulsed.server.limits import MAX_BODY_BYTES, MAX_HEAD_BYTES, MAX_HEADER_LINES, MAX_PER_CLIENT, network_of
from pulsed.server.reloader import WebConfigReloader
from pulsed.server.settings import WebServerSettings
from tests.support.certificates import make
from tests.support.waiting import eventually

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Site:
    """An application behind the server, and what came through to it."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self.headers: list[list[tuple[bytes, bytes]]] = []
        self.answered = 0
        self.writers: list[asyncio.StreamWriter] = []
        self.release = asyncio.Event()
        self.server: Server | None = None
        self.port = 0

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        self.reached.append(scope["path"])
        self.headers.append(scope["headers"])
        if scope["path"] == "/slow":
            await self.release.wait()
        if scope["path"] == "/reads":
            while (await receive()).get("more_body"):
                pass
        body = b"x" * 20_000_000 if scope["path"] == "/large" else b"yes"
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["path"] == "/begun":
            await self.release.wait()
        await send({"type": "http.response.body", "body": body})
        self.answered += 1

    async def connect(self, tls: ssl.SSLContext | None = None, source: str = "127.0.0.1") -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls, local_addr=(source, 0))
        self.writers.append(writer)
        return reader, writer

    async def ask(self, request: bytes, client: Client | None = None) -> bytes:
        """Send a request and give all that is answered until the server closes, or the first of a connection kept."""
        reader, writer = client or await self.connect()
        writer.write(request)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        return await _until_end(reader)

    @property
    def open(self) -> int:
        assert self.server is not None
        return len(self.server.server_state.connections)


async def _until_end(reader: asyncio.StreamReader) -> bytes:
    said = b""
    with contextlib.suppress(ConnectionError, TimeoutError):
        while piece := await asyncio.wait_for(reader.read(65536), 15):
            said += piece
    return said


@contextlib.asynccontextmanager
async def serving(limits: WebServerSettings, live: WebConfigReloader | None = None) -> AsyncIterator[Site]:
    site = Site()
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        site.port = listening.getsockname()[1]
        site.server = Server(site.app, limits, live)
        task = asyncio.create_task(site.server.serve([listening]))
        await eventually(lambda: site.server is not None and site.server.started)
        try:
            yield site
        finally:
            site.release.set()
            for writer in site.writers:
                writer.transport.abort()
            site.server.stop(signal.SIGTERM)
            await task


def on_server(
    test: Callable[[Site], Awaitable[None]],
    limits: WebServerSettings | None = None,
    live: WebConfigReloader | None = None,
) -> None:
    async def run() -> None:
        async with serving(limits or WebServerSettings(), live) as site:
            await test(site)

    coroutine: Coroutine[Any, Any, None] = run()
    asyncio.run(coroutine)


GET = b"GET /metrics HTTP/1.1\r\nHost: a\r\n"
ONCE = GET + b"Connection: close\r\n\r\n"


def head_of(size: int) -> bytes:
    """A request whose request line and headers have so many bytes."""
    last = b"Connection: close\r\n\r\n"
    return GET + b"X: " + b"y" * (size - len(GET + b"X: \r\n" + last)) + b"\r\n" + last


def test_headers_up_to_the_limit_and_no_byte_more() -> None:
    async def test(site: Site) -> None:
        assert (await site.ask(head_of(MAX_HEAD_BYTES))).startswith(b"HTTP/1.1 200")
        answer = await site.ask(head_of(MAX_HEAD_BYTES + 1))
        assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
        assert b"connection: close" in answer
        many = GET + b"a: b\r\n" * (MAX_HEAD_BYTES // 2)
        assert (await site.ask(many + b"\r\n")).startswith(b"HTTP/1.1 431")
        assert site.reached == ["/metrics"]

    on_server(test)


def test_a_request_has_at_most_100_header_lines() -> None:
    async def test(site: Site) -> None:
        lines = b"a:\r\n" * (MAX_HEADER_LINES - 2)  # in addition to Host and Connection
        answer = await site.ask(GET + lines + b"Connection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200")
        assert len(site.headers[0]) == MAX_HEADER_LINES
        unfinished = GET + b"a:\r\n" * (MAX_HEADER_LINES + 1)  # the last line may go on
        assert (await site.ask(unfinished)).startswith(b"HTTP/1.1 431")
        assert site.reached == ["/metrics"]

    on_server(test)


def test_an_idle_connection_keeps_nothing_of_its_last_request() -> None:
    async def test(site: Site) -> None:
        reader, writer = await site.connect()
        writer.write(b"POST /reads HTTP/1.1\r\nHost: a\r\nX: secret\r\nContent-Length: 5\r\n\r\nstate")
        await reader.readuntil(b"yes")
        await eventually(lambda: site.answered == 1)
        assert site.server is not None
        (connection,) = site.server.server_state.connections
        assert isinstance(connection, ServerConnection)
        kept = [connection.headers, connection.scope, connection.cycle.scope, connection.cycle.body]
        assert not any(kept)

    on_server(test)


def test_a_header_without_end_is_cut_off() -> None:
    async def test(site: Site) -> None:
        reader, writer = await site.connect()
        writer.write(GET + b"X: ")
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                if writer.is_closing():
                    break
                writer.write(b"y" * 4096)
                await writer.drain()
        assert (await _until_end(reader)).startswith(b"HTTP/1.1 431")
        assert site.reached == []

    on_server(test)


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"DELETE", b"PATCH"])
def test_a_body_that_is_announced_too_large_is_refused_at_once(method: bytes) -> None:
    async def test(site: Site) -> None:
        size = b"%d" % (MAX_BODY_BYTES + 1)
        answer = await site.ask(method + b" /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: " + size + b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert site.reached == []

    on_server(test)


def test_a_body_in_chunks_is_cut_off() -> None:
    async def test(site: Site) -> None:
        for path in (b"/reads", b"/metrics"):
            reader, writer = await site.connect()
            answer = asyncio.create_task(_until_end(reader))  # now: what came before a reset is lost later
            writer.write(b"POST " + path + b" HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            sent = 0
            with contextlib.suppress(ConnectionError, TimeoutError):
                while sent < 2**30:
                    writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
                    await asyncio.wait_for(writer.drain(), 15)
                    sent += 65536
            assert sent < 2**26, "the rest is what buffers of the kernel took"
            # An application that reads no body may have answered before it was too large.
            assert (await answer).startswith((b"HTTP/1.1 413", b"HTTP/1.1 200")[: 1 + (path == b"/metrics")])

    on_server(test)


CHUNKED = b"POST /reads HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (CHUNKED + b"0\r\n", b"a:b\r\n" * 1000),
        (CHUNKED + b"0\r\nX: ", b"y" * 4096),
        (CHUNKED + b"1;", b"a=b;" * 1000),
        (CHUNKED, b"1\r\na\r\n" * 1000),
        (CHUNKED, b"00000"),
    ],
    ids=["trailers", "long trailer", "extensions", "small chunks", "zeros"],
)
def test_what_follows_the_headers_has_a_limit_whatever_it_is(begin: bytes, piece: bytes) -> None:
    async def test(site: Site) -> None:
        reader, writer = await site.connect()
        writer.write(begin)
        answer = asyncio.create_task(_until_end(reader))
        sent = 0
        with contextlib.suppress(ConnectionError):
            while not answer.done():
                writer.write(piece)
                await writer.drain()
                sent += len(piece)
                assert sent < 2**26, "the connection goes on"
                await asyncio.sleep(0)
        assert (await answer).startswith((b"HTTP/1.1 413", b"HTTP/1.1 400"))

    on_server(test)


def test_trailers_are_no_headers() -> None:
    async def test(site: Site) -> None:
        answer = await site.ask(CHUNKED + b"0\r\nAuthorization: Basic x\r\nExpect: x\r\n\r\n" + ONCE)
        assert answer.count(b"HTTP/1.1 200") == 2
        assert site.headers[0] == [(b"host", b"a"), (b"transfer-encoding", b"chunked")]

    on_server(test)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\nConnection: close\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n", 200),
    ],
)
def test_a_request_has_one_host(request_: bytes, status: int) -> None:
    async def test(site: Site) -> None:
        assert (await site.ask(request_)).startswith(b"HTTP/1.1 %d " % status)
        assert len(site.reached) == (status == 200)

    on_server(test)


@pytest.mark.parametrize("step", [1, 2, 3, 7, 50, 10_000])
def test_pipelined_requests_are_answered_in_their_order_however_they_are_cut(step: int) -> None:
    async def test(site: Site) -> None:
        body = b"POST /b%d HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nx\r\n\r\nxxx"
        data = b"".join(GET.replace(b"/metrics", b"/a%d" % at) + b"\r\n" + body % at for at in range(20)) + ONCE
        client = await site.connect()
        for begin in range(0, len(data), step):
            client[1].write(data[begin : begin + step])
            await client[1].drain()
            if step < 10:
                await asyncio.sleep(0)
        answer = await _until_end(client[0])
        assert answer.count(b"HTTP/1.1 200 OK") == 41
        assert site.reached == [path for at in range(20) for path in (f"/a{at}", f"/b{at}")] + ["/metrics"]

    on_server(test)


def test_one_request_of_a_connection_is_answered_at_a_time_and_only_so_many_wait() -> None:
    async def test(site: Site) -> None:
        slow = b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"
        patient, greedy = await site.connect(), await site.connect()
        patient[1].write(slow * 100 + ONCE)
        await eventually(lambda: len(site.reached) == 1)
        greedy[1].write(slow * (2 * MAX_HEAD_BYTES // len(slow)))
        await eventually(lambda: len(site.reached) == 2)
        await asyncio.sleep(0.1)
        assert site.server is not None
        ahead = [len(each.conn.trailing_data[0]) for each in all_connections(site.server.server_state)]
        assert max(ahead) <= MAX_HEAD_BYTES
        site.release.set()
        assert (await _until_end(patient[0])).count(b"HTTP/1.1 200") == 101

    on_server(test)


def test_a_wish_to_upgrade_is_ignored() -> None:
    async def test(site: Site) -> None:
        head = b"POST /reads HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\n"
        assert (await site.ask(head + b"ab" + ONCE)).count(b"HTTP/1.1 200") == 2
        assert site.reached == ["/reads", "/metrics"]

    on_server(test)


def test_a_client_that_leaves_behind_two_requests_in_one_piece_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """The first one's end came with the second: both applications may still send."""

    async def test(site: Site) -> None:
        client = await site.connect()
        request_ = b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"
        client[1].write(request_[:-1])
        await client[1].drain()
        await asyncio.sleep(0.1)
        client[1].write(request_[-1:] + request_)
        await eventually(lambda: site.reached == ["/slow"])
        assert site.server is not None
        (lost,) = site.server.server_state.connections
        lost.transport.abort()  # as after a reset, or when it makes room for another
        await eventually(lambda: site.open == 0)
        site.release.set()
        await eventually(lambda: site.answered == 1)

    on_server(test)
    assert not caplog.records


def test_a_body_up_to_the_limit_is_read_and_the_connection_kept() -> None:
    async def test(site: Site) -> None:
        body = b"x" * MAX_BODY_BYTES
        size = b"%d" % len(body)
        client = await site.connect()
        client[1].write(b"POST /reads HTTP/1.1\r\nHost: a\r\nContent-Length: " + size + b"\r\n\r\n" + body)
        assert (await client[0].readuntil(b"yes")).startswith(b"HTTP/1.1 200")
        assert (await site.ask(ONCE, client)).startswith(b"HTTP/1.1 200")

    on_server(test)


@pytest.mark.slow
def test_a_wrong_request_behind_a_slow_one_mixes_no_answers() -> None:
    async def test(site: Site) -> None:
        client = await site.connect()
        client[1].write(b"GET /begun HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await client[0].readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert await site.ask(b"nonsense\r\n\r\n", client) == b""

    on_server(test)


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\n\r\n",
        b"GET http://a HTTP/1.1\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\0" * 100,
    ],
)
def test_nonsense_is_answered_or_closed(request_: bytes) -> None:
    async def test(site: Site) -> None:
        answer = await site.ask(request_)
        assert answer == b"" or answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 200"))
        assert (await site.ask(ONCE)).startswith(b"HTTP/1.1 200")

    on_server(test, WebServerSettings(request_timeout=1))


def test_who_says_nothing_or_drips_has_ten_seconds_and_no_more() -> None:
    async def test(site: Site) -> None:
        silent = await site.connect()
        dripping = await site.connect()
        body = await site.connect()
        body[1].write(b"POST /reads HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n")
        kept = await site.connect()
        kept[1].write(GET + b"\r\n")
        await kept[0].readuntil(b"yes")
        dripping[1].write(GET)
        for _ in range(1000):
            for writer, drop in ((dripping[1], b"X"), (body[1], b"x")):
                if not writer.is_closing():
                    writer.write(drop)
            if site.open == 1:
                break
            await asyncio.sleep(0.05)
        assert [await _until_end(reader) for reader, _ in (silent, dripping, body)] == [b"", b"", b""]
        kept[1].write(ONCE)
        assert (await _until_end(kept[0])).endswith(b"yes"), "who has asked may wait"

    on_server(test, WebServerSettings(request_timeout=1))


def test_who_takes_nothing_of_the_answer_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "STUCK_SECONDS", 1.0)

    async def test(site: Site) -> None:
        with socket.create_connection(("127.0.0.1", site.port)) as client:
            client.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
            await eventually(lambda: site.open == 1)
            await eventually(lambda: site.open == 0)

    on_server(test, WebServerSettings(keep_alive=1))


def test_who_does_not_say_goodbye_goes_too(
    monkeypatch: pytest.MonkeyPatch, live: WebConfigReloader, tmp_path: Path
) -> None:
    """TLS waits for the other side's goodbye, which this one never sends."""
    monkeypatch.setattr(connection, "STUCK_SECONDS", 1.0)

    async def test(site: Site) -> None:
        def ask_and_fall_silent() -> ssl.SSLSocket:
            plain = socket.create_connection(("127.0.0.1", site.port))
            tls = ssl.create_default_context(cafile=str(tmp_path / "server.crt"))
            client = tls.wrap_socket(plain, server_hostname="localhost")
            client.sendall(GET + b"\r\n")
            assert client.recv(15) == b"HTTP/1.1 200 OK"
            return client

        with await asyncio.to_thread(ask_and_fall_silent):
            assert site.open == 1
            await eventually(lambda: site.open == 0)

    on_server(test, WebServerSettings(keep_alive=1), live)


def test_a_full_house_lets_the_idle_go_and_the_asking_stay() -> None:
    async def test(site: Site) -> None:
        scraper = await site.connect()
        scraper[1].write(GET + b"\r\n")
        await scraper[0].readuntil(b"yes")
        slow = await site.connect()
        slow[1].write(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        await eventually(lambda: "/slow" in site.reached)
        crowd = [await site.connect() for _ in range(200)]
        await eventually(lambda: site.open <= 32)
        assert (await site.ask(ONCE)).startswith(b"HTTP/1.1 200"), "a new one comes in"
        assert (await site.ask(ONCE, scraper)).startswith(b"HTTP/1.1 200"), "strangers went first"
        site.release.set()
        assert (await slow[0].readuntil(b"yes")).startswith(b"HTTP/1.1 200")
        del crowd

    on_server(test, WebServerSettings(max_connections=32))


def test_an_address_has_32_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PATIENCE_SECONDS", 0.2)

    async def test(site: Site) -> None:
        scraper = await site.connect()
        scraper[1].write(GET + b"\r\n")
        await scraper[0].readuntil(b"yes")
        crowd = [await site.connect() for _ in range(MAX_PER_CLIENT - 1)]
        await eventually(lambda: site.open == MAX_PER_CLIENT)
        await asyncio.sleep(0.3)
        newest = [await site.connect() for _ in range(3)]
        await eventually(lambda: site.open == MAX_PER_CLIENT)
        for reader, _ in crowd[:3]:
            assert await _until_end(reader) == b"", "the longest waiting made room"
        other = await site.connect(source="127.0.0.2")
        for client in (scraper, *newest, other):
            assert (await site.ask(ONCE, client)).startswith(b"HTTP/1.1 200")

    on_server(test)


@pytest.mark.slow
def test_an_address_with_more_than_its_share_makes_room_for_others() -> None:
    async def test(site: Site) -> None:
        crowd = [await site.connect() for _ in range(16)]
        for _, writer in crowd:
            writer.write(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        await eventually(lambda: len(site.reached) == 16)
        other = await site.connect(source="127.0.0.2")
        other[1].write(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        await eventually(lambda: len(site.reached) == 17)
        assert await _until_end(crowd[0][0]) == b"", "the oldest made room"
        site.release.set()
        assert (await other[0].readuntil(b"yes")).startswith(b"HTTP/1.1 200")
        assert (await crowd[-1][0].readuntil(b"yes")).startswith(b"HTTP/1.1 200")

    on_server(test, WebServerSettings(max_connections=16))


def test_unread_answers_make_room_before_connections_that_are_idle() -> None:
    async def test(site: Site) -> None:
        scraper = await site.connect()
        scraper[1].write(GET + b"\r\n")
        await scraper[0].readuntil(b"yes")
        for _ in range(15):
            reader, writer = await site.connect()
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        await eventually(lambda: len(site.reached) == 16)
        for _ in range(20):
            assert (await site.ask(ONCE)).startswith(b"HTTP/1.1 200")
        assert (await site.ask(ONCE, scraper)).startswith(b"HTTP/1.1 200")

    on_server(test, WebServerSettings(max_connections=16))


def test_unread_answers_have_a_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNREAD_ANSWERS", 3)

    async def test(site: Site) -> None:
        for _ in range(10):
            reader, writer = await site.connect()
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        await eventually(lambda: len(site.reached) == 10)
        await eventually(lambda: site.open <= 4)
        assert (await site.ask(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).endswith(b"x" * 1000)

    on_server(test)


def test_who_takes_drops_of_the_answer_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SENDING_SECONDS", 2.0)

    async def test(site: Site) -> None:
        reader, writer = await site.connect()
        writer.write(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        taken = 0
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(1000):
                taken += len(piece)
                await asyncio.sleep(0.05)
                if site.open == 0:
                    break
        assert taken < 20_000_000
        assert site.open == 0

    on_server(test)


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_what_counts_as_one_client(host: str, network: str) -> None:
    assert network_of(host) == network


def test_when_all_are_being_answered_the_oldest_makes_room_for_one_more() -> None:
    async def test(site: Site) -> None:
        clients = [await site.connect() for _ in range(4)]
        for number, (_, writer) in enumerate(clients):
            writer.write(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
            await eventually(lambda number=number: len(site.reached) == number + 1)  # type: ignore[misc]
        assert (await site.ask(ONCE)).startswith(b"HTTP/1.1 200")
        site.release.set()
        assert await _until_end(clients[0][0]) == b""
        for reader, _ in clients[1:]:
            assert (await reader.readuntil(b"yes")).startswith(b"HTTP/1.1 200")

    on_server(test, WebServerSettings(max_connections=4))


def test_after_a_reset_nothing_is_written(caplog: pytest.LogCaptureFixture) -> None:
    async def test(site: Site) -> None:
        for _ in range(3):
            client = socket.create_connection(("127.0.0.1", site.port))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall((b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n" + GET + b"\r\n" * 30) * 2)
            await eventually(lambda: site.open == 1)
            client.close()  # with a reset
            site.release.set()
            await eventually(lambda: site.open == 0)
            site.release.clear()

    on_server(test)
    assert caplog.text == ""


@pytest.fixture
def live(tmp_path: Path) -> WebConfigReloader:
    make("localhost").write(tmp_path, "server")
    file = tmp_path / "web.yml"
    file.write_text(
        "tls_server_config: {cert_file: server.crt, key_file: server.key}\n"
        "http_server_config: {headers: {X-Frame-Options: deny}}\n"
    )
    return WebConfigReloader(file)


def test_handshakes_that_never_end_are_counted_and_ended(live: WebConfigReloader, tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        tls = ssl.create_default_context(cafile=str(tmp_path / "server.crt"))
        crowd = [await site.connect() for _ in range(100)]
        for number, (_, writer) in enumerate(crowd):
            writer.write(b"\x16\x03\x01"[: number % 4])
        assert (await site.ask(ONCE, await site.connect(tls))).endswith(b"yes")
        for reader, _ in crowd:
            assert await _until_end(reader) == b""
        assert site.server is not None
        assert site.open == 0

    on_server(test, WebServerSettings(max_connections=16, request_timeout=1), live)


def test_a_failed_handshake_leaves_nothing_to_the_garbage_collector(live: WebConfigReloader) -> None:
    async def test(site: Site) -> None:
        gc.collect()
        gc.disable()
        try:
            for begin in (b"nonsense", b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", b"\x15\x03\x03\x00\x02\x02\x28"):
                reader, writer = await site.connect()
                writer.write(begin * 100)
                with contextlib.suppress(ConnectionError):
                    await reader.read()
                writer.close()
            await eventually(lambda: site.open == 0)
            await asyncio.sleep(0.05)
            assert not [each for each in gc.get_objects() if isinstance(each, TlsProtocol)]
        finally:
            gc.enable()

    on_server(test, live=live)


def test_the_configured_headers_are_on_every_answer(live: WebConfigReloader, tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        tls = ssl.create_default_context(cafile=str(tmp_path / "server.crt"))
        for request in (ONCE, b"nonsense\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n"):
            assert b"\r\nx-frame-options: deny\r\n" in await site.ask(request, await site.connect(tls))

    on_server(test, live=live)


def test_files_that_hang_delay_no_request(
    live: WebConfigReloader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hung, answers = threading.Event(), threading.Event()

    def stat(*_: object, **__: object) -> os.stat_result:
        hung.set()
        answers.wait()
        raise OSError

    async def test(site: Site) -> None:
        tls = ssl.create_default_context(cafile=str(tmp_path / "server.crt"))
        await eventually(hung.is_set)
        await eventually(lambda: not live.last_reload_successful)
        client = await asyncio.open_connection("127.0.0.1", site.port, ssl=tls, server_hostname="localhost")
        assert (await site.ask(ONCE, client)).startswith(b"HTTP/1.1 200")
        answers.set()
        await eventually(lambda: live.last_reload_successful)

    monkeypatch.setattr(reloader, "HANGING_SECONDS", 0.5)
    monkeypatch.setattr(regular_file, "_signature", stat)
    try:
        on_server(test, live=live)
    finally:
        answers.set()
    assert "does not answer" in caplog.text


def test_plain_http_on_the_port_of_tls_gets_nothing(live: WebConfigReloader) -> None:
    async def test(site: Site) -> None:
        assert not (await site.ask(ONCE)).startswith(b"HTTP")
        assert site.reached == []

    on_server(test, live=live)
