"""Headers of the web configuration replace those of the application."""

from __future__ import annotations

from pulsed.present.asgi import App, Message, Receive, Scope, Send
from pulsed.server.reloader import WebConfigReloader


class ConfiguredHeaders:
    """ASGI middleware that removes headers which the web configuration sets: the server adds these to every response.

    Two policies for contents would both be in force, and other headers would be repeated.
    """

    def __init__(self, app: App, live: WebConfigReloader) -> None:
        self._app, self._live = app, live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        names = {name for name, _ in self._live.now.headers}
        if not names:
            await self._app(scope, receive, send)
            return

        async def remove(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [each for each in message["headers"] if each[0] not in names]}
            await send(message)

        await self._app(scope, receive, remove)
