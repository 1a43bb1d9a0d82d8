"""Logs changes of the health of GPUs, and GPUs that are no longer expected."""

from __future__ import annotations

from pulsed.daemon.feature import Feature, FeatureParts
from pulsed.daemon.health_log import log_health_change, log_removal
from pulsed.model.computed_tick import ComputedTick, Removal


class HealthChanges(Feature):
    """Writes a line for each change."""

    name = "log"

    def __init__(self, parts: FeatureParts) -> None:
        self._store = parts.store

    def take_tick(self, tick: ComputedTick) -> None:
        """Log the changes of a tick."""
        for change in tick.health_changes:
            log_health_change(change, self._store.node)
        for removal in tick.removed:
            self.forget(removal)

    def forget(self, removal: Removal) -> None:
        """Log that a GPU is no longer expected."""
        log_removal(removal, self._store.node)
