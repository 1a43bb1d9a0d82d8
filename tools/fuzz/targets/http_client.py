"""The answers that the HTTP client reads, whole and in pieces, held against h11's parser."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterable, Iterator
from typing import Any

import h11

from pulsed.http.body import BadBody, Body
from pulsed.http.connection import Answer, BrokenAnswer, ClientConnection
from tools.fuzz.target import FuzzTarget, pieces, randomness
from tools.fuzz.transport import LOOP, FakeTransport

_LIMIT = 8192
_NEXT_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext"
_REQUEST = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


class _Refusal(Exception):
    """An answer that the client refused: the text and the kind of its error."""


async def _answer(data: Iterable[bytes], refusal_bytes: int) -> Answer:
    """Return what the client makes of an answer; the connection ends behind it, or behind another answer."""
    connection = ClientConnection(lambda _: None, refusal_bytes)
    transport = FakeTransport(connection)
    waiter = connection.send(_REQUEST, Body(_LIMIT))
    connection.connection_made(transport)
    transport.receive(data)
    another = None
    if connection.reusable:
        another = connection.send(_REQUEST, Body(_LIMIT))
        transport.receive([_NEXT_ANSWER])
    transport.lose()
    await asyncio.sleep(0)
    assert waiter.done(), "the connection has ended and the answer is still awaited"
    if another is not None:
        assert another.result().page == b"next", f"the next request is answered with {another.result()}"
    try:
        return waiter.result()
    except (BrokenAnswer, BadBody) as error:
        raise _Refusal(type(error).__name__, str(error)) from error


def _run(data: Iterable[bytes], refusal_bytes: int) -> object:
    return LOOP.run_until_complete(_answer(data, refusal_bytes))


def _read(data: bytes) -> object:
    return _run([data], _LIMIT)


def _verify(data: bytes, outcome: Any) -> None:
    cut = list(pieces(data, randomness(data)))
    found = HTTP_CLIENT.outcome(lambda: _run(cut, _LIMIT))
    assert _same(found, outcome), f"{found} in pieces {cut} instead of {outcome}"
    HTTP_CLIENT.outcome(lambda: _run(cut, 0))
    if isinstance(outcome, _Refusal):
        return
    assert len(outcome.page) <= _LIMIT
    assert (outcome.reason + outcome.location).isprintable()
    if (expected := _by_h11(data)) is not None:
        assert (outcome.status, outcome.page) == expected, f"{outcome} instead of {expected}"


def _same(one: object, other: object) -> bool:
    if isinstance(one, _Refusal) and isinstance(other, _Refusal):
        return one.args == other.args
    return one == other


def _by_h11(data: bytes) -> tuple[int, bytes] | None:
    """Return status and body by h11; None if it refuses the answer, or its body is not plain."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/metrics", headers=[("Host", "x")]))
    client.send(h11.EndOfMessage())
    client.receive_data(data)
    client.receive_data(b"")
    status, body = 0, b""
    try:
        while not isinstance(event := client.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Response):
                status = event.status_code
                if any(name == b"content-encoding" for name, _ in event.headers):
                    return None
            elif isinstance(event, h11.Data):
                body += event.data
            elif not isinstance(event, h11.InformationalResponse):
                return None
    except h11.RemoteProtocolError:
        return None
    return status, body


def _seeds() -> Iterator[bytes]:
    page = b'a{gpu="0"} 37\n'
    packed = gzip.compress(page, mtime=0)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
    yield head + b"Content-Length: 14\r\n\r\n" + page
    yield head + b"\r\n" + page
    yield head + b"Transfer-Encoding: chunked\r\n\r\ne\r\n" + page + b"\r\n0\r\nTrailer: x\r\n\r\n"
    yield head + b"Transfer-Encoding: chunked\r\n\r\n5;a=b\r\na{gpu\r\n9 \r\n" + page[5:] + b"\r\n0\r\n\r\n"
    yield head + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed
    yield head + b"Content-Encoding: gzip\r\n\r\n" + packed + packed
    yield b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    yield b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 2\r\n\r\nno"
    yield b"HTTP/1.1 503 Busy\r\nRetry-After: 5\r\nConnection: close\r\n\r\nlater\n"
    yield b"HTTP/1.0 200 OK\n\n" + page
    yield b"HTTP/1.1 204 No Content\r\n\r\n"
    yield b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n"


HTTP_CLIENT = FuzzTarget(
    "http_client",
    _read,
    (_Refusal,),
    _verify,
    _seeds,
    (
        *(b"HTTP/1.1 ", b"HTTP/1.0 ", b"200", b"304", b"101", b"100", b"\r\n", b"\r\n\r\n", b"chunked", b"0\r\n\r\n"),
        *(b"Transfer-Encoding: ", b"Content-Length: ", b"Content-Encoding: gzip", b"Connection: close", b"Upgrade: "),
        *(b"Location: ", b"Retry-After: ", b"\r\n ", b"identity", b"keep-alive"),
    ),
)
