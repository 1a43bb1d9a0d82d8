"""Invalidation of cached pages."""

from __future__ import annotations

from pulsed.model.target_store import TargetStore

REFRESH_SECONDS = 1.0
"""Maximum age of a page without a new tick, because counters of pulsed itself change."""


class CacheKey:
    """The state of the target store that a cached page was rendered from.

    It expires with every change of the store, when a target turns stale, and with age.
    """

    def __init__(self) -> None:
        self._version = -1
        self._targets = -1
        self._since = 0.0
        self._until = 0.0

    def expired(self, board: TargetStore, now: float) -> bool:
        """Return whether the key has expired, and if so renew it; `now` is monotonic seconds."""
        version = board.version
        if version == self._version and len(board.targets) == self._targets and self._since <= now < self._until:
            return False
        self._version, self._targets, self._since = version, len(board.targets), now
        turns = [target.arrived + target.stale_after for target in board.targets if target.fresh(now)]
        # fresh() is still true at the very moment that a target turns stale.
        self._until = min([now + REFRESH_SECONDS, *turns])
        return True
