"""Recent samples of every GPU in memory, and their routes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pulsed.daemon.feature import Feature, FeatureParts
from pulsed.model.computed_tick import ComputedTick, Removal
from pulsed.present.api.history import History

if TYPE_CHECKING:
    from fastapi import APIRouter


class HistoryFeature(Feature):
    """Keeps samples by the section `history` of the start."""

    name = "history"

    def __init__(self, parts: FeatureParts) -> None:
        settings = parts.config.history
        self._store, self._history = parts.store, History(settings.seconds, settings.max_bytes, settings.fields)

    def take_tick(self, tick: ComputedTick) -> None:
        """Keep the samples of a tick."""
        self._history.add(tick)

    def forget(self, removal: Removal) -> None:
        """Hide the samples of a GPU."""
        self._history.forget(removal.device)

    def routes(self) -> Iterator[APIRouter]:
        """Yield the routes of samples."""
        from pulsed.present.api.routes.history import history_router

        yield history_router(self._store, self._history)
