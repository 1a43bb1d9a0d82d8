"""A real `pulsed serve` in a process of its own, for tests that look at it from outside."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.forked import ForkedProcess, forked, is_forkable
from tests.support.waiting import SECONDS


def free_port() -> int:
    """A TCP port of this machine that nobody listens on, and that the system gives to no client meanwhile."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def environment(**extra: str) -> dict[str, str]:
    """The environment of a child: this one without pulsed's own variables, warnings as errors."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PULSED_")}
    return kept | {"PYTHONWARNINGS": "error", "PYTHONUNBUFFERED": "1"} | extra


def pulsed(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run one pulsed command to its end."""
    command, variables = [sys.executable, "-m", "pulsed", *arguments], environment(**extra)
    if not is_forkable(extra):
        return subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False, env=variables)
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = forked(arguments, variables, output, errors)
        try:
            code = process.wait(2 * SECONDS)
        finally:
            process.kill()
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(command, code, output.read(), errors.read())


@dataclass
class Answer:
    """One HTTP answer, the body as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Daemon:
    """A running daemon."""

    process: subprocess.Popen[str] | ForkedProcess
    port: int
    log_path: Path
    authority: Path | str = ""
    address: str = field(init=False)

    def __post_init__(self) -> None:
        self.address = f"127.0.0.1:{self.port}"

    def get(self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Answer:
        if not self.authority:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        else:
            tls = ssl.create_default_context(cafile=str(self.authority))
            connection = http.client.HTTPSConnection("localhost", self.port, timeout=SECONDS, context=tls)
        try:
            connection.request(method, path, headers=dict(headers or {}))
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def wait_for(self, path: str, status: int = 200, seconds: float = SECONDS) -> Answer:
        """Ask until the answer has this status."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                answer = self.get(path)
                if answer.status == status:
                    return answer
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"{path} never answered {status}; exit code {self.process.poll()}; log:\n{self.log()}")

    def log(self) -> str:
        return self.log_path.read_text()

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = SECONDS) -> int:
        self.process.send_signal(number)
        return self.process.wait(seconds)


@contextlib.contextmanager
def serving(
    folder: Path,
    *arguments: str,
    ready: bool = True,
    within: Sequence[str] = (),
    authority: Path | str = "",
    at: str = "",
    **extra: str,
) -> Iterator[Daemon]:
    """Start `pulsed serve` on a free port; waits until it is ready, or healthy only; ends it afterwards.

    `within` is the beginning of a command that runs the daemon as its only process; `authority` the file of the
    authority's certificate of a daemon that serves TLS. `at`: its port, by default a free one.
    """
    port = int(at) if at else free_port()
    log_path = folder / f"pulsed-{port}.log"
    words = ["serve", "--web.listen-address", f"127.0.0.1:{port}", *arguments]
    process: subprocess.Popen[str] | ForkedProcess
    with log_path.open("w") as log:
        if not within and is_forkable(extra):
            process = forked(words, environment(**extra), log, log)
        else:
            command = [*within, sys.executable, "-m", "pulsed", *words]
            process = subprocess.Popen(command, stderr=log, stdout=log, text=True, env=environment(**extra))
    daemon = Daemon(process, port, log_path, authority)
    try:
        daemon.wait_for("/-/ready" if ready else "/-/healthy")
        yield daemon
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(SECONDS)
