"""A connection of aiohttp with stricter rules for what a server sends.

aiohttp 3.14 limits the length of a header and the number of headers, but not all bytes outside the body: interim
answers, extensions of chunks. It reads what arrives on an idle connection as the answer to the next request, accepts a
body without a length that a reset has cut off, and repeats a request also on a new connection.
"""

from __future__ import annotations

from typing import Any

from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader

from pulsed.http.failure import MAX_HEAD_BYTES, HttpRequestFailed, failure_of, head_too_large

_CHUNK_FRAMING = 8  # bytes of framing for each byte of the body: a chunk of one byte, sizes with leading zeros


class ClientConnection(ResponseHandler):
    """One connection, for one request after the other."""

    _requests = _received = 0
    _has_answer = False

    def set_response_params(self, **parameters: Any) -> None:
        """Begin a request."""
        self._requests += 1
        self._received, self._has_answer = 0, False
        super().set_response_params(**parameters)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take the head of an answer, interim ones included."""
        self._has_answer = data[0].code >= 200
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        """Parse a piece of an answer; end an idle connection, on which a server may send 408 before it closes it."""
        if data and self._has_answer and self._payload is not None and self._payload.is_eof():
            self.abort()
            return
        self._received += len(data)
        super().data_received(data)
        if self._is_head_too_large():
            self._refuse(head_too_large())

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the answer; a body without a length is whole only if the server has closed the connection in order."""
        if exc is not None and self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(failure_of(exc))
            self._payload = None
        super().connection_lost(exc)

    def close(self) -> None:
        """End the connection at once: nothing that is still on its way is of use to either side."""
        self.abort()

    def set_exception(self, exc: BaseException, exc_cause: BaseException | None = None) -> None:
        """End the request. aiohttp sends it again only if a kept connection was closed while it was on its way."""
        if isinstance(exc, HttpProcessingError):
            self._refuse(head_too_large() if self._is_head_too_large() else failure_of(exc))
        elif self._requests > 1 and not self._received:
            super().set_exception(exc)
        else:
            super().set_exception(failure_of(exc, exc_cause))

    def _is_head_too_large(self) -> bool:
        body = 0 if self._payload is None else self._payload.total_bytes
        return self._received > MAX_HEAD_BYTES + (1 + _CHUNK_FRAMING) * body

    def _refuse(self, failure: HttpRequestFailed) -> None:
        super().set_exception(failure)
        if self._payload is not None:
            self._payload.set_exception(failure)
            self._payload = None
        if self.transport is not None:
            self.transport.abort()
