"""Ticks and changes for subscribers, and their routes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pulsed.daemon.feature import Feature, FeatureParts
from pulsed.model.computed_tick import ComputedTick, Removal
from pulsed.present.api.event_documents import Change, removal_change
from pulsed.present.api.events import EventBroadcaster

if TYPE_CHECKING:
    from fastapi import APIRouter


class EventsFeature(Feature):
    """Sends events by the section `events` of the start."""

    name = "events"

    def __init__(self, parts: FeatureParts) -> None:
        settings, self._store = parts.config.events, parts.store
        self._events = EventBroadcaster(lambda: self._store.node, settings.max_subscribers, settings.heartbeat)

    def take_tick(self, tick: ComputedTick) -> None:
        """Send a tick and its changes."""
        self._events.publish(tick)

    def announce(self, change: Change) -> None:
        """Send a change that is not part of a tick."""
        self._events.announce(change)

    def forget(self, removal: Removal) -> None:
        """Send that a GPU is no longer expected."""
        self.announce(removal_change(removal))

    def routes(self) -> Iterator[APIRouter]:
        """Yield the routes of events."""
        from pulsed.present.api.routes.events import event_router

        yield event_router(self._store, self._events)

    def stop(self) -> None:
        """End all streams, which would keep the server open."""
        self._events.close()
