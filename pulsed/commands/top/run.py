"""Starts `pulsed top`."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pulsed.commands.daemon_client import DaemonClient, client_settings
from pulsed.commands.options import DEFAULT_URL, load_config
from pulsed.commands.top.feed import Connection, Feed
from pulsed.commands.top.session import TopSession, once, wait_for_gpus
from pulsed.commands.top.targets import START_SECONDS, LocalTarget, OwnDaemon, local_urls, opening
from pulsed.errors import PulsedError, UsageError
from pulsed.terminal.palette import Theme
from pulsed.terminal.view_state import ViewState

if TYPE_CHECKING:
    from pulsed.commands.top.app import TopApp

LEAST_SECONDS = 0.25
"""Shortest time between two requests."""

ONCE_WIDTH, ONCE_HEIGHT = 160, 50
"""Size of a frame for a pipe, unless COLUMNS and LINES are set."""


class MissingTerminalPackage(PulsedError):
    """The extra `top` is not installed."""


def top(options: argparse.Namespace) -> int:
    """Show the GPUs of the given daemons, else of the one of this host, else of an own source; return the exit code.

    Raises:
        UsageError: wrong arguments.
        PulsedError: nothing can be shown.
    """
    own = _own_arguments(options)
    if options.urls and own:
        options.parser.error(f"{own[0].partition('=')[0]} is for an own source: leave out the URL")
    if options.interval < LEAST_SECONDS:
        options.parser.error("--interval is at least 250ms")
    opened = opening(options.urls[0] if options.urls else "")
    view = ViewState(view=opened.view, gpus=_shown(getattr(options, "config.gpus")))
    if opened.window is not None:
        view.window = opened.window
    settings = client_settings(options)
    local = LocalTarget(lambda: _local_urls(options, own), OwnDaemon(own), settings)
    clients = [DaemonClient(url, settings) for url in options.urls]
    feeds = [Feed(partial(Connection, each, each.address), each.address, options.interval) for each in clients]
    session = TopSession(feeds or [Feed(local.connect, "this host", options.interval)], view)
    theme = theme_of(os.environ, options.theme, is_terminal=sys.stdout.isatty())
    try:
        if options.once:
            wait_for_gpus(session, START_SECONDS if not options.urls else 0.0)
            width, height = shutil.get_terminal_size((ONCE_WIDTH, ONCE_HEIGHT))
            return once(session, sys.stdout, width, height, theme, ascii=options.ascii, gpu=opened.gpu)
        app = _app_type()(session, theme, ascii=options.ascii, interval=options.interval, gpu=opened.gpu)
        app.run()
        return app.return_code or 0
    finally:
        local.stop()


def _own_arguments(options: argparse.Namespace) -> list[str]:
    """Return the arguments of the daemon of an own source, which are those of `top`."""
    pairs = [
        ("--config.file", options.config_file),
        ("--source", getattr(options, "config.source.kind")),
        ("--log.level", getattr(options, "config.log.level")),
        *(("--set", each) for each in options.overrides),
    ]
    return [f"{name}={value}" for name, value in pairs if value is not None]


def _local_urls(options: argparse.Namespace, own: Sequence[str]) -> Sequence[str]:
    """Return where a daemon of this host may be; none if an own source is requested."""
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
    try:
        from pulsed.commands.top.app import TopApp
    except ModuleNotFoundError as error:
        raise MissingTerminalPackage(
            f"top: the package {error.name} is missing",
            "Install it with: pip install 'pulsed[top]'. `pulsed top --once` prints one frame without it",
        ) from None
    return TopApp


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
