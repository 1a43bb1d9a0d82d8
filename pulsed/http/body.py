"""The body of an answer: gzip or plain, within a limit."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from io import BytesIO

_PIECE_BYTES = 256 * 1024
"""Bytes that are unpacked at once: zlib needs twice the memory of its result."""


class BadBody(Exception):
    """A body that is no page; the text goes behind the name of the target.

    Attributes:
        remedy: what to do about it, one sentence.
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.remedy = remedy


class Body:
    """One body, decompressed as it arrives. That stops at the limit: a small answer may unpack to gigabytes.

    Args:
        limit: size that it may have when decompressed, bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._is_empty = True
        self._size = 0
        self._content = BytesIO()  # gives its content without a copy
        self._gunzip: zlib._Decompress | None = None

    def begin(self, encoding: str, announced: int = 0) -> None:
        """Before the first byte.

        Args:
            encoding: Content-Encoding in lower case; `identity` without one.
            announced: Content-Length; 0 without one. A plain body that is too large is not read.

        Raises:
            BadBody: the encoding was not requested, or the body is too large.
        """
        if encoding in ("gzip", "x-gzip"):
            self._gunzip = zlib.decompressobj(16 + zlib.MAX_WBITS)
        elif encoding != "identity":
            raise BadBody(f"answers in the encoding '{encoding}'", "Have the proxy before it send gzip or plain text")
        elif announced > self._limit:
            raise self._too_large()

    def feed(self, data: bytes) -> None:
        """Take a piece, cut anywhere.

        Raises:
            BadBody: it is too large by now, or no gzip data.
        """
        self._is_empty = False
        if self._gunzip is None:
            self._take(data)
        else:
            self._unpack(data)

    def _unpack(self, data: bytes) -> None:
        assert self._gunzip is not None
        has_more = False
        try:
            while data or has_more:
                if self._gunzip.eof:  # gzip data may come as several members, one after the other
                    if not data:
                        break
                    self._gunzip = zlib.decompressobj(16 + zlib.MAX_WBITS)
                piece = self._gunzip.decompress(data, _PIECE_BYTES)
                has_more = len(piece) == _PIECE_BYTES  # zlib may have more without further input
                self._take(piece)
                data = self._gunzip.unconsumed_tail or self._gunzip.unused_data
        except zlib.error as error:
            raise BadBody(f"sends broken gzip data: {error}", "See the proxy before the exporter") from error

    def end(self) -> bytes:
        """Return the whole, which the body then holds no longer.

        Raises:
            BadBody: gzip data without an end.
        """
        if not self._is_empty and self._gunzip is not None and not self._gunzip.eof:
            raise BadBody("sends gzip data that is cut off", "See the proxy before the exporter")
        content, self._content = self._content, BytesIO()
        return content.getvalue()

    def _take(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._limit:
            self._content = BytesIO()
            raise self._too_large()
        self._content.write(data)

    def _too_large(self) -> BadBody:
        return BadBody(
            f"sends more than {self._limit} bytes",
            "Check whether this is an exporter's page, or increase source.exporter.max_page_bytes",
        )


class LineBody(Body):
    """A body of any length that is taken line by line, as it arrives.

    Args:
        limit: bytes of one line.
        begun: called when an answer with status 200 begins.
        take: called with each complete line, without its end; what it raises ends the answer.
    """

    def __init__(self, limit: int, begun: Callable[[], None], take: Callable[[bytes], None]) -> None:
        super().__init__(limit)
        self._begun, self._take_line, self._line = begun, take, b""

    def begin(self, encoding: str, announced: int = 0) -> None:
        """As `Body.begin`; the whole may have any length."""
        super().begin(encoding)
        self._begun()

    def _take(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = self._line + lines[0]
            self._line = rest
        else:
            self._line += rest
        if len(self._line) > self._limit:
            raise self._too_large()
        for line in lines:
            if line:
                self._take_line(line)
