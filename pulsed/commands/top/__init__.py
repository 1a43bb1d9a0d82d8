"""`pulsed top`: the GPUs of one or several daemons in a terminal."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pulsed.commands.argument_types import time_span
from pulsed.commands.command_parser import CommandParser
from pulsed.commands.options import DEFAULT_URL, add_client_options, add_gpu_options, load_config


def add_arguments(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.description = "Shows GPUs, their work, health and events. Press ? for keys and commands."
    add_gpu_options(parser)
    parser.add_argument(
        "urls", metavar="URL", nargs="*",
        help="of one or several; default: the pulsed of this host, else an own source; URL#/gpu/3 opens that GPU",
    )  # fmt: skip
    parser.add_argument("--once", action="store_true", help="print one frame and exit, also to a pipe")
    parser.add_argument(
        "--interval", type=time_span, metavar="TIME", default=1.0, help="between two requests, from 250ms; default: 1s"
    )
    parser.add_argument("--ascii", action="store_true", help="use ASCII characters only")
    parser.add_argument(
        "--theme", choices=["dark", "light", "16", "none"],
        help="colours: 16 uses those of the terminal; default: as the terminal can; NO_COLOR turns them off",
    )  # fmt: skip
    add_client_options(parser, timeout=5.0)


def run(options: argparse.Namespace) -> int:
    """Show the GPUs; return the exit code."""
    from pulsed.commands.top.run import theme_of, top

    own = _own_arguments(options)
    if options.urls and own:
        options.parser.error(f"{own[0].partition('=')[0]} is for an own source: leave out the URL")
    if options.interval < 0.25:
        options.parser.error("--interval is at least 250ms")
    shown = (options.gpus or "").split(",")
    is_own = getattr(options, "source.kind") is not None

    def local_urls() -> Sequence[str]:
        if is_own:
            return ()
        if not own and not any(name.startswith("PULSED_") for name in os.environ):
            return (DEFAULT_URL,)
        from pulsed.commands.top.targets import local_urls

        config = load_config(options)
        return local_urls(config.listen, config.web.prefix)

    return top(
        options.urls,
        own_arguments=own,
        local_urls=local_urls,
        gpus=() if shown[0] in ("", "all") else shown,
        interval=options.interval,
        timeout=options.timeout,
        ca_file=options.ca_file,
        theme=theme_of(os.environ, options.theme, is_terminal=sys.stdout.isatty()),
        ascii=options.ascii,
        is_once=options.once,
    )


def _own_arguments(options: argparse.Namespace) -> list[str]:
    """Return the arguments of the daemon of an own source, which are those of `top`."""
    pairs = [
        ("--config.file", options.config_file),
        ("--source", getattr(options, "source.kind")),
        ("--log.level", getattr(options, "log.level")),
        *(("--set", each) for each in options.overrides),
    ]
    return [f"{name}={value}" for name, value in pairs if value is not None]
