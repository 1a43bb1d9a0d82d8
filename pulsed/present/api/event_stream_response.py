"""The response of a stream of server-sent events."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Response

from pulsed.present.api.events import HEADERS, RETRY_SECONDS, EventBroadcaster, TooManySubscribers
from pulsed.present.api.gpu_columns import ColumnReader
from pulsed.present.api.json_response import json_response
from pulsed.present.asgi import HEAD_ONLY, Receive, Scope, Send


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
            with self._events.subscribed(self._kinds, self._gpu) as subscriber:
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await self._events.serve(subscriber, receive, send, self._columns)
        except TooManySubscribers:
            message = {"error": "/events: too many subscribers; increase events.max_subscribers"}
            await json_response(message, 503, {"Retry-After": f"{RETRY_SECONDS:.0f}"})(scope, receive, send)
