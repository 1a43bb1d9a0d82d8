"""The body of an answer: gzip or plain, within a limit and a budget of memory that the bodies of all targets share.

Large pages that arrive at the same time wait for each other. Bodies up to `SMALL_BODY_BYTES` are not counted and never
wait. A larger one grows in steps. A step is granted only if afterwards all bodies can still be completed one after the
other, each up to the most that it may need (the banker's algorithm): they never wait for each other in a circle.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from io import BytesIO
from types import TracebackType

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
        reservation: its share of the memory of all bodies; by default it has a budget of its own.

    Attributes:
        is_waiting: whether it has no share for more. Reading should pause until `granted` is called.
    """

    def __init__(self, limit: int, reservation: Reservation | None = None) -> None:
        self._limit = limit
        self._reservation = reservation or Reservation(BodyBudget(limit))
        self._granted: Callable[[], None] = lambda: None
        self._is_empty = True
        self._size = 0
        self._content = BytesIO()  # gives its content without a copy
        self._packed = b""  # input that waits to be decompressed
        self._gunzip: zlib._Decompress | None = None
        self.is_waiting = False

    def begin(self, encoding: str, announced: int = 0, granted: Callable[[], None] = lambda: None) -> None:
        """Before the first byte.

        Args:
            encoding: Content-Encoding in lower case; `identity` without one.
            announced: Content-Length; 0 without one. A plain body that is too large is not read.
            granted: called when the body no longer waits for its share; `resume` is due then.

        Raises:
            BadBody: the encoding was not requested, or the body is too large.
        """
        self._granted = granted
        self._reservation.most = self._limit
        if encoding in ("gzip", "x-gzip"):
            self._gunzip = zlib.decompressobj(16 + zlib.MAX_WBITS)
        elif encoding != "identity":
            raise BadBody(f"answers in the encoding '{encoding}'", "Have the proxy before it send gzip or plain text")
        elif announced > self._limit:
            raise self._too_large()
        elif announced:
            self._reservation.most = announced

    def feed(self, data: bytes) -> None:
        """Take a piece, cut anywhere.

        Raises:
            BadBody: it is too large by now, or no gzip data.
        """
        self._is_empty = False
        if self._gunzip is None:
            self._take(data)
        elif self.is_waiting:
            self._packed += data
        else:
            self._unpack(data)

    def resume(self) -> None:
        """Go on after `granted` was called.

        Raises:
            BadBody: as `feed`.
        """
        self.is_waiting = False
        if self._gunzip is not None:
            packed, self._packed = self._packed, b""
            self._unpack(packed, has_more=True)

    def _unpack(self, data: bytes, *, has_more: bool = False) -> None:
        assert self._gunzip is not None
        try:
            while (data or has_more) and not self.is_waiting:
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
        self._packed = data

    def no_share(self) -> BadBody:
        """Return the error for a body that waited for its share for too long."""
        return BadBody(
            f"could not be read in time: large pages of other targets filled the {self._reservation.total} bytes that "
            "all share",
            "See which targets send large pages, or increase source.exporter.timeout",
        )

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
        if not self.is_waiting and not self._reservation.extend(self._size, self._granted):
            self.is_waiting = True

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

    def begin(self, encoding: str, announced: int = 0, granted: Callable[[], None] = lambda: None) -> None:
        """As `Body.begin`; the whole may have any length."""
        super().begin(encoding, 0, granted)
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


SMALL_BODY_BYTES = 256 * 1024
"""Size up to which a body does not count. Pages of a node with 16 GPUs and all fields have half of it."""

_STEP_BYTES = 256 * 1024


class BodyBudget:
    """Memory for bodies that are being received or parsed.

    Args:
        total: bytes; at least the limit of one body.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = total
        self._holding: set[Reservation] = set()
        self._waiting: dict[Reservation, Callable[[], None]] = {}

    def extend(self, reservation: Reservation, size: int, granted: Callable[[], None]) -> bool:
        """Return whether a body may have `size` bytes; otherwise `granted` is called once it may, unless released."""
        if self._grant(reservation, size):
            return True
        self._waiting[reservation] = granted
        reservation.wanted = size
        return False

    def release(self, reservation: Reservation) -> None:
        """Take back the bytes of a body, and grant them to those that wait, the longest first."""
        self._waiting.pop(reservation, None)
        if reservation not in self._holding:
            return
        self._holding.remove(reservation)
        self._free += reservation.held
        reservation.held = 0
        for waiting in tuple(self._waiting):
            if waiting in self._waiting and self._grant(waiting, waiting.wanted):
                self._waiting.pop(waiting)()

    def _grant(self, reservation: Reservation, size: int) -> bool:
        step = min(max(_STEP_BYTES, size - reservation.size), reservation.most - reservation.held)
        if step > self._free:
            return False
        self._free -= step
        reservation.held += step
        self._holding.add(reservation)
        if self._all_can_end():
            return True
        self._free += step
        reservation.held -= step
        if not reservation.held:
            self._holding.remove(reservation)
        return False

    def _all_can_end(self) -> bool:
        free = self._free
        for each in sorted(self._holding, key=lambda each: each.most - each.held):
            if each.most - each.held > free:
                return False
            free += each.held
        return True


class Reservation:
    """The bytes that one body has of a budget; a context manager that releases them.

    Attributes:
        most: bytes that the body may need in the end, at most the budget's total.
        held: bytes that it has of the budget.
        wanted: size that it waits for, bytes.
    """

    __slots__ = ("_budget", "held", "most", "wanted")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self.most = budget.total
        self.held = self.wanted = 0

    @property
    def size(self) -> int:
        """Bytes that the body may have now."""
        return SMALL_BODY_BYTES + self.held

    @property
    def total(self) -> int:
        """Bytes of all bodies together."""
        return self._budget.total

    def extend(self, size: int, granted: Callable[[], None]) -> bool:
        """Return whether the body may have `size` bytes; otherwise `granted` is called once it may, unless released."""
        return size <= self.size or self._budget.extend(self, size, granted)

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._budget.release(self)
