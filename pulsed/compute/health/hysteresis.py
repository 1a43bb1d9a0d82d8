"""Hysteresis: the time between a reached level and a raised state, the same for every kind of rule."""

from __future__ import annotations

from math import inf

ROUNDING = 1e-6
"""Tolerance of time comparisons in seconds: clocks are floats."""

UNKNOWN = -1

_NEVER = -inf
"""One object for all instances: `-inf` in a function is a new one each time, and a fleet has half a million."""


class Hysteresis:
    """The state of one rule for one GPU, as a severity.

    Args:
        enter: seconds for which a severity must be reached without a break before it is raised.
        hold: minimum seconds for which a raised one is kept.
        release: seconds for which it must not be reached before it is left.

    Attributes:
        held: the severity now; -1 while unknown.
        until: when `hold` ends.
        due: when to evaluate again although no input changes.
    """

    __slots__ = ("_below", "_enter", "_hold", "_reached", "_release", "due", "held", "until")

    def __init__(self, enter: float, hold: float, release: float) -> None:
        self._enter, self._hold, self._release = enter, hold, release
        self._reached: dict[int, float] | None = None  # created on demand: most rules never reach a level
        self._below: float | None = None
        self.held = UNKNOWN
        self.until = _NEVER
        self.due = inf

    def follow(self, reached: int, kept: int, now: float) -> int:
        """Return the severity after a sample.

        Args:
            reached: the severity reached; 0 for none, -1 when the inputs are missing.
            kept: the severity still reached with the thresholds moved back by the margin to leave.
            now: seconds.
        """
        self.due = inf
        if reached < 0:
            self._reached = self._below = None
            if self.held > 0 and now < self.until:
                self.due = self.until
            else:
                self.held = UNKNOWN
            return self.held
        if reached == 0 and self.held <= 0:
            self._reached = None
            self.held = 0
            return 0
        target = max(self._entered(reached, now), min(kept, self.held), 0)
        if target > self.held:
            self.held, self.until, self._below = target, now + self._hold, None
        elif target == self.held:
            self._below = None
        else:
            self._leave(target, now)
        return self.held

    def interrupt(self) -> None:
        """Restart the time to enter: the GPU was not observed for a while."""
        self._reached = None

    def restore(self, severity: int, until: float) -> None:
        """Continue with a state that was raised before, held until a time."""
        self.held, self.until, self.due = severity, until, _NEVER

    def _entered(self, reached: int, now: float) -> int:
        """Return the worst severity that has been reached for long enough."""
        if not self._enter:
            return reached
        since = self._reached = {} if self._reached is None else self._reached
        entered = 0
        for severity in range(1, 5):
            if severity > reached:
                since.pop(severity, None)
            elif now - since.setdefault(severity, now) >= self._enter - ROUNDING:
                entered = severity
            elif severity > self.held:
                self.due = min(self.due, since[severity] + self._enter)
        return entered

    def _leave(self, target: int, now: float) -> None:
        if self._below is None:
            self._below = now
        free = max(self.until, self._below + self._release)
        if now >= free - ROUNDING:
            self.held, self._below = target, None
        else:
            self.due = min(self.due, free)
