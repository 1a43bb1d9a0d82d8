"""`pulsed job`: the jobs and pods of running daemons, and the report of one of them."""

from __future__ import annotations

import argparse
import sys

from pulsed.commands.argument_types import host_list
from pulsed.commands.command_parser import CommandParser
from pulsed.commands.options import DEFAULT_URL, add_client_options


def add_arguments(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.description = "Lists the owners of GPUs of a running pulsed, or reports one of them."
    parser.add_argument("id", metavar="ID", nargs="?", help="4711, 4711_7, pod:NAMESPACE/NAME, or a pod's UID")
    parser.add_argument("--url", default=DEFAULT_URL, help=f"of the pulsed; default: {DEFAULT_URL}")
    parser.add_argument(
        "--nodes", metavar="LIST", type=host_list, default=(),
        help="read the pulsed on each of these nodes instead, at the port of --url: gpu[01-04,07]",
    )  # fmt: skip
    parser.add_argument(
        "--format", choices=["text", "json", "line", "js1"], default="text",
        help="line: for an epilog; js1: adds the GPUs to the summary of jobstats on standard input",
    )  # fmt: skip
    add_client_options(parser, timeout=2.0)


def run(options: argparse.Namespace) -> int:
    """Print the list, or the report of one job; return the exit code."""
    from pulsed.commands.daemon_client import client_settings, clients_of
    from pulsed.commands.job_requests import job, jobs

    clients = clients_of(options.url, options.nodes, client_settings(options))
    if options.id is not None:
        job(clients, options.id, options.format, sys.stdout, sys.stdin)
    elif options.format in ("text", "json"):
        jobs(clients, options.format, sys.stdout)
    else:
        options.parser.error(f"--format {options.format} needs an ID")
    return 0
