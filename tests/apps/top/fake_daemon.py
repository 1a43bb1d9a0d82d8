"""A daemon's answers without a daemon: those of `fleet_model`, with every request written down."""

from __future__ import annotations

import json
from typing import Any

from pulsed.apps.daemon_client import DaemonUnreachable, RequestRefused
from pulsed.apps.top.feed import Connection
from tests.present.terminal.fleet_model import answers


class FakeDaemon:
    """Answers requests until `is_up` is false; `missing` routes are 404."""

    def __init__(self) -> None:
        made = answers().documents
        self.is_up, self.missing = True, frozenset[str]()
        self.paths: list[str] = []
        self.documents: dict[str, Any] = {
            **{f"/{name}": document for name, document in made.items()},
            "/gpus": made["summary"],
            "/gpus/2": made["detail"],
            "/gpus/2/class": made["class"],
            "/events/recent": made["events"],
            "/events/incidents": made["incidents"],
            "/processes": {"published": False, "visible": None, "processes": []},
        }

    def json(self, path: str) -> Any:
        self.paths.append(path)
        route = path.partition("?")[0]
        if not self.is_up:
            raise DaemonUnreachable("cannot reach it", "Start it")
        if route in self.missing:
            raise RequestRefused(route, 404, "")
        found = self.documents.get(route, self.documents["/gpus/2/class" if route.endswith("/class") else "/gpus/2"])
        return json.loads(json.dumps(found))

    def connect(self) -> Connection:
        return Connection(self, "http://node1:9401")

    def routes(self) -> list[str]:
        """The routes since the last call."""
        found = [path.partition("?")[0] for path in self.paths]
        self.paths.clear()
        return found
