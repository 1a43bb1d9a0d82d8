"""Pulsed's own source for `pulsed top`: a daemon of its own on a port of the loopback, which ends with it."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import IO

from pulsed.commands.daemon_client import ClientSettings, DaemonClient
from pulsed.die_with_parent import dying_with_parent
from pulsed.errors import PulsedError

START_SECONDS = 20.0
END_SECONDS = 5.0


class OwnSourceFailed(PulsedError):
    """The daemon for the own source ended or did not start."""


class OwnDaemon:
    """Starts `pulsed serve` with these arguments when it is first needed."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def start(self) -> DaemonClient:
        """Start the daemon and return a client.

        Raises:
            OwnSourceFailed: it ended, with its last message.
        """
        port = _free_port()
        command = [
            *(sys.executable, "-m", "pulsed", "serve", f"--web.listen-address=127.0.0.1:{port}", *self._arguments),
            "--set=state_dir=",  # that of the configuration is for the daemon
        ]
        self.stop()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the process)
        self._process = process = subprocess.Popen(
            dying_with_parent(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
        )
        client = DaemonClient(f"http://127.0.0.1:{port}", ClientSettings(START_SECONDS))
        deadline = time.monotonic() + START_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            try:
                client.request("/-/healthy")
            except PulsedError:
                time.sleep(0.05)
                continue
            return client
        message = f"the own source did not start: {_last_line(self._log)}"
        self.stop()
        raise OwnSourceFailed(message, "Give the URL of a running pulsed")

    def stop(self) -> None:
        """End the daemon, if it runs."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._log is not None:
            self._log.close()


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"no answer within {START_SECONDS:.0f} s"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
