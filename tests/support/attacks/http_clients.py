"""Attacks on the HTTP side, in their own process: `python -m tests.support.attacks.http_clients NAME PORT SECONDS`.

Each attack is an asynchronous function of a port that goes on until it is cancelled. What it meets on the way, refusals
and closed connections included, is part of the attack.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import os
import random
import resource
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from urllib.parse import quote

Attack = Callable[[int], Awaitable[None]]

ATTACKS: dict[str, Attack] = {}
"""Every attack by its name."""

LOOPBACK = "127.0.0.1"

HEAD_BYTES = 32 * 1024
"""As long as a request may be."""

SOURCE_VARIABLE = "ATTACK_SOURCE"
"""Variable of the environment: the address of this machine that attacks come from."""

TLS_VARIABLE = "ATTACK_TLS"
"""Variable of the environment: file of the authority's certificate, for a daemon that serves TLS."""


def attack(function: Attack) -> Attack:
    ATTACKS[function.__name__] = function
    return function


def request(path: str, *headers: str, method: str = "GET") -> bytes:
    lines = (f"{method} {path} HTTP/1.1", "Host: x", *headers)
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


class Connection:
    """A connection from an address of this machine, closed at the end of the context.

    Args:
        receive_bytes: limits what the kernel takes for a client that does not read.
    """

    def __init__(self, port: int, source: str | None = None, receive_bytes: int | None = None) -> None:
        self._port, self._receive_bytes = port, receive_bytes
        self._source = source or os.environ.get(SOURCE_VARIABLE, LOOPBACK)

    async def __aenter__(self) -> Connection:
        client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if self._receive_bytes is not None:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_bytes)
            client.setblocking(False)
            client.bind((self._source, 0))
            await asyncio.get_running_loop().sock_connect(client, (LOOPBACK, self._port))
            tls = _tls()
            name = "localhost" if tls is not None else None
            self._reader, self._writer = await asyncio.open_connection(
                sock=client, ssl=tls, server_hostname=name, limit=self._receive_bytes or 2**16
            )
        except BaseException:
            client.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.transport.abort()

    async def send(self, data: bytes) -> None:
        if self._writer.transport.is_closing():
            raise ConnectionResetError
        self._writer.write(data)
        await self._writer.drain()

    async def take(self, count: int = 2**16) -> bytes:
        return await self._reader.read(count)


@cache
def _tls() -> ssl.SSLContext | None:
    """The settings of TLS, if the authority's certificate is given."""
    file = os.environ.get(TLS_VARIABLE)
    return ssl.create_default_context(cafile=file) if file else None


async def send_for_ever(port: int, head: bytes, piece: bytes) -> None:
    """Send a request without end on one connection after the other."""
    while True:
        with contextlib.suppress(OSError):
            async with Connection(port) as client:
                await client.send(head)
                while True:
                    await client.send(piece)
        await asyncio.sleep(0.01)


async def ask_for_ever(port: int, requests: Iterator[bytes], source: str | None = None) -> None:
    """Send a request on a connection of its own and read the whole answer, again and again."""
    for each in requests:
        with contextlib.suppress(OSError):
            async with Connection(port, source) as client:
                await client.send(each)
                while await client.take():
                    pass
        await asyncio.sleep(0)


async def ask_and_never_read(port: int, data: bytes, source: str | None = None) -> None:
    """Send data and take none of the answers, until the connection is closed; then again."""
    while True:
        with contextlib.suppress(OSError):
            async with Connection(port, source, 4096) as client:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        await client.send(data)
                while True:
                    await asyncio.sleep(1)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(1):
                            await client.send(b"G")
        await asyncio.sleep(0.1)


async def together(*attacks: Awaitable[None]) -> None:
    await asyncio.gather(*attacks)


CHUNKED = request("/", "Transfer-Encoding: chunked", method="POST")


@attack
async def trailers(port: int) -> None:
    """Trailers without end, after an empty body."""
    await together(*[send_for_ever(port, CHUNKED + b"0\r\n", b"a:b\r\n" * 20_000) for _ in range(4)])


@attack
async def chunk_extensions(port: int) -> None:
    """An extension of a chunk without end."""
    await together(*[send_for_ever(port, CHUNKED + b"1;", b"a=b;" * 20_000) for _ in range(4)])


@attack
async def small_chunks(port: int) -> None:
    """A body of chunks of one byte, without end."""
    await together(*[send_for_ever(port, CHUNKED, b"1\r\na\r\n" * 20_000) for _ in range(4)])


@attack
async def header_lines(port: int) -> None:
    """A head of short lines without end."""
    await together(*[send_for_ever(port, request("/")[:-2], b"a:b\r\n" * 20_000) for _ in range(4)])


