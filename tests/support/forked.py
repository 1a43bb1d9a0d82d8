"""Daemons of tests, forked from a process that has imported pulsed, which takes a second of CPU each time.

A daemon with another interpreter, other variables of Python or in a control group is a new process; see `serving`.
`python -m tests.support.forked DESCRIPTOR` is the process that forks.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import IO, Any

MESSAGE_BYTES = 2**18
READ_AT_START = ("PYTHON", "LD_", "MALLOC_", "GLIBC_", "LC_", "LANG", "TZ")
"""Beginnings of variables that have an effect only at the start of a process."""

PRELOADED = (
    "pulsed.daemon.serve",
    "pulsed.present.api.routes.events",
    "pulsed.present.api.routes.history",
    "pulsed.present.api.routes.owners",
    "pulsed.http.client",
    "pydantic.v1",
    "rich.console",
    "uvicorn.lifespan.off",
)
"""What every daemon imports, and most commands."""


class ForkedProcess:
    """A forked process, with the members of `subprocess.Popen` that tests use."""

    def __init__(self, server: _ForkServer, pid: int) -> None:
        self._server, self.pid = server, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None as long as it runs."""
        if self.returncode is None:
            status = self._server.request({"status": self.pid})
            self.returncode = None if status is None else os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended. Raises `subprocess.TimeoutExpired`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("pulsed", timeout or 0.0)
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


class _ForkServer:
    """The process that forks, of this process of tests."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            command = [sys.executable, "-m", __name__, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])  # ends with this process's socket

    def request(self, message: Mapping[str, object], descriptors: Sequence[int] = ()) -> int | None:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(message).encode()], descriptors)
            answer: int | None = json.loads(self._socket.recv(MESSAGE_BYTES))
        return answer


@functools.cache
def _server(_: int) -> _ForkServer:
    return _ForkServer()


def forked(arguments: Sequence[str], variables: Mapping[str, str], output: IO[str], errors: IO[str]) -> ForkedProcess:
    """Run pulsed in a fork, with output and errors to files."""
    server = _server(os.getpid())
    message = {"arguments": arguments, "variables": dict(variables), "folder": os.getcwd()}
    pid = server.request(message, [0, output.fileno(), errors.fileno()])
    assert pid is not None
    return ForkedProcess(server, pid)


def is_forkable(variables: Mapping[str, str]) -> bool:
    """Return whether a process with these additional variables can be a fork."""
    return not any(name.startswith(READ_AT_START) for name in variables)


def _serve(requests: socket.socket) -> Sequence[str] | None:
    """Fork by request until the process of tests ends, then return None; return the arguments in each fork."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, MESSAGE_BYTES, 3)
        if not message:
            return None
        request: dict[str, Any] = json.loads(message)
        answer: int | None = None
        if "status" in request:
            with contextlib.suppress(ChildProcessError):
                pid, status = os.waitpid(request["status"], os.WNOHANG)
                answer = status if pid else None
        else:
            answer = os.fork()
            if not answer:
                requests.close()
                for number, descriptor in enumerate(descriptors):
                    os.dup2(descriptor, number)
                    os.close(descriptor)
                os.chdir(request["folder"])
                os.environ.clear()
                os.environ.update(request["variables"])
                arguments: list[str] = request["arguments"]
                return arguments
        for descriptor in descriptors:
            os.close(descriptor)
        requests.send(json.dumps(answer).encode())


def _run() -> None:
    """Run pulsed, then end as Python does, but without the freeing of modules, two thirds of a command's CPU here."""
    code = 0
    try:
        code = import_module("pulsed.cli").main()
    except SystemExit as end:  # of --help
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    import_module("threading")._shutdown()  # waits for threads, and ends those of executors
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    for name in PRELOADED:
        import_module(name)
    import_module("pulsed.config.configuration").load(None, (), {})  # makes the validator of the configuration
    gc.collect()
    gc.freeze()  # else each fork collects all of this soon
    given = _serve(socket.socket(fileno=int(sys.argv[1])))
    if given is not None:
        sys.argv[1:] = given
        _run()
