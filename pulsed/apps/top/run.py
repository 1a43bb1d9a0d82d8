"""Starts `pulsed top` for the daemons at the URLs, the daemon of this host, or a private daemon."""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs, urlsplit

from pulsed.apps.daemon_client import ClientSettings, DaemonClient, client_settings, clients_of
from pulsed.apps.top.feed import Connection, Feed
from pulsed.apps.top.session import TopSession
from pulsed.cli.arguments import load_config
from pulsed.cli.options import DEFAULT_URL
from pulsed.die_with_parent import dying_with_parent
from pulsed.errors import PulsedError, UsageError
from pulsed.present.terminal.frame import VIEWS
from pulsed.present.terminal.text import Theme
from pulsed.present.terminal.view_state import ViewState
from pulsed.printable import is_unicode

if TYPE_CHECKING:
    from pulsed.apps.top.app import TopApp

MIN_INTERVAL_SECONDS = 0.25
"""Shortest time between two requests."""

ONCE_SIZE = 160, 50
"""Columns and lines of a frame for a pipe, unless COLUMNS and LINES are set."""

ASCII_TERMINALS = ("linux", "dumb")
"""Values of TERM without graphs; the font of the Linux console lacks most of their characters."""


class MissingTerminalPackage(PulsedError):
    """The extra `top` is not installed."""


def run(options: argparse.Namespace) -> int:
    """Show the GPUs of the given daemons and return the exit code.

    Without URLs, the daemon of this host is used if it runs, otherwise a private one that reads the source itself.

    Raises:
        UsageError: wrong arguments.
        PulsedError: nothing can be shown.
    """
    own = _own_arguments(options)
    if (options.urls or options.nodes) and own:
        options.parser.error(f"{own[0].partition('=')[0]} configures a local source: leave out the URL")
    if options.interval < MIN_INTERVAL_SECONDS:
        options.parser.error("--interval is at least 250ms")
    opened = opening(options.urls[0] if options.urls else "")
    view = ViewState(view=opened.view, window=opened.window, gpus=_shown(getattr(options, "config.gpus")))
    settings = client_settings(options)
    local = LocalDaemon(lambda: _local_urls(options, own), own, settings)
    clients = clients_of(options.urls, options.nodes, settings).values() if options.urls or options.nodes else ()
    feeds = [Feed(partial(Connection, each, each.address), each.address, options.interval) for each in clients]
    feeds = feeds or [Feed(local.connect, "this host", options.interval)]
    session = TopSession(feeds, view, opened.gpu)
    theme = theme_of(os.environ, options.theme, is_terminal=sys.stdout.isatty())
    ascii = options.ascii or not is_unicode(sys.stdout) or os.environ.get("TERM") in ASCII_TERMINALS
    try:
        if not options.once:
            app = _app_type()(session, theme, ascii=ascii, interval=options.interval)
            app.run()
            return app.return_code or 0
        size, wait = shutil.get_terminal_size(ONCE_SIZE), 0.0 if options.urls else START_SECONDS
        session.print_once(sys.stdout, size, theme, ascii=ascii, wait=wait)
        return 0
    finally:
        local.stop()


def _own_arguments(options: argparse.Namespace) -> list[str]:
    """Return the arguments of the daemon of a local source: the same as for `top`."""
    pairs = [
        ("--config.file", options.config_file),
        ("--source", getattr(options, "config.source.kind")),
        ("--log.level", getattr(options, "config.log.level")),
        *(("--set", each) for each in options.overrides),
    ]
    return [f"{name}={value}" for name, value in pairs if value is not None]


def _local_urls(options: argparse.Namespace, own: Sequence[str]) -> Sequence[str]:
    """Return where a daemon of this host may be; none if a local source is requested."""
    if getattr(options, "config.source.kind") is not None:
        return ()
    if not own and not any(name.startswith("PULSED_") for name in os.environ):
        return (DEFAULT_URL,)  # without the configuration, which takes long to import
    config = load_config(options)
    return local_urls(config.listen, config.web.prefix)


def _shown(gpus: str | None) -> frozenset[str]:
    names = (gpus or "").split(",")
    return frozenset() if names[0] in ("", "all") else frozenset(names)


