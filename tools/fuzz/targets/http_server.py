"""Requests to the server, whole and in pieces, held against h11's parser."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import h11

from pulsed.present.asgi import Receive, Scope, Send, respond, route_of
from pulsed.present.exposition.text_format import accepts_gzip, choose_format
from pulsed.server.http_server import Server
from pulsed.server.settings import WebServerSettings
from tools.fuzz.target import FuzzTarget, pieces, randomness
from tools.fuzz.transport import LOOP, FakeTransport

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_TURNS = 8
"""Turns of the loop without a request or an output after which none will come."""


class _Request(NamedTuple):
    method: str
    target: bytes
    body: bytes


class _Exchange(NamedTuple):
    """What a connection came to.

    Attributes:
        requests: that the application got.
        sent: all that was answered.
        is_dropped: whether the connection was cut, as a request that was refused followed one that is being answered.
    """

    requests: list[_Request]
    sent: bytes
    is_dropped: bool


@dataclass
class _Site:
    """An application that answers every request with 200, once it has read its body."""

    requests: list[_Request] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        choose_format(headers.get(b"accept", ""))
        accepts_gzip(headers.get(b"accept-encoding", ""))
        route_of(scope, "/prefix")
        query = scope["query_string"]
        parse_qs(query.decode("latin-1"))
        message = await receive()
        body: bytes = message.get("body", b"")
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
        if message["type"] == "http.disconnect":
            return
        self.requests.append(_Request(scope["method"], _target(scope["raw_path"], query), body))
        await respond(scope, send, 200, b"yes\n")


def _target(path: bytes, query: bytes) -> bytes:
    return path + b"?" + query if query else path


_SITE = _Site()


async def _factory() -> Callable[[], asyncio.Protocol]:
    """Return what the server makes of an accepted connection."""
    config = Server(_SITE, WebServerSettings()).config
    config.load()
    return config.http_protocol_class


_MAKE_CONNECTION = LOOP.run_until_complete(_factory())
_FAILURES: list[object] = []
LOOP.set_exception_handler(lambda _, context: _FAILURES.append(context))


async def _exchange(data: Iterable[bytes], *, is_slow: bool) -> _Exchange:
    """Exchange data over a new connection; `is_slow`: each piece is handled before the next one comes."""
    _SITE.requests = []
    connection = _MAKE_CONNECTION()
    transport = FakeTransport(connection)
    connection.connection_made(transport)
    for piece in data:
        transport.receive([piece])
        if is_slow:
            await _settled(transport)
    await _settled(transport)
    sent, is_dropped = bytes(transport.sent), transport.is_aborted
    transport.lose()
    await _settled(transport)
    if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        raise AssertionError(f"tasks that outlive their connection: {tasks}")
    if _FAILURES:
        raise AssertionError(_FAILURES.pop())
    return _Exchange(_SITE.requests, sent, is_dropped)


async def _settled(transport: FakeTransport) -> None:
    before: object = None
    while before != (before := (len(_SITE.requests), len(transport.sent))):
        for _ in range(_TURNS):
            await asyncio.sleep(0)


def _run(data: Iterable[bytes], *, is_slow: bool = False) -> _Exchange:
    return LOOP.run_until_complete(_exchange(data, is_slow=is_slow))


def _read(data: bytes) -> object:
    return _run([data])


def _verify(data: bytes, outcome: Any) -> None:
    statuses, requests = _statuses(outcome), outcome.requests
    cut = list(pieces(data, randomness(data)))
    found = _run(cut)
    assert found.requests == requests, f"{found.requests} in pieces {cut} instead of {requests}"
    assert _statuses(found) == statuses
    slow = _run(cut, is_slow=True)
    _statuses(slow)
    count = min(len(slow.requests), len(requests))
    assert slow.requests[:count] == requests[:count], f"{slow.requests} in slow pieces {cut} instead of {requests}"
    for one, other in zip(requests, _by_h11(data), strict=False):
        is_plain = other.target.startswith(b"/") and b"#" not in other.target  # else only its path and query arrive
        target = _target(*other.target.partition(b"?")[::2]) if is_plain else one.target
        assert one == other._replace(target=target), f"{one}, and by h11 {other}"


def _statuses(exchange: _Exchange) -> list[int]:
    """Return the statuses of all responses; fails if one is not complete, or belongs to no request."""
    methods, found = [each.method for each in exchange.requests], list[int]()
    sent = exchange.sent.removesuffix(_CONTINUE)  # sent for the rest of a request, which never came
    while sent:
        client = h11.Connection(h11.CLIENT)
        client.send(h11.Request(method=methods.pop(0) if methods else "GET", target="/", headers=[("Host", "x")]))
        client.send(h11.EndOfMessage())
        client.receive_data(sent)
        while not isinstance(event := client.next_event(), h11.EndOfMessage):
            assert isinstance(event, (h11.Response, h11.InformationalResponse, h11.Data)), sent
            if isinstance(event, h11.Response):
                found.append(event.status_code)
        sent = client.trailing_data[0]
    answered = found.count(200)
    assert answered == len(exchange.requests) or (exchange.is_dropped and answered < len(exchange.requests)), found
    assert all(status in (200, 400, 413, 431) for status in found), found
    return found


def _by_h11(data: bytes) -> Iterator[_Request]:
    """Yield the requests that h11 finds, up to one that it refuses."""
    server = h11.Connection(h11.SERVER)
    server.receive_data(data)
    while True:
        request, body = None, b""
        try:
            while not isinstance(event := server.next_event(), h11.EndOfMessage):
                if isinstance(event, h11.Request):
                    request = event
                elif isinstance(event, h11.Data):
                    body += event.data
                else:
                    return
            assert request is not None
            yield _Request(request.method.decode(), request.target, body)
            server.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
            server.send(h11.EndOfMessage())
            server.start_next_cycle()
        except h11.ProtocolError:
            return


def _seeds() -> Iterator[bytes]:
    get = (
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\nAccept-Encoding: gzip"
    )
    get += b"\r\n"
    yield get + b"\r\n"
    yield 3 * (get + b"\r\n")
    yield get + b"Connection: close\r\n\r\n" + get + b"\r\n"
    yield b"HEAD /prefix/gpus?node=a&gpu=%30#x HTTP/1.1\r\nHost: x\r\n\r\n"
    yield b"POST /-/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" + get + b"\r\n"
    yield (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: x\r\n\r\n"
        + get
        + b"\r\n"
    )
    yield b"PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab"
    yield b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"
    yield b"GET http://x:1/gpus HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    yield b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"
    yield b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n"
    yield b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\nab"


HTTP_SERVER = FuzzTarget(
    "http_server",
    _read,
    (),
    _verify,
    _seeds,
    (
        *(
            b"GET / HTTP/1.1\r\n",
            b"POST ",
            b"HEAD ",
            b" HTTP/1.0\r\n",
            b"\r\n\r\n",
            b"Host: x\r\n",
            b"\r\n ",
            b"chunked",
        ),
        *(b"Content-Length: ", b"Transfer-Encoding: ", b"Connection: close", b"Connection: keep-alive", b"Upgrade: "),
        *(b"Expect: 100-continue", b"Accept: ", b"Accept-Encoding: ", b";q=0.5", b"0\r\n\r\n", b"%2f", b"?", b"//"),
    ),
)
