"""Headers of every response of the API: no content sniffing, and no caching unless a route allows it."""

from __future__ import annotations

from pulsed.present.asgi import App, Message, Receive, Scope, Send


class ResponseHeaders:
    """ASGI middleware that adds the headers."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"], (b"x-content-type-options", b"nosniff")]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, add)
