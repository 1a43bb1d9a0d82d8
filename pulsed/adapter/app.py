"""The HTTP side of the adapter: an ASGI application."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from urllib.parse import parse_qsl, unquote

from pulsed.adapter.documents import Document, failure
from pulsed.adapter.metrics_api import MetricsApi, RequestFailed
from pulsed.present.asgi import CLIENT_NAMES, Receive, Scope, Send, respond

log = logging.getLogger(__name__)

ALIVE = ("/livez", "/healthz", "/-/healthy")
READY = ("/readyz", "/-/ready")


class AdapterApp:
    """Answers the API server, and probes.

    Args:
        client_names: common names of client certificates, one of which all requests but probes need; empty: none.
    """

    def __init__(self, api: MetricsApi, client_names: Collection[str] = ()) -> None:
        self._api, self._client_names = api, frozenset(client_names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        code, document = self._answer(scope)
        body = json.dumps(document, separators=(",", ":")).encode()
        await respond(scope, send, code, body, content_type=b"application/json")

    def _answer(self, scope: Scope) -> tuple[int, Document]:
        try:
            return 200, self._document(scope)
        except RequestFailed as error:
            log.debug("request failed", extra={"path": scope["path"], "error": str(error)})
            return error.code, failure(error.code, str(error))

    def _check_client(self, names: frozenset[str]) -> None:
        if self._client_names and not self._client_names & names:
            given = f"its common name is {', '.join(sorted(names))}" if names else "there is none"
            raise RequestFailed(
                401,
                f"a client certificate of adapter.client_names ({', '.join(self._client_names)}) is needed; {given}",
            )

    def _document(self, scope: Scope) -> Document:
        if scope["method"] not in ("GET", "HEAD"):
            raise RequestFailed(405, "only GET and HEAD")
        path = scope["path"]
        if path in ALIVE:
            return {"status": "ok"}
        if path in READY:
            self._api.check_ready()
            return {"status": "ok"}
        self._check_client(scope["state"].get(CLIENT_NAMES, frozenset()))
        # Decoded part by part: the API server sends `*` as %2A, and a name may hold a slash.
        root, *parts = [unquote(part) for part in scope["raw_path"].decode("ascii").strip("/").split("/")]
        if root != "apis":
            raise RequestFailed(404, f"there is no {path}")
        return self._api.get(parts, dict(parse_qsl(scope["query_string"].decode("latin-1"))))