@attack
async def unfinished_heads(port: int) -> None:
    """Heads as long as they may be, all but their end, on every connection that the server keeps: in one line.

    Every second one has the shortest lines, too many of them, and twice the length.
    """
    head = request("/")[:-2]
    data = (head + b"a:" + b"b" * (HEAD_BYTES - len(head) - 2), head + b"a:\r\n" * (HEAD_BYTES // 2))
    await together(*[hold(port, data[at % 2], f"127.0.0.{2 + at // 32}") for at in range(256)])


@attack
async def short_lines(port: int) -> None:
    """Requests of short header lines, whose connections stay open after the answer."""
    data = request("/-/healthy", *["a:"] * 90)
    await together(*[hold(port, data * 20, f"127.0.0.{2 + at // 32}") for at in range(256)])


async def hold(port: int, data: bytes, source: str) -> None:
    """Send data, read what is answered, and keep the connection until the server closes it; then again."""
    while True:
        with contextlib.suppress(OSError):
            async with Connection(port, source) as client:
                await client.send(data)
                while await client.take():
                    pass
        await asyncio.sleep(0.01)


HISTORY = "/history?points=2000&fields="


def histories(port: int) -> Iterator[bytes]:
    """Requests for as much history as is allowed, with all fields or some."""
    fields = (
        "workload_class,health_state,real_utilization_ratio,real_utilization_lower_ratio,real_utilization_upper_ratio"
    )
    close = "Connection: close"
    return itertools.cycle(
        [
            request(f"/history?points=2000&fields={fields}", close),
            request(f"/history?points=1500&fields={fields}", close),
            request(f"/history?points=2000&fields={fields}&gpu=0,1,2,3,4,5", close),
            request("/history?points=2000&gpu=0", close),
        ]
    )


@attack
async def large_histories(port: int) -> None:
    """32 clients at once that ask for much history and read it."""
    await together(*[ask_for_ever(port, histories(port)) for _ in range(32)])


@attack
async def large_histories_unread(port: int) -> None:
    """Clients that ask for much history, over and over, and read none."""
    data = b"".join(itertools.islice(histories(port), 12)).replace(b"Connection: close\r\n", b"")
    await together(*[ask_and_never_read(port, data) for _ in range(200)])


@attack
async def all_documents(port: int) -> None:
    """64 clients that ask for the largest documents at once."""
    paths = (
        "/gpus",
        "/gpus?view=summary",
        "/jobs?limit=1000",
        "/events/recent?limit=1000",
        "/container/metrics?derived=true",
        "/workloads",
        "/openapi.json",
        "/processes",
    )
    requests = [request(path, "Connection: close") for path in paths]
    await together(*[ask_for_ever(port, itertools.cycle(requests[at % 8 :] + requests[: at % 8])) for at in range(64)])


@attack
async def reports(port: int) -> None:
    """32 clients that repeat reports of all accounts in files."""
    paths = ("/report?since=1", "/jobs?since=1&offset=20000", "/jobs/missing")
    requests = [request(path, "Connection: close") for path in paths]
    await together(*[ask_for_ever(port, itertools.cycle(requests), _source()[0]) for _ in range(32)])


@attack
async def slow_readers(port: int) -> None:
    """More clients than connections are allowed, all of which pipeline requests and read nothing."""
    data = request("/gpus") * 2000
    await together(*[ask_and_never_read(port, data) for _ in range(540)])


@attack
async def slow_readers_of_pages(port: int) -> None:
    """The same with the metrics page, from several addresses."""
    data = request("/metrics") * 2000
    await together(*[ask_and_never_read(port, data, f"127.0.0.{2 + at % 50}") for at in range(540)])


@attack
async def drops_of_answers(port: int) -> None:
    """Clients that take a few bytes of an answer per second."""

    async def sip() -> None:
        while True:
            with contextlib.suppress(OSError):
                async with Connection(port, receive_bytes=4096) as client:
                    await client.send(request("/gpus") * 20)
                    while (await asyncio.gather(client.take(64), asyncio.sleep(1)))[0]:
                        pass
            await asyncio.sleep(0.1)

    await together(*[sip() for _ in range(540)])


@attack
async def small_pipelined(port: int) -> None:
    """As many of the smallest requests in one piece as the server reads at once, on all connections."""
    data = (
        b"GET / HTTP/1.0\r\n\r\nGET /-/healthy HTTP/1.1\r\nHost:x\r\n\r\n"
        + b"GET /a HTTP/1.1\r\nHost:x\r\n\r\n" * 40_000
    )
    await together(*[ask_and_never_read(port, data[18:]) for _ in range(500)])


@attack
async def connection_flood(port: int) -> None:
    """Connections that are opened and closed as fast as possible, with half a request."""

    async def open_and_close() -> None:
        while True:
            with contextlib.suppress(OSError):
                async with Connection(port) as client:
                    await client.send(b"GET /gpus HT")
            await asyncio.sleep(0)

    await together(*[open_and_close() for _ in range(200)])


@attack
async def silent_connections(port: int) -> None:
    """Connections beyond the limit that send nothing, also no handshake of TLS."""

    async def wait() -> None:
        while True:
            with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port)) as client:
                client.setblocking(False)
                while await asyncio.get_running_loop().sock_recv(client, 100):
                    pass
            await asyncio.sleep(0.1)

    await together(*[wait() for _ in range(600)])


