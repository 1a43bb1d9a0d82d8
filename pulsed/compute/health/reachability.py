"""Whether a GPU that was there still answers."""

from __future__ import annotations

from dataclasses import dataclass

from pulsed.compute.freshness import InputState
from pulsed.compute.health.model import has_passed
from pulsed.model.vocabulary import NOTHING, Reading

LOST_SECONDS = 1.0
"""Two polls of a fast source are too short a time for a lost GPU."""

LOST_POLLS = 2


@dataclass(slots=True, eq=False)
class Reachability:
    """Whether one GPU answers.

    Attributes:
        polls_missed: in a row, no more than two; None for a GPU that never answered.
        missed_since: when it was missed first, in Unix seconds; None while it answers.
        last_seen: when it last answered, in Unix seconds; 0 for never.
    """

    polls_missed: float | None = 0.0
    missed_since: float | None = None
    last_seen: float = 0.0
    _misses: int = 0
    _seen: float = 0.0

    def expect(self, last_seen: float) -> None:
        """Continue with the time in Unix seconds at which it last answered."""
        self.last_seen = last_seen
        self._seen = -LOST_SECONDS

    def update(self, state: InputState, reading: Reading, has_peers: bool, time: float, now: float) -> None:
        """Take a sample. Stale inputs are no proof that the GPU is gone.

        Args:
            state: of its inputs.
            reading: all None for a GPU that is in no sample.
            has_peers: whether another GPU of the source answers; without one the source itself may be silent.
            time: in Unix seconds.
            now: seconds of the GPU's clock.
        """
        if state == "stale":
            return
        if state != "blank":
            if self._misses or self.polls_missed is None:
                self._misses, self.missed_since, self.polls_missed = 0, None, 0.0
            self._seen, self.last_seen = now, time
        elif not self.last_seen:
            self.polls_missed = None if reading == NOTHING else 0.0
        elif has_peers or reading == NOTHING:
            if not self._misses:
                self.missed_since = time
            self._misses += 1
            is_long = has_passed(LOST_SECONDS, self._seen, now)
            self.polls_missed = float(min(self._misses, LOST_POLLS)) if is_long else 1.0

    @property
    def is_lost(self) -> bool:
        """Whether it was missed often enough to be lost."""
        return self.polls_missed is not None and self.polls_missed >= LOST_POLLS
