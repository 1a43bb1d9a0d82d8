"""Commands that get documents of something else than a daemon: the others are shown, and the odd one is named."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.daemon import pulsed, serving
from tests.support.http_servers import QuietHandler, running

ODD = {
    "/health/gpus": [{"node": 7, "problems": "x"}, None],
    "/jobs": {"jobs": [{"begin": 3}], "running": 1},
    "/report": {"rows": [{"user": 5}], "worst": [None]},
}


@contextlib.contextmanager
def odd() -> Iterator[str]:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            body = json.dumps(ODD[self.path.partition("?")[0]]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with running(server):
        yield f"127.0.0.1:{server.server_port}"


@pytest.mark.parametrize("command", ["health", "jobs", "report"])
def test_an_odd_daemon_is_named_and_the_others_are_shown(tmp_path: Path, command: str) -> None:
    with odd() as address, serving(tmp_path, "--source=demo") as daemon:
        alone = pulsed(command, address)
        assert alone.returncode == 3
        assert address in alone.stderr
        assert "Traceback" not in alone.stderr
        both = pulsed(command, address, daemon.address)
    assert "Traceback" not in both.stderr
    assert address in both.stdout + both.stderr
    assert len(both.stdout.splitlines()) > 1
