"""Which daemons are shown: those of the URLs, else the one of this host, else one of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from pulsed.commands.daemon_client import ClientSettings, DaemonClient
from pulsed.commands.options import DEFAULT_URL
from pulsed.commands.top.feed import Connection
from pulsed.commands.top.own_daemon import OwnDaemon
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
