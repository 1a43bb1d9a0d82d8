"""What all responses of the API pass through: gzip for JSON documents, and headers.

Accept-Encoding is respected as on `/metrics`. Small documents are sent as they are; large ones are compressed beside
the event loop, those in pieces piece by piece.
"""

from __future__ import annotations

import gzip
import zlib

from pulsed.background import in_background
from pulsed.present.asgi import App, Header, Message, Receive, Scope, Send, header_of
from pulsed.present.exposition.negotiation import accepts_gzip

MIN_BYTES = 1024
"""Smaller documents fit in one packet anyway."""

LEVEL = 3
"""Level 6 takes 3 times as long for documents a quarter smaller; level 1 is no faster than 3."""

_GZIP_BITS = 31
"""zlib's parameter for the format of gzip."""

_INLINE_BYTES = 64 * 2**10
"""Compressing so much takes less than 1 ms; more is compressed in the background thread."""


class JsonCompression:
    """ASGI middleware that compresses complete JSON documents for clients that accept gzip."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_accepted = accepts_gzip(header_of(scope["headers"], b"accept-encoding"))
        start: Message | None = None
        stream = None

        async def compress(message: Message) -> None:
            nonlocal start, stream
            if message["type"] == "http.response.start":
                if header_of(message["headers"], b"content-type") != "application/json":
                    await send(message)
                    return
                message["headers"] = [*message["headers"], (b"vary", b"Accept-Encoding")]
                start = message
                return
            body, has_more = message.get("body", b""), message.get("more_body", False)
            if start is not None:
                if is_accepted and has_more:
                    stream = zlib.compressobj(LEVEL, wbits=_GZIP_BITS)
                    start["headers"] = _compressed(start["headers"], None)
                elif is_accepted and len(body) >= MIN_BYTES:
                    message = {**message, "body": await _gzip(body)}
                    start["headers"] = _compressed(start["headers"], len(message["body"]))
                await send(start)
                start = None
            if stream is not None:
                message = {**message, "body": stream.compress(body) + (b"" if has_more else stream.flush())}
            await send(message)

        await self._app(scope, receive, compress)


class ResponseHeaders:
    """ASGI middleware that adds headers to all responses: no sniffing, and no caching unless a route allows it."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"], (b"x-content-type-options", b"nosniff")]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, add)


async def _gzip(body: bytes) -> bytes:
    if len(body) <= _INLINE_BYTES:
        return gzip.compress(body, LEVEL, mtime=0)
    return await in_background(lambda: gzip.compress(body, LEVEL, mtime=0))


def _compressed(headers: list[Header], size: int | None) -> list[Header]:
    """Return the headers of a compressed document; its size is not known of one in pieces."""
    kept = [header for header in headers if header[0] != b"content-length"]
    length = [] if size is None else [(b"content-length", str(size).encode())]
    return [*kept, *length, (b"content-encoding", b"gzip")]
