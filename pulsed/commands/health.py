"""`pulsed health`: problems of the GPUs with their remedies, and an exit code for schedulers and monitors."""

from __future__ import annotations

import argparse
import sys

from pulsed.commands.command_parser import CommandParser
from pulsed.commands.options import DEFAULT_URL, add_client_options
from pulsed.errors import HealthUsageError


def add_arguments(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.usage_error, parser.failure_code = HealthUsageError, HealthUsageError.exit_code
    parser.description = (
        "Shows the GPU health of a running pulsed. Exit codes: 0 ok, 1 warn or hot, 2 crit, 3 unknown or wrong usage."
    )
    parser.add_argument("urls", metavar="URL", nargs="*", help=f"of one or several; default: {DEFAULT_URL}")
    parser.add_argument("--format", choices=["table", "json", "line"], default="table", help="line: for Nagios")
    add_client_options(parser, timeout=10.0)
    parser.add_argument(
        "--forget", metavar="GPU",
        help="forget an absent GPU, by UUID or index, instead; needs a pulsed with --web.enable-lifecycle",
    )  # fmt: skip
    parser.add_argument("--node", help="with --forget: its node, if several have such a GPU")


def run(options: argparse.Namespace) -> int:
    """Print the health, or forget a GPU; return the exit code."""
    from pulsed.commands.daemon_client import client_settings
    from pulsed.commands.health_requests import forget, health

    urls, settings = options.urls or [DEFAULT_URL], client_settings(options)
    if options.forget is not None:
        if len(urls) > 1:
            options.parser.error("--forget needs one URL")
        forget(urls[0], options.forget, options.node, sys.stdout, settings)
        return 0
    if options.node is not None:
        options.parser.error("--node needs --forget")
    return health(urls, options.format, sys.stdout, settings)
