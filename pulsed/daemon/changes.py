"""Changes for people and programs: health of GPUs and nodes, owners, findings, and GPUs that are no longer expected.

Subscribers get them with the ticks; the log has the changes of health, findings and GPUs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pulsed.daemon.feature import Feature, FeatureParts
from pulsed.model.health import SEVERITY, HealthChange, NodeHealth, State
from pulsed.model.result import Removal
from pulsed.model.tick import Tick
from pulsed.owners.findings import FindingChange
from pulsed.present.api.event_documents import Change, removal_change
from pulsed.present.api.events import EventBroadcaster

if TYPE_CHECKING:
    from fastapi import APIRouter

log = logging.getLogger(__name__)


class EventsFeature(Feature):
    """Sends ticks and changes to subscribers, by the section `events` of the start."""

    name = "events"

    def __init__(self, parts: FeatureParts) -> None:
        settings, self._store = parts.active.config.events, parts.store
        self._events = EventBroadcaster(lambda: self._store.node, settings.max_subscribers, settings.heartbeat)

    def take_tick(self, tick: Tick) -> None:
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


class HealthChanges(Feature):
    """Logs a line for each change of health, and for each GPU that is no longer expected."""

    name = "log"

    def __init__(self, parts: FeatureParts) -> None:
        self._store = parts.store

    def take_tick(self, tick: Tick) -> None:
        """Log the changes of a tick."""
        for change in tick.health_changes:
            log_health_change(change, self._store.node)
        for removal in tick.removed:
            self.forget(removal)

    def forget(self, removal: Removal) -> None:
        """Log that an absent GPU is no longer expected."""
        entity = removal.device.entity
        log.log(
            logging.INFO if removal.reason in ("forgotten", "moved") else logging.WARNING,
            removal.message,
            extra={
                "node": entity.node or self._store.node,
                "gpu": entity.gpu,
                "uuid": entity.uuid,
                "reason": removal.reason,
            },
        )


def log_health_change(change: HealthChange, node: str) -> None:
    """Log a change of a GPU's health; changes of single checks only where they are for the worse.

    A change to a critical state is an error, one to `warn` or `hot` a warning.

    Args:
        node: the host of GPUs without a node of their own.
    """
    is_worse = SEVERITY[change.after] > max(SEVERITY[change.before], 0)
    if change.check and not is_worse:
        return
    entity = change.device.entity
    log.log(
        _level(change.after) if is_worse else logging.INFO,
        f"health check: {change.message}" if change.check else "health of a GPU changed",
        extra={
            "node": entity.node or node,
            "gpu": entity.gpu,
            "uuid": entity.uuid,
            **({"check": change.check} if change.check else {}),
            "before": change.before,
            "after": change.after,
            **({"remedy": change.remedy} if is_worse else {}),
        },
    )


def log_node_checks(before: NodeHealth | None, after: NodeHealth, node: str) -> None:
    """Log checks of a node that have become worse, or are raised no longer."""
    states = {check.id: check for check in before.checks} if before is not None else {}
    for check in after.checks:
        old = states.get(check.id)
        was, extra = max(old.severity, 0) if old is not None else 0, {"node": node, "check": check.id}
        if check.severity > was:
            extra |= {"after": check.state, "remedy": check.remedy}
            log.log(_level(check.state), f"health check: {check.message}", extra=extra)
        elif check.severity == 0 < was:
            log.info("a health check of the node is ok again", extra=extra)


def _level(state: State) -> int:
    if state == "crit":
        return logging.ERROR
    return logging.WARNING if SEVERITY[state] >= SEVERITY["warn"] else logging.INFO


def log_finding(change: FindingChange, node: str) -> None:
    """Log a finding that begins or ends; `node` is the host of GPUs without a node of their own."""
    entity, owner = change.device.entity, change.owner
    log.log(
        logging.WARNING if change.is_active else logging.INFO,
        f"{change.name} suspected: {change.message}" if change.is_active else f"{change.name} no longer suspected",
        extra={"node": entity.node or node, "gpu": entity.gpu, "uuid": entity.uuid, "owner": owner.id},
    )
