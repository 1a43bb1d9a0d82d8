"""A unary gRPC call over a Unix socket, with h2 for HTTP/2.

One call every 10 s needs neither grpcio's 19 MB on disk nor its 10 MB of memory; h2 has 1.1 and 1.4. Imported by those
who call only. Each call has a connection of its own, so that a restarted server needs no care.
"""

from __future__ import annotations

import asyncio
import struct
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, Event, ResponseReceived, StreamReset, TrailersReceived
from h2.exceptions import ProtocolError

from pulsed.errors import AttributionError

_PREFIX = struct.Struct(">?I")
"""Before a message: whether it is compressed, and its length."""

_CODES = {3: "INVALID_ARGUMENT", 4: "DEADLINE_EXCEEDED", 7: "PERMISSION_DENIED", 8: "RESOURCE_EXHAUSTED"}
_CODES |= {12: "UNIMPLEMENTED", 13: "INTERNAL", 14: "UNAVAILABLE", 16: "UNAUTHENTICATED"}


async def unary_call(socket: str, method: str, *, max_bytes: int) -> bytes:
    """Return the response message of a call with an empty request message.

    Args:
        socket: path of the Unix socket.
        method: such as `/v1.PodResourcesLister/List`.
        max_bytes: a longer response is an error.

    Raises:
        OSError: the connection cannot be made, or broke.
        AttributionError: the server answered with an error, with too much, or not in gRPC.
    """
    reader, writer = await asyncio.open_unix_connection(socket)
    try:
        connection = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        connection.initiate_connection()
        stream = connection.get_next_available_stream_id()
        headers = {":method": "POST", ":scheme": "http", ":path": method, ":authority": "localhost"}
        headers |= {"te": "trailers", "content-type": "application/grpc"}
        connection.send_headers(stream, list(headers.items()))
        connection.send_data(stream, _PREFIX.pack(False, 0), end_stream=True)
        writer.write(connection.data_to_send())
        response = _Response(max_bytes)
        while data := await reader.read(1 << 16):
            for event in connection.receive_data(data):
                response.add(event)
                if isinstance(event, DataReceived):
                    connection.acknowledge_received_data(event.flow_controlled_length, stream)
            if "grpc-status" in response.headers:
                return response.message()
            writer.write(connection.data_to_send())
        raise ConnectionResetError(0, "the connection was closed before the response")
    except (ProtocolError, UnicodeError) as error:
        raise AttributionError(f"{socket} does not speak gRPC: {error}", "check that it is the right socket") from None
    finally:
        writer.close()


class _Response:
    """What has arrived of a response."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._body = bytearray()
        self.headers: dict[str, str] = {}

    def add(self, event: Event) -> None:
        if isinstance(event, (ResponseReceived, TrailersReceived)):
            self.headers.update((str(name), str(value)) for name, value in event.headers)
            if (status := self.headers.get(":status", "200")) != "200":
                raise AttributionError(f"the call was answered with HTTP status {status}")
        elif isinstance(event, DataReceived):
            self._body += event.data
            if len(self._body) > self._max_bytes + _PREFIX.size:
                raise AttributionError(f"the response is larger than {self._max_bytes} bytes")
        elif isinstance(event, (StreamReset, ConnectionTerminated)):
            raise ConnectionResetError(0, f"the call was aborted with HTTP/2 error {event.error_code}")

    def message(self) -> bytes:
        code = self.headers["grpc-status"]
        if code != "0":
            name = _CODES.get(int(code) if code.isdecimal() and len(code) < 4 else 0, f"status {code[:16]}")
            raise AttributionError(f"the call failed: {name} {unquote(self.headers.get('grpc-message', ''))[:500]}")
        if len(self._body) < _PREFIX.size:
            raise AttributionError("the response is empty")
        is_compressed, length = _PREFIX.unpack_from(self._body)
        if is_compressed or length != len(self._body) - _PREFIX.size:
            raise AttributionError("the response is compressed or incomplete")
        return bytes(memoryview(self._body)[_PREFIX.size :])
