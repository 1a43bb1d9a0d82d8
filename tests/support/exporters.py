"""Exporters that behave as they are told, for tests of what a daemon makes of that."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer

from tests.support.http_servers import QuietHandler, running


@dataclass
class Exporter:
    """What is served under one path.

    Attributes:
        body: of the next answers.
        status: of the next answers.
        go: while it is not set, requests wait.
        asked: how many requests have come.
        credentials: the headers `Authorization` that have come.
    """

    body: str
    status: int = 200
    go: threading.Event = field(default_factory=threading.Event)
    asked: int = 0
    credentials: set[str | None] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.go.set()

    def answer(self) -> str:
        """Return the body of one answer."""
        return self.body


@contextlib.contextmanager
def exporting(exporters: dict[str, Exporter]) -> Iterator[str]:
    """Serve each exporter under `/NAME`; gives the beginning of their URLs."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            exporter = exporters[self.path.lstrip("/")]
            exporter.asked += 1
            exporter.credentials.add(self.headers.get("Authorization"))
            exporter.go.wait()
            text = exporter.answer()
            body = text.encode()
            with contextlib.suppress(ConnectionError):  # whoever asked has lost patience
                self.send_response(exporter.status)
                self.send_header("Content-Type", "text/html" if text.startswith("<") else "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 64  # all targets of a test are scraped at the same time

    server = Server(("127.0.0.1", 0), Handler)
    with running(server):
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            for exporter in exporters.values():
                exporter.go.set()


def page(gpu: int, sm_active: float = 0.5) -> str:
    """A small page of dcgm-exporter about one GPU."""
    labels = (
        f'gpu="{gpu}",UUID="GPU-{gpu}0000000-0000-4000-8000-000000000000",device="nvidia{gpu}",'
        'modelName="NVIDIA A10",Hostname="node"'
    )
    return (
        "# HELP DCGM_FI_PROF_SM_ACTIVE The ratio of cycles an SM has at least 1 warp assigned.\n"
        "# TYPE DCGM_FI_PROF_SM_ACTIVE gauge\n"
        f"DCGM_FI_PROF_SM_ACTIVE{{{labels}}} {sm_active:f}\n"
        "# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).\n"
        "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n"
        f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} 150.250000\n"
    )
