"""HTTP servers of the standard library, run beside a test."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer


class QuietHandler(BaseHTTPRequestHandler):
    """Handles requests without a log."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def running(server: TCPServer) -> Iterator[None]:
    """Run a server in a thread, and close it."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
