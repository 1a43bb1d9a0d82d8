"""Starts `pulsed top`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence

from pulsed.commands.daemon_client import DaemonClient
from pulsed.commands.top.feed import Connection, Feed
from pulsed.commands.top.once import once, wait_for_gpus
from pulsed.commands.top.own_daemon import START_SECONDS, OwnDaemon
from pulsed.commands.top.session import TopSession
from pulsed.commands.top.targets import LocalTarget, opening
from pulsed.errors import PulsedError, UsageError
from pulsed.present.terminal.palette import Theme
from pulsed.present.terminal.view_state import ViewState

ONCE_WIDTH, ONCE_HEIGHT = 160, 50
"""Size of a frame for a pipe, unless COLUMNS and LINES are set."""


class MissingTerminalPackage(PulsedError):
    """The extra `top` is not installed."""


def top(
    urls: Sequence[str],
    *,
    own_arguments: Sequence[str] = (),
    local_urls: Callable[[], Sequence[str]],
    gpus: Sequence[str] = (),
    interval: float = 1.0,
    timeout: float = 5.0,
    ca_file: str | None = None,
    theme: Theme,
    ascii: bool = False,
    is_once: bool = False,
) -> int:
    """Show the GPUs of some daemons; return the exit code.

    Args:
        urls: of daemons; none: the one of this host, else a daemon of its own.
        own_arguments: of that daemon.
        local_urls: returns where a daemon of this host may be; empty for none.
        gpus: names of the GPUs to show; all if empty.
        interval: seconds between two requests.

    Raises:
        UsageError: wrong arguments.
        PulsedError: nothing can be shown.
    """
    opened = opening(urls[0] if urls else "")
    view = ViewState(view=opened.view, gpus=frozenset(gpus))
    if opened.window is not None:
        view.window = opened.window
    local = LocalTarget(local_urls, OwnDaemon(own_arguments), timeout)
    clients = [DaemonClient(url, timeout=timeout, ca_file=ca_file) for url in urls]
    try:
        if is_once:
            feeds = [_feed(client, interval) for client in clients] or [Feed(local.connect, "this host", interval)]
            session = TopSession(feeds, view)
            wait_for_gpus(session, START_SECONDS if not urls else 0.0)
            width, height = shutil.get_terminal_size((ONCE_WIDTH, ONCE_HEIGHT))
            return once(session, sys.stdout, width, height, theme, ascii=ascii, gpu=opened.gpu)
        return _interactive(clients, local, view, theme, ascii=ascii, interval=interval, gpu=opened.gpu)
    finally:
        local.stop()


def _feed(client: DaemonClient, interval: float, changed: Callable[[], None] = lambda: None) -> Feed:
    return Feed(lambda: Connection(client, client.address), client.address, interval, changed)


def _interactive(
    clients: Sequence[DaemonClient],
    local: LocalTarget,
    view: ViewState,
    theme: Theme,
    *,
    ascii: bool,
    interval: float,
    gpu: str,
) -> int:
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):  # Textual draws on stderr
        raise UsageError("top: stdin, stdout or stderr is not a terminal", "`pulsed top --once` prints one frame")
    try:
        from pulsed.commands.top.app import TopApp
    except ModuleNotFoundError as error:
        raise MissingTerminalPackage(
            f"top: the package {error.name} is missing",
            "Install it with: pip install 'pulsed[top]'. `pulsed top --once` prints one frame without it",
        ) from None
    apps: list[TopApp] = []

    def changed() -> None:
        apps[0].changed()

    feeds = [_feed(client, interval, changed) for client in clients]
    feeds = feeds or [Feed(local.connect, "this host", interval, changed)]
    apps.append(TopApp(TopSession(feeds, view), theme, ascii=ascii, interval=interval, gpu=gpu))
    apps[0].run()
    return apps[0].return_code or 0


def theme_of(environment: Mapping[str, str], wanted: Theme | None, *, is_terminal: bool) -> Theme:
    """Return the theme: no colour with NO_COLOR or for a pipe, else the wanted one, else what the terminal can."""
    if environment.get("NO_COLOR") or not is_terminal or environment.get("TERM") == "dumb":
        return "none"
    if wanted is not None:
        return wanted
    if environment.get("COLORTERM") not in ("truecolor", "24bit"):
        return "16"
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in ("7", "15") else "dark"
