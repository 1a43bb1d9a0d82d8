"""The routes of events: the stream and the last changes."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from pulsed.model.target_store import TargetStore
from pulsed.present.api import schema
from pulsed.present.api.event_documents import CHANGE_KINDS, KINDS, TICK, TICK_FIELDS
from pulsed.present.api.event_stream_response import EventStreamResponse
from pulsed.present.api.events import EventBroadcaster
from pulsed.present.api.gpu_columns import ColumnReader
from pulsed.present.api.json_response import REFUSED, list_response
from pulsed.present.api.query_fields import chosen, chosen_fields, some_of
from pulsed.present.api.recent_changes import MAX_CHANGES
from pulsed.present.api.sample_fields import FIELDS
from pulsed.present.asgi import EVENTS
from pulsed.present.time_text import rfc3339


def event_router(board: TargetStore, events: EventBroadcaster) -> APIRouter:
    """Return the routes `/events` and `/events/recent`."""
    router = APIRouter()

    @router.get(
        EVENTS,
        status_code=200,
        response_class=EventStreamResponse,
        responses=REFUSED | {503: {"model": schema.Failure, "description": "Too many clients"}},
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
        wanted = chosen("types", types, KINDS, lambda name: f"{name!r} is not an event; allowed: {', '.join(KINDS)}")
        if format == "json":
            return EventStreamResponse(events, wanted, gpu)
        reader = ColumnReader(board, shown, gpu, 1 / max_rate) if TICK in wanted else None
        return EventStreamResponse(events, [name for name in wanted if name != TICK], gpu, reader)

    @router.get(
        "/events/recent",
        response_model=schema.RecentChangesShape,
        responses=REFUSED,
        summary="The last changes of class, health, owners and expected GPUs, and XIDs, the newest first",
    )
    async def recent_changes(
        types: str = some_of(CHANGE_KINDS, "events", default=",".join(CHANGE_KINDS)),
        gpu: Annotated[str | None, Query(description="only this GPU: an index, UUID or `index:MIG id`")] = None,
        since: Annotated[float, Query(description="not before this Unix time", allow_inf_nan=False)] = 0.0,
        limit: Annotated[int, Query(ge=1, le=MAX_CHANGES * len(CHANGE_KINDS))] = 100,
    ) -> Response:
        wanted = chosen(
            "types", types, CHANGE_KINDS, lambda name: f"{name!r} is not a change; allowed: {', '.join(CHANGE_KINDS)}"
        )
        found = events.recent.find(wanted, gpu, since, limit)
        head = {"node": board.node, "time": rfc3339(time.time())}
        return list_response(head, "changes", (each.document(board.node) for each in found))

    return router
