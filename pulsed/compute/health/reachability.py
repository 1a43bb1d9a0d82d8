"""Whether one GPU answers, sample by sample.

A source that no longer lists a GPU is not evidence that the GPU is lost: exporters list only claimed GPUs, and a GPU
may have been given to a virtual machine.
"""

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
        polls_missed: in a row without an answer although the source lists the GPU, or with other evidence that it is
            lost; no more than two; None for a GPU that never answered, or whose loss is not known.
        polls_unlisted: in a row in which the source does not list it, without such evidence; no more than two.
        missed_since: when it was missed first, in Unix seconds; None while it answers.
        last_seen: when it last answered, in Unix seconds; 0 for never.
    """

    polls_missed: float | None = 0.0
    polls_unlisted: float = 0.0
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

    def update(
        self, state: InputState, reading: Reading, time: float, now: float, *, has_peers: bool, is_evident: bool
    ) -> None:
        """Record a sample of a GPU that the source lists: its state, its reading, and its time in Unix seconds and by
        the GPU's clock.

        Stale inputs do not prove that the GPU is gone. If no other GPU of the source answers, the source itself may be
        silent.

        Args:
            has_peers: whether any GPU of the source answers.
            is_evident: whether something else shows that the GPU is lost.
        """
        if state == "stale":
            return
        self.polls_unlisted = 0.0
        if state != "blank":
            self.polls_missed, self.missed_since = 0.0, None
            self._seen, self.last_seen = now, time
        elif not self.last_seen:
            self.polls_missed = None if reading == NOTHING else 0.0
        elif has_peers or is_evident:
            self.polls_missed = self._count_poll(time, now)

    def update_unlisted(self, time: float, now: float, *, is_evident: bool) -> None:
        """Record a sample without the GPU; one that was lost before stays lost."""
        if not self.last_seen:
            self.polls_missed = None
            return
        polls = self._count_poll(time, now)
        if is_evident or self.is_lost:
            self.polls_missed, self.polls_unlisted = polls, 0.0
        else:
            self.polls_missed, self.polls_unlisted = None, polls

    def _count_poll(self, time: float, now: float) -> float:
        """Return how many polls have missed it with this one: two once that is long enough."""
        is_long = self.missed_since is not None and has_passed(LOST_SECONDS, self._seen, now)
        self.missed_since = time if self.missed_since is None else self.missed_since
        return float(LOST_POLLS) if is_long else 1.0

    @property
    def is_lost(self) -> bool:
        """Whether it was missed often enough to be lost."""
        return self.polls_missed == LOST_POLLS

    @property
    def is_unlisted(self) -> bool:
        """Whether the source has not listed it for long enough, and nothing shows that it is lost."""
        return self.polls_unlisted == LOST_POLLS