def _app_type() -> type[TopApp]:
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):  # Textual draws on stderr
        raise UsageError("top: stdin, stdout or stderr is not a terminal", "`pulsed top --once` prints one frame")
    if os.environ.get("TERM") == "dumb":
        raise UsageError("top: TERM=dumb has no full-screen view", "`pulsed top --once` prints one frame")
    try:
        from pulsed.apps.top.app import TopApp
    except ModuleNotFoundError as error:
        raise MissingTerminalPackage(
            f"top: the package {error.name} is missing",
            "Install it with: pip install 'pulsed[top]'. `pulsed top --once` prints one frame without it",
        ) from None
    return TopApp


def theme_of(environment: Mapping[str, str], theme: Theme | None, *, is_terminal: bool) -> Theme:
    """Return the theme: no colour with NO_COLOR or for a pipe, otherwise the requested one or the terminal's best."""
    if environment.get("NO_COLOR") or not is_terminal or environment.get("TERM") == "dumb":
        return "none"
    if theme is not None:
        return theme
    if environment.get("COLORTERM") not in ("truecolor", "24bit"):
        return "16"
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in ("7", "15") else "dark"


START_SECONDS = 20.0
END_SECONDS = 5.0


class OwnSourceFailed(PulsedError):
    """The daemon for the local source ended or did not start."""


class Opening(NamedTuple):
    """The view that a URL names in its fragment, as the web page does: `#/gpu/3`, `#/plot?s=600`."""

    view: str = "fleet"
    gpu: str = ""
    window: float = 600.0


def opening(url: str) -> Opening:
    """Return the view that the fragment of a URL names; Fleet without one."""
    path, _, query = urlsplit(url).fragment.partition("?")
    view, _, gpu = path.strip("/").partition("/")
    seconds = parse_qs(query).get("s", [""])[0]
    window = float(seconds) if seconds.isdecimal() and 10 <= int(seconds) <= 86400 else 600.0
    return Opening(view if view in VIEWS else "fleet", gpu if view == "gpu" else "", window)


def local_urls(listen: Sequence[str], prefix: str) -> list[str]:
    """Return the URLs of addresses that a daemon of this host listens on."""
    addresses = [each.rpartition(":") for each in listen if not each.startswith("unix:")]
    hosts = [("localhost" if host in ("", "0.0.0.0", "[::]") else host, port) for host, _, port in addresses]
    return [f"http://{host}:{port}{prefix}" for host, port in hosts if port.isdecimal()] or [DEFAULT_URL]


class LocalDaemon:
    """The daemon of this host, or a private one on a loopback port, which ends with this program.

    Args:
        urls: returns where a daemon of this host may be; called once, as it may read the configuration.
        arguments: of `pulsed serve` for the own one.
        settings: of requests to a daemon of this host.
    """

    def __init__(self, urls: Callable[[], Sequence[str]], arguments: Sequence[str], settings: ClientSettings) -> None:
        self._urls, self._arguments, self._settings = urls, arguments, settings
        self._process: subprocess.Popen[bytes] | None = None

    def connect(self) -> Connection:
        """Find or start the daemon.

        Raises:
            OwnSourceFailed: the own one ended, with its last message.
            PulsedError: the configuration is not valid.
        """
        for url in self._urls():
            client = DaemonClient(url, self._settings)
            with suppress(PulsedError, KeyError, TypeError):
                client.json("/version")["version"]
                return Connection(client, client.address)
        return Connection(self._start(), "local source, as no daemon runs here")

    def _start(self) -> DaemonClient:
        self.stop()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        command = [*(sys.executable, "-m", "pulsed", "serve", f"--web.listen-address={address}"), *self._arguments]
        command.append("--set=state_dir=")  # the configured folder belongs to the daemon
        client, deadline = (
            DaemonClient(f"http://{address}", ClientSettings(START_SECONDS)),
            time.monotonic() + START_SECONDS,
        )
        with tempfile.TemporaryFile() as log:
            self._process = subprocess.Popen(
                dying_with_parent(command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
            )
            while self._process.poll() is None and time.monotonic() < deadline:
                with suppress(PulsedError):
                    client.request("/-/healthy")
                    return client
                time.sleep(0.05)
            log.seek(0)
            lines = log.read().decode(errors="replace").strip().splitlines()
        self.stop()
        message = lines[-1] if lines else f"no answer within {START_SECONDS:.0f} s"
        raise OwnSourceFailed(f"the local source did not start: {message}", "Give the URL of a running pulsed")

    def stop(self) -> None:
        """End the own daemon, if it runs."""
        if (process := self._process) is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
