"""When something that was made from the board must be made anew."""

from __future__ import annotations

from pulsed.collector.target_store import TargetStore

REFRESH_SECONDS = 1.0
"""Even without a new tick nothing is served longer than this: ages and counters about pulsed itself move on."""


class CacheKey:
    """The state of the board at some moment, for those who keep what they made from it.

    An edition is outdated by every change of the board, by the moment in which a target turns stale, and by age.
    """

    def __init__(self) -> None:
        self._version = -1
        self._targets = -1
        self._since = 0.0
        self._until = 0.0

    def outdated(self, board: TargetStore, now: float) -> bool:
        """Tell whether the edition has ended, and if so begin a new one; `now` is monotonic seconds."""
        version = board.version
        if version == self._version and len(board.targets) == self._targets and self._since <= now < self._until:
            return False
        self._version, self._targets, self._since = version, len(board.targets), now
        turns = [target.arrived + target.stale_after for target in board.targets if target.fresh(now)]
        # fresh() still holds at the very moment of the turn; one past it must not meet a page of before it.
        self._until = min([now + REFRESH_SECONDS, *turns])
        return True
