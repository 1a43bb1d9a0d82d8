"""The body of an answer, read within a limit: a small answer may unpack to gigabytes."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator
from io import BytesIO

import aiohttp

from pulsed.http.failure import MAX_SHOWN, HttpRequestFailed, failure_of
from pulsed.printable import clean

_PIECE_BYTES = 256 * 1024
"""Bytes that are unpacked at once: zlib needs twice the memory of its result."""

_MAX_MEMBERS = 4096
"""Members of gzip data: those without content take time, and never reach a limit of bytes."""


async def read_body(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """Return the whole body; raise `HttpRequestFailed` if that fails, or if it exceeds the limit when decompressed."""
    if (response.content_length or 0) > limit and _encoding(response) == "identity":
        raise _too_large(limit)
    with BytesIO() as content:  # gives its content without a copy; closed, so that no error keeps it
        async for piece in _pieces(response):
            if content.tell() + len(piece) > limit:
                raise _too_large(limit)
            content.write(piece)
        return content.getvalue()


async def lines(response: aiohttp.ClientResponse, limit: int) -> AsyncIterator[bytes]:
    """Yield the lines of a body of any length that are not empty; one above the limit raises `HttpRequestFailed`."""
    line = b""
    async for piece in _pieces(response):
        *ended, rest = (line + piece).split(b"\n")
        for each in filter(None, ended):
            yield each
        line = rest
        if len(line) > limit:
            raise _too_large(limit)


async def _pieces(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the body as it arrives, decompressed."""
    encoding = _encoding(response)
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise HttpRequestFailed(
            "body", f"answers in the encoding '{encoding}'", "Have the proxy before it send gzip or plain text"
        )
    gzip = None if encoding == "identity" else _GzipStream()
    try:
        async for data in response.content.iter_any():
            if gzip is None:
                yield data
            else:
                for piece in gzip.unpack(data):
                    yield piece
    except zlib.error as error:
        raise _bad_gzip(f"sends broken gzip data: {error}") from error
    except (aiohttp.ClientError, OSError) as error:
        raise failure_of(error) from error
    if gzip is not None and not gzip.is_complete:
        raise _bad_gzip("sends gzip data that is cut off")


class _GzipStream:
    """Gzip data, unpacked as it arrives, of one or several members.

    Attributes:
        is_complete: whether nothing is missing.
    """

    def __init__(self) -> None:
        self._member = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self._members = 1
        self.is_complete = True

    def unpack(self, data: bytes) -> Iterator[bytes]:
        """Yield what the next piece of the data contains, in pieces; raises `zlib.error`."""
        has_more = False
        while data or has_more:
            if self._member.eof:
                self._members += 1
                if self._members > _MAX_MEMBERS:
                    raise zlib.error(f"it has more than {_MAX_MEMBERS} members")
                self._member = zlib.decompressobj(16 + zlib.MAX_WBITS)
            piece = self._member.decompress(data, _PIECE_BYTES)
            has_more = len(piece) == _PIECE_BYTES and not self._member.eof  # zlib may have more without further input
            data = self._member.unconsumed_tail or self._member.unused_data
            yield piece
        self.is_complete = self._member.eof


def _encoding(response: aiohttp.ClientResponse) -> str:
    return clean(response.headers.get("Content-Encoding", "identity")[:MAX_SHOWN].lower())


def _too_large(limit: int) -> HttpRequestFailed:
    return HttpRequestFailed(
        "body",
        f"sends more than {limit} bytes",
        "Check whether this is an exporter's page, or increase source.exporter.max_page_bytes",
    )


def _bad_gzip(what: str) -> HttpRequestFailed:
    return HttpRequestFailed("body", what, "See the proxy before the exporter")
