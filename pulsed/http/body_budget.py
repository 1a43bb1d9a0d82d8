"""The memory that bodies of all targets share: large pages that arrive at the same time wait for each other.

Bodies up to `SMALL_BODY_BYTES` are not counted and never wait. A larger one grows in steps. A step is granted only if
afterwards all bodies can still be completed one after the other, each up to the most that it may need (the banker's
algorithm): they never wait for each other in a circle. Must not depend on HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

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
