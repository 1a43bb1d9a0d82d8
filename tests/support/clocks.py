"""A clock for tests."""

from __future__ import annotations


class ManualClock:
    """Seconds that change only when a test sets `now`."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