def _source() -> tuple[str, int]:
    """The address that attacks come from, with any port."""
    return os.environ.get(SOURCE_VARIABLE, LOOPBACK), 0


@attack
async def half_handshakes(port: int) -> None:
    """Connections beyond the limit that begin a handshake of TLS, take the answer, and never end it."""

    context = ssl.create_default_context()

    async def begin() -> None:
        while True:
            sent = ssl.MemoryBIO()
            with contextlib.suppress(ssl.SSLWantReadError):
                context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost").do_handshake()
            with (
                contextlib.suppress(OSError),
                socket.create_connection((LOOPBACK, port), source_address=_source()) as client,
            ):
                client.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_sendall(client, sent.read())
                while await loop.sock_recv(client, 2**16):
                    pass
            await asyncio.sleep(0.1)

    await together(*[begin() for _ in range(400)])


@attack
async def garbage(port: int) -> None:
    """Bytes that are neither HTTP nor TLS, also after the first bytes of a handshake."""

    async def send(begin: bytes) -> None:
        for number in itertools.count():
            with (
                contextlib.suppress(OSError),
                socket.create_connection((LOOPBACK, port), source_address=_source()) as client,
            ):
                client.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_sendall(client, begin + random.Random(number).randbytes(2**14))
                while await loop.sock_recv(client, 2**16):
                    pass
            await asyncio.sleep(0)

    begins = (
        b"",
        b"\x16\x03\x01\x40\x00\x01",
        b"\x16\x03\x03\xff\xff",
        b"\x80\x2e\x01",
        b"\x15\x03\x03\x00\x02\x02\x28",
    )
    await together(*[send(begin) for begin in begins * 12])


@attack
async def half_requests(port: int) -> None:
    """Connections beyond the limit that never finish their request."""
    await together(*[send_for_ever_slowly(port) for _ in range(600)])


async def send_for_ever_slowly(port: int) -> None:
    while True:
        with contextlib.suppress(OSError):
            async with Connection(port) as client:
                for byte in request("/metrics", "X: " + "y" * 500):
                    await client.send(bytes((byte,)))
                    await asyncio.sleep(1)


@attack
async def many_names(port: int) -> None:
    """Long lists of names and words in a query."""
    names = ",".join(str(number) for number in range(6_000))
    words = ",".join(f"power_wat{number}" for number in range(1_800))
    requests = [
        request(f"/history?gpu={names}", "Connection: close"),
        request(f"/history?fields={words}", "Connection: close"),
        request(f"/gpus?fields={'power_watts,' * 2000}power_watts", "Connection: close"),
        request(f"/events/recent?types={'x' * 30_000}", "Connection: close"),
        request(f"/gpus?{'a&' * 15_000}a", "Connection: close"),
        request(f"/gpus/{quote('ä') * 5_000}", "Connection: close"),
        request(f"/jobs/{'%2F' * 10_000}", "Connection: close"),
    ]
    await together(*[ask_for_ever(port, itertools.cycle(requests[at % 7 :] + requests[: at % 7])) for at in range(16)])


@attack
async def odd_headers(port: int) -> None:
    """Headers of lists as long as a head may be."""
    requests = [
        request("/metrics", f"Accept: {'text/plain;q=0.5,' * 1_700}*/*", "Connection: close"),
        request("/metrics", f"Accept-Encoding: {'gzip;q=0.5,' * 2_500}x", "Connection: close"),
        request("/metrics", *["Accept: a"] * 90, "Connection: close"),
        request("/", "Accept: text/html", f"If-None-Match: {'W/' * 15_000}", "Connection: close"),
        request("/gpus", f"Cookie: {'a=b;' * 7_500}", "Connection: close"),
    ]
    await together(*[ask_for_ever(port, itertools.cycle(requests[at % 5 :] + requests[: at % 5])) for at in range(16)])


@attack
async def event_streams(port: int) -> None:
    """Streams of every GPU in every form that are not read."""
    paths = [f"/events?format={form}&gpu={gpu}&max_rate=10" for form in ("json", "columns") for gpu in range(8)]
    await together(*[ask_and_never_read(port, request(path)) for path in paths * 8])


@attack
async def passwords(port: int) -> None:
    """Logins with a new wrong password each."""

    def logins() -> Iterator[bytes]:
        for number in itertools.count():
            text = base64.b64encode(f"prometheus:wrong {number}".encode()).decode()
            yield request("/metrics", f"Authorization: Basic {text}", "Connection: close")

    await together(*[ask_for_ever(port, logins()) for _ in range(64)])


async def _run(name: str, port: int, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await ATTACKS[name](port)


def _raise_file_limit() -> None:
    """Allow as many open files as the system permits."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    _raise_file_limit()
    asyncio.run(_run(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
