"""How long a GPU was in each state of its health.

A state lasts from the evaluation that enters it to the one that leaves it. Time that no sample covers is `unknown`, so
that the sum over all states is the time since the first sample. A restart of the daemon does not end a state: what was
saved last may be older than what was published, and counters must not decrease.
"""

from __future__ import annotations

from collections.abc import Mapping

from pulsed.durations import MINUTE
from pulsed.model.health import STATES, State

BRIDGED_SECONDS = MINUTE
"""Time since the state was saved for which it is taken to last: the interval between two writes of the state file."""


class StateSeconds:
    """Seconds by state.

    Attributes:
        state: the current one.
    """

    __slots__ = ("_seconds", "state")

    def __init__(self) -> None:
        self.state: State = "unknown"
        self._seconds: dict[State, float] = dict.fromkeys(STATES, 0.0)

    def add(self, seconds: float, *, is_covered: bool) -> None:
        """Count time that has passed in the current state, if samples cover it."""
        self._seconds[self.state if is_covered else "unknown"] += seconds

    def items(self) -> tuple[tuple[State, float], ...]:
        """Return the seconds by state, in the order of `STATES`."""
        return tuple(self._seconds.items())

    def saved(self) -> dict[State, float]:
        """Return the states that have lasted, for the state file."""
        return {state: seconds for state, seconds in self._seconds.items() if seconds}

    def restore(self, saved: Mapping[State, float], state: State, elapsed: float) -> None:
        """Continue with the state that was saved `elapsed` seconds ago."""
        self._seconds |= {state: max(seconds, 0.0) for state, seconds in saved.items()}  # a file may be damaged
        self.state = state
        bridged = min(elapsed, BRIDGED_SECONDS)
        self.add(bridged, is_covered=True)
        self.add(elapsed - bridged, is_covered=False)
