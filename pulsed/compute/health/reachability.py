"""Whether one GPU answers, sample by sample."""

from __future__ import annotations

from dataclasses import dataclass

from pulsed.compute.sample import InputState, has_passed
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
    _seen: float = 0.0

    def expect(self, last_seen: float) -> None:
        """Continue with the time in Unix seconds at which it last answered."""
        self.last_seen = last_seen
        self._seen = -LOST_SECONDS

    def resume(self, now: float) -> None:
        """Continue after a time in which the source did not deliver, which proves nothing."""
        self._seen = max(self._seen, now)

    def update(self, state: InputState, reading: Reading, has_peers: bool, time: float, now: float) -> None:
        """Record a sample: its state, its reading (all None for a GPU that is in no sample), and its time in Unix
        seconds and by the GPU's clock.

        Stale inputs do not prove that the GPU is gone. If no other GPU of the source answers, the source itself may be
        silent.
        """
        if state == "stale":
            return
        if state != "blank":
            self.polls_missed, self.missed_since = 0.0, None
            self._seen, self.last_seen = now, time
        elif not self.last_seen:
            self.polls_missed = None if reading == NOTHING else 0.0
        elif has_peers or reading == NOTHING:
            is_lost = self.missed_since is not None and has_passed(LOST_SECONDS, self._seen, now)
            self.missed_since = time if self.missed_since is None else self.missed_since
            self.polls_missed = float(LOST_POLLS) if is_lost else 1.0

    @property
    def is_lost(self) -> bool:
        """Whether it was missed often enough to be lost."""
        return self.polls_missed == LOST_POLLS
