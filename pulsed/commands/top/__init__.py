"""`pulsed top`: the GPUs of one or several daemons in a terminal."""

from __future__ import annotations

import argparse

from pulsed.commands.argument_types import time_span
from pulsed.commands.command_parser import CommandParser
from pulsed.commands.options import add_client_options, add_gpu_options


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
    from pulsed.commands.top.run import top

    return top(options)
