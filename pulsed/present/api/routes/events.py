"""The routes of events: the stream and the last changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from orjson import Fragment
from pydantic import Field

from pulsed.model.target_store import TargetStore
from pulsed.present.api.event_documents import CHANGE_KINDS, KINDS, TICK, TICK_FIELDS
from pulsed.present.api.events import HEADERS, RETRY_SECONDS, EventBroadcaster, TooManySubscribers
from pulsed.present.api.gpu_columns import ColumnReader
from pulsed.present.api.incident_documents import MAX_TROUBLES
from pulsed.present.api.incident_shapes import IncidentShape
from pulsed.present.api.kept_events import MAX_CHANGES
from pulsed.present.api.routing import (
    REFUSED,
    Failure,
    NodeAnswer,
    chosen,
    chosen_fields,
    failure_response,
    json_response,
    node_answer,
    some_of,
)
from pulsed.present.api.sample_fields import FIELDS
from pulsed.present.asgi import EVENTS, HEAD_ONLY, Receive, Scope, Send, client_of


class RecentChangesShape(NodeAnswer):
    """The last changes, the newest first."""

    changes: list[dict[str, Any]] = Field(description="`id` and `event` as in /events, and its data")


class IncidentsShape(NodeAnswer):
    """The incidents of the last changes, the newest first."""

    incidents: list[IncidentShape]


class EventStreamResponse(Response):
    """A response that lasts until the client disconnects or the daemon stops."""

    media_type = "text/event-stream"

    def __init__(
        self, events: EventBroadcaster, kinds: Sequence[str], gpu: str | None, columns: ColumnReader | None = None
    ) -> None:
        self._events, self._kinds, self._gpu, self._columns = events, kinds, gpu, columns
        self.status_code = 200
        self.background = None
        self.init_headers(HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Subscribe and send events, or answer 503 if there are too many subscribers."""
        if scope.get(HEAD_ONLY):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": b""})
            return
        try:
            with self._events.subscribed(self._kinds, self._gpu, client_of(scope).network) as subscriber:
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await self._events.serve(subscriber, receive, send, self._columns)
        except TooManySubscribers:
            message = "/events: too many subscribers; increase events.max_subscribers"
            await failure_response(message, 503, {"Retry-After": f"{RETRY_SECONDS:.0f}"})(scope, receive, send)


def event_router(store: TargetStore, events: EventBroadcaster) -> APIRouter:
    """Return the routes `/events` and `/events/recent`."""
    router = APIRouter()

    @router.get(
        EVENTS,
        status_code=200,
        response_class=EventStreamResponse,
        responses=REFUSED | {503: {"model": Failure, "description": "Too many clients"}},
        summary="Server-sent events: every sample, and every change of class or health",
    )
    async def stream(
        types: str = some_of(KINDS, "events"),
        gpu: Annotated[str | None, Query(description="only this GPU: an index, UUID or `index:MIG id`")] = None,
        format: Annotated[
            Literal["json", "columns"],
            Query(description="columns: instead of ticks the state of all changed GPUs, `max_rate` times per second"),
        ] = "json",
        fields: str = some_of(FIELDS, "columns", default=",".join(TICK_FIELDS)),
        max_rate: Annotated[float, Query(ge=0.01, le=10, description="batches of columns per second")] = 1.0,
    ) -> Response:
        shown = chosen_fields(fields)
        event_types = chosen(
            "types", types, KINDS, lambda name: f"{name!r} is not an event; allowed: {', '.join(KINDS)}"
        )
        if format == "json":
            return EventStreamResponse(events, event_types, gpu)
        reader = ColumnReader(store, shown, gpu, 1 / max_rate) if TICK in event_types else None
        return EventStreamResponse(events, [name for name in event_types if name != TICK], gpu, reader)

    @router.get(
        "/events/recent",
        response_model=RecentChangesShape,
        responses=REFUSED,
        summary="The last changes of class, health, owners and expected GPUs, and XIDs, the newest first",
    )
    async def recent_changes(
        types: str = some_of(CHANGE_KINDS, "events", default=",".join(CHANGE_KINDS)),
        gpu: Annotated[str | None, Query(description="only this GPU: an index, UUID or `index:MIG id`")] = None,
        since: Annotated[float, Query(description="not before this Unix time", allow_inf_nan=False)] = 0.0,
        limit: Annotated[int, Query(ge=1, le=MAX_CHANGES * len(CHANGE_KINDS))] = 100,
    ) -> Response:
        event_types = chosen(
            "types", types, CHANGE_KINDS, lambda name: f"{name!r} is not a change; allowed: {', '.join(CHANGE_KINDS)}"
        )
        changes = events.recent.find(event_types, gpu, since, limit)
        documents = [Fragment(each.document) for each in changes]
        return json_response({**node_answer(store.node), "changes": documents})

    @router.get(
        "/events/incidents",
        response_model=IncidentsShape,
        responses=REFUSED,
        summary="What went wrong: one entry for all that a fault of a GPU brought within a minute, the newest first",
    )
    async def incidents(
        gpu: Annotated[str | None, Query(description="only this GPU: an index, UUID or `index:MIG id`")] = None,
        since: Annotated[float, Query(description="not before this Unix time", allow_inf_nan=False)] = 0.0,
        limit: Annotated[int, Query(ge=1, le=MAX_TROUBLES)] = 100,
    ) -> Response:
        found = events.incidents.find(gpu, since, limit, store.node)
        return json_response({**node_answer(store.node), "incidents": found})

    return router
