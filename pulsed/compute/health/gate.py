"""What happens between a level that is reached and a state that is raised: the same for every kind of rule."""

from __future__ import annotations

from math import inf

ROUNDING = 1e-6
"""Clocks are floats: so much less time is enough."""

UNKNOWN = -1
OK = 0

_LONG_AGO = -inf
"""One object for all gates: `-inf` in a function is a new one each time, and a fleet has half a million gates."""


class Gate:
    """The state of one rule for one GPU, as a severity.

    Args:
        enter: seconds for which a severity must be reached without a break before it is raised.
        hold: seconds for which a raised one is kept at least.
        release: seconds for which it must not be reached before it is left.

    Attributes:
        held: the severity now; -1 while unknown.
        due: when to look again although nothing changes.
    """

    __slots__ = ("_below", "_enter", "_hold", "_reached", "_release", "due", "held", "until")

    def __init__(self, enter: float, hold: float, release: float) -> None:
        self._enter, self._hold, self._release = enter, hold, release
        self._reached: dict[int, float] | None = None  # made when needed: most rules never do
        self._below: float | None = None
        self.held = UNKNOWN
        self.until = _LONG_AGO
        self.due = inf

    def follow(self, raw: int, kept: int, now: float) -> int:
        """Take what is reached now.

        Args:
            raw: the severity reached; 0 for none, -1 when the inputs are missing.
            kept: the severity that is still reached when the thresholds are moved back by the margin to leave.
            now: the clock.
        """
        self.due = inf
        if raw < 0:
            return self._without_inputs(now)
        if raw == 0 and self.held <= 0:
            self._reached = None
            self.held = 0
            return 0
        target = max(self._entered(raw, now), min(kept, self.held), 0)
        if target > self.held:
            self.held, self.until, self._below = target, now + self._hold, None
        elif target == self.held:
            self._below = None
        else:
            self._leave(target, now)
        return self.held

    def interrupt(self) -> None:
        """Forget what was reached but not raised: nobody looked for a while."""
        self._reached = None

    def restore(self, severity: int, until: float) -> None:
        """Go on with a state that was raised before, at least until a clock."""
        self.held, self.until, self.due = severity, until, _LONG_AGO

    def _without_inputs(self, now: float) -> int:
        self._reached = None
        self._below = None
        if self.held > 0 and now < self.until:
            self.due = self.until
        else:
            self.held = UNKNOWN
        return self.held

    def _entered(self, raw: int, now: float) -> int:
        if not self._enter:
            return raw
        reached = self._reached
        if reached is None:
            reached = self._reached = {}
        entered = 0
        for severity in range(1, 5):
            if severity > raw:
                reached.pop(severity, None)
                continue
            since = reached.setdefault(severity, now)
            if now - since >= self._enter - ROUNDING:
                entered = severity
            elif severity > self.held:
                self.due = min(self.due, since + self._enter)
        return entered

    def _leave(self, target: int, now: float) -> None:
        if self._below is None:
            self._below = now
        free = max(self.until, self._below + self._release)
        if now >= free - ROUNDING:
            self.held, self._below = target, None
        else:
            self.due = min(self.due, free)
