"""A server in place of a daemon, of whoever binds the port while pulsed is down: commands name it and end."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import subprocess
import sys
from collections.abc import Callable, Mapping
from http.server import ThreadingHTTPServer

import pytest

from tests.support.control_group import control_group
from tests.support.daemon import environment
from tests.support.http_servers import QuietHandler, running
from tests.support.nightly import nightly_rows_after
from tests.support.waiting import SECONDS

MEGABYTES = 1024
OTHERS = '{"rows": [], "worst": [], "gpus": [], "health": [], "running": 1000000000, "jobs": '


def jobs(count: int, junk: str) -> bytes:
    job = f'{{"id": "1", "begin": "2026-01-01T00:00:00Z", "end": null, "gpus": [], "x": {junk}}}'
    return f"{OTHERS}[{', '.join([job] * count)}]}}".encode()


ATTACKS: Mapping[str, Callable[[], bytes]] = {
    "gzip of 255 MB": lambda: gzip.compress(OTHERS.encode() + b"[" + b"[]," * (85 * 2**20) + b"0]}", 1),
    "nested lists": lambda: jobs(1, "[" * 900 + "]" * 900),
    "pages without end": lambda: jobs(250, f'"{"x" * 40_000}"'),
}
COMMANDS = ("health {}", "jobs --since 1d {}", "jobs --format json {}", "job {} 4711", "report {}", "top --once {}")


PAIRS = list(itertools.product(ATTACKS, COMMANDS))
FIRST = list(zip(itertools.cycle(ATTACKS), COMMANDS, strict=False))
"""Each command, with one attack after the other."""


@pytest.mark.slow
@pytest.mark.parametrize(("attack", "command"), nightly_rows_after(len(FIRST), dict.fromkeys((*FIRST, *PAIRS))))
def test_a_command_names_it_and_ends(attack: str, command: str) -> None:
    body = ATTACKS[attack]()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            if attack.startswith("gzip"):
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            with contextlib.suppress(OSError):  # the command has had enough
                self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with running(server), control_group(MEGABYTES * 2**20, 512) as within:
        address = f"127.0.0.1:{server.server_port}"
        words = [*within, sys.executable, "-m", "pulsed", *command.format(address).split()]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=2 * SECONDS, env=environment(), check=False
        )
    assert "Traceback" not in done.stderr
    assert done.returncode in (1, 3)
    assert address in done.stderr
