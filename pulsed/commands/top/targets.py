"""Which daemons are shown: those of the URLs, else the one of this host, else one of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import IO, NamedTuple
from urllib.parse import parse_qs, urlsplit

from pulsed.commands.daemon_client import ClientSettings, DaemonClient
from pulsed.commands.options import DEFAULT_URL
from pulsed.commands.top.feed import Connection
from pulsed.die_with_parent import dying_with_parent
from pulsed.errors import PulsedError
from pulsed.terminal.view_state import VIEWS, ViewName


class Opening(NamedTuple):
    """The view that a URL names in its fragment, as the web page does: `#/gpu/3`, `#/plot?s=600`."""

    view: ViewName = "fleet"
    gpu: str = ""
    window: float | None = None


class LocalTarget:
    """The daemon of this host, else one of its own.

    Args:
        urls: returns where a daemon of this host may be; called once, as it may read the configuration.
        own: for the own source.
        settings: of requests to a daemon of this host.
    """

    def __init__(self, urls: Callable[[], Sequence[str]], own: OwnDaemon, settings: ClientSettings) -> None:
        self._urls, self._own, self._settings = urls, own, settings

    def connect(self) -> Connection:
        """Find or start the daemon; raises `PulsedError`."""
        for url in self._urls():
            client = DaemonClient(url, self._settings)
            try:
                client.json("/version")["version"]
            except (PulsedError, KeyError, TypeError):
                continue
            return Connection(client, client.address)
        return Connection(self._own.start(), "own source, as no daemon runs here")

    def stop(self) -> None:
        """End the own daemon."""
        self._own.stop()


def opening(url: str) -> Opening:
    """Return the view that the fragment of a URL names; Fleet without one."""
    path, _, query = urlsplit(url).fragment.partition("?")
    parts = [part for part in path.split("/") if part]
    seconds = parse_qs(query).get("s", [""])[0]
    window = float(seconds) if seconds.isdecimal() and 10 <= int(seconds) <= 86400 else None
    if len(parts) == 2 and parts[0] == "gpu":
        return Opening("focus", parts[1], window)
    names: dict[str, str] = {"work": "job", **{each: each for each in VIEWS}}
    view = names.get(parts[0], "fleet") if parts else "fleet"
    return Opening(next(each for each in VIEWS if each == view), "", window)


def local_urls(listen: Sequence[str], prefix: str) -> list[str]:
    """Return the URLs of addresses that a daemon of this host listens on."""
    urls = []
    for address in listen:
        host, _, port = address.rpartition(":")
        if address.startswith("unix:") or not port.isdecimal():
            continue
        urls.append(f"http://{'localhost' if host in ('', '0.0.0.0', '[::]') else host}:{port}{prefix}")
    return urls or [DEFAULT_URL]


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
