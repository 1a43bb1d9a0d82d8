"""Attacks on the HTTP side, run in a process of their own: `python -m tests.attacks.http_clients NAME PORT SECONDS`.

Each attack is an asynchronous function of a port that goes on until it is cancelled. What it meets on the way, refusals
and closed connections included, is part of the attack.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from urllib.parse import quote

Attack = Callable[[int], Awaitable[None]]

ATTACKS: dict[str, Attack] = {}
"""Every attack by its name."""

LOOPBACK = "127.0.0.1"


def attack(function: Attack) -> Attack:
    ATTACKS[function.__name__] = function
    return function


def request(path: str, *headers: str, method: str = "GET") -> bytes:
    lines = (f"{method} {path} HTTP/1.1", "Host: x", *headers)
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


async def connect(port: int, source: str = LOOPBACK, receive_bytes: int | None = None) -> socket.socket:
    """Return a connection from an address of this machine; `receive_bytes` limits what the kernel takes for it."""
    client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if receive_bytes is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        client.setblocking(False)
        client.bind((source, 0))
        await asyncio.get_running_loop().sock_connect(client, (LOOPBACK, port))
    except BaseException:
        client.close()
        raise
    return client


async def send_for_ever(port: int, head: bytes, piece: bytes) -> None:
    """Send a request without end on one connection after the other."""
    loop = asyncio.get_running_loop()
    while True:
        with contextlib.suppress(OSError), contextlib.closing(await connect(port)) as client:
            await loop.sock_sendall(client, head)
            while True:
                await loop.sock_sendall(client, piece)
        await asyncio.sleep(0.01)


async def ask_for_ever(port: int, requests: Iterator[bytes], source: str = LOOPBACK) -> None:
    """Send a request on a connection of its own and read the whole answer, again and again."""
    loop = asyncio.get_running_loop()
    for each in requests:
        with contextlib.suppress(OSError), contextlib.closing(await connect(port, source)) as client:
            await loop.sock_sendall(client, each)
            while await loop.sock_recv(client, 2**16):
                pass
        await asyncio.sleep(0)


async def ask_and_never_read(port: int, data: bytes, source: str = LOOPBACK) -> None:
    """Send data and take none of the answers, until the connection is closed; then again."""
    loop = asyncio.get_running_loop()
    while True:
        with contextlib.suppress(OSError), contextlib.closing(await connect(port, source, 4096)) as client:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(loop.sock_sendall(client, data), 1)
            while True:
                await asyncio.sleep(1)
                client.send(b"G")  # fails once the connection is closed
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
    loop = asyncio.get_running_loop()

    async def sip() -> None:
        while True:
            with contextlib.suppress(OSError), contextlib.closing(await connect(port, receive_bytes=4096)) as client:
                await loop.sock_sendall(client, request("/gpus") * 20)
                while (await asyncio.gather(loop.sock_recv(client, 64), asyncio.sleep(1)))[0]:
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
            with contextlib.suppress(OSError), contextlib.closing(await connect(port)) as client:
                await asyncio.get_running_loop().sock_sendall(client, b"GET /gpus HT")
            await asyncio.sleep(0)

    await together(*[open_and_close() for _ in range(200)])


@attack
async def half_requests(port: int) -> None:
    """Connections beyond the limit that never finish their request."""
    await together(*[send_for_ever_slowly(port) for _ in range(600)])


async def send_for_ever_slowly(port: int) -> None:
    loop = asyncio.get_running_loop()
    while True:
        with contextlib.suppress(OSError), contextlib.closing(await connect(port)) as client:
            for byte in request("/metrics", "X: " + "y" * 500):
                await loop.sock_sendall(client, bytes((byte,)))
                await asyncio.sleep(1)


@attack
async def many_names(port: int) -> None:
    """Long lists of names and words in a query."""
    names = ",".join(str(number) for number in range(12_000))
    words = ",".join(f"power_wat{number}" for number in range(4_000))
    requests = [
        request(f"/history?gpu={names}", "Connection: close"),
        request(f"/history?fields={words}", "Connection: close"),
        request(f"/gpus?fields={'power_watts,' * 4000}power_watts", "Connection: close"),
        request(f"/events/recent?types={'x' * 60_000}", "Connection: close"),
        request(f"/gpus?{'a&' * 30_000}a", "Connection: close"),
        request(f"/gpus/{quote('ä') * 9_000}", "Connection: close"),
        request(f"/jobs/{'%2F' * 20_000}", "Connection: close"),
    ]
    await together(*[ask_for_ever(port, itertools.cycle(requests[at % 7 :] + requests[: at % 7])) for at in range(16)])


@attack
async def odd_headers(port: int) -> None:
    """Headers of lists as long as a head may be."""
    requests = [
        request("/metrics", f"Accept: {'text/plain;q=0.5,' * 3_500}*/*", "Connection: close"),
        request("/metrics", f"Accept-Encoding: {'gzip;q=0.5,' * 5_000}x", "Connection: close"),
        request("/metrics", *["Accept: a"] * 6_000, "Connection: close"),
        request("/", "Accept: text/html", f"If-None-Match: {'W/' * 30_000}", "Connection: close"),
        request("/gpus", f"Cookie: {'a=b;' * 15_000}", "Connection: close"),
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
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(ATTACKS[name](port), seconds)


if __name__ == "__main__":
    print("ready", flush=True)
    asyncio.run(_run(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
