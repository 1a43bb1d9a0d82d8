"""What the kubelet's socket sends: HTTP/2 with a gRPC response, at once and in pieces."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable, Iterator
from typing import Any
from unittest import mock

from h2.config import H2Configuration
from h2.connection import H2Connection

from pulsed.errors import GrpcError
from pulsed.owners.attribution.grpc_call import unary_call
from tests.support.kubernetes.fake_kubelet import container, pods
from tools.fuzz.target import FuzzTarget, pieces, randomness
from tools.fuzz.transport import LOOP, FakeTransport

_MAX_BYTES = 2048
_TURNS = 3  # of the loop, in which a piece is read


async def _call(data: Iterable[bytes]) -> bytes:
    """Return the response of a server that sends this, whatever it is asked, and closes the connection."""
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport = FakeTransport(protocol)
    protocol.connection_made(transport)
    writer = asyncio.StreamWriter(transport, protocol, reader, LOOP)

    async def connected(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return reader, writer

    with mock.patch.object(asyncio, "open_unix_connection", connected):
        call = asyncio.ensure_future(unary_call("/socket", "/v1.PodResourcesLister/List", max_bytes=_MAX_BYTES))
        for piece in data:
            transport.receive([piece])
            for _ in range(_TURNS):
                await asyncio.sleep(0)
        transport.lose()
        return await call


def _run(data: Iterable[bytes]) -> bytes:
    return LOOP.run_until_complete(_call(data))


def _read(data: bytes) -> object:
    return _run([data])


def _verify(data: bytes, outcome: Any) -> None:
    cut = list(pieces(data, randomness(data)))
    found = GRPC_CALL.outcome(lambda: _run(cut))
    if isinstance(outcome, bytes):
        assert len(outcome) <= _MAX_BYTES
        if isinstance(found, bytes):  # else what came in the same piece behind the response was refused
            assert found == outcome


def _response(*frames: bytes, status: str = "0", http_status: str = "200", message: str = "") -> bytes:
    """Return what a server sends for a call: its settings, headers, these pieces of the body, and trailers."""
    client = H2Connection(H2Configuration(client_side=True))
    client.initiate_connection()
    client.send_headers(1, [(":method", "POST"), (":scheme", "http"), (":path", "/x"), (":authority", "x")])
    client.send_data(1, b"", end_stream=True)
    server = H2Connection(H2Configuration(client_side=False))
    server.initiate_connection()
    server.receive_data(client.data_to_send())
    server.send_headers(1, [(":status", http_status), ("content-type", "application/grpc")])
    for frame in frames:
        server.send_data(1, frame)
    trailers = [("grpc-status", status), *([("grpc-message", message)] if message else [])]
    server.send_headers(1, trailers, end_stream=True)
    return server.data_to_send()


def _seeds() -> Iterator[bytes]:
    message = pods({"name": "job", "namespace": "ml", "containers": [container("train", "GPU-5f0c9a1e")]})
    framed = struct.pack(">?I", False, len(message)) + message
    yield _response(framed)
    yield _response(framed[:9], framed[9:])
    yield _response(status="14", message="not%20now")
    yield _response(b"x", http_status="404")
    yield _response(struct.pack(">?I", True, 1) + b"x")
    yield _response(bytes(_MAX_BYTES + 6))
    yield b"HTTP/1.1 400 Bad Request\r\n\r\n"


GRPC_CALL = FuzzTarget(
    "grpc_call",
    _read,
    (GrpcError, OSError),
    _verify,
    _seeds,
    (
        *(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00", b"\x00\x00\x08\x06\x00\x00\x00\x00\x00", b"\x00\x00\x08\x07\x00"),
        *(b"\x00\x00\x04\x03\x00\x00\x00\x00\x01", b"\x00\x00\x04\x08\x00\x00\x00\x00\x01", b"grpc-status", b"\x88"),
    ),
)
