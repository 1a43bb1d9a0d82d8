"""`pulsed adapter`: answers the metrics APIs of Kubernetes from the daemons of a cluster."""

from __future__ import annotations

import argparse

from pulsed.commands.command_parser import CommandParser
from pulsed.commands.options import add_listen_option, add_log_options, configuration


def add_arguments(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.description = "Answers custom.metrics.k8s.io and external.metrics.k8s.io, for HorizontalPodAutoscalers."
    add_log_options(parser)
    add_listen_option(parser)
    parser.add_argument("--web.config.file", dest="config.web.config_file", metavar="FILE", help="TLS, clients (YAML)")


def run(options: argparse.Namespace) -> int:
    """Run the adapter until SIGTERM or SIGINT; return the exit code."""
    from pulsed.commands.adapter_server import serve_apis

    return serve_apis(configuration(options))
