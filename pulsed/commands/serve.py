"""`pulsed serve`: runs the daemon."""

from __future__ import annotations

import argparse
import os

from pulsed.commands.command_parser import CommandParser
from pulsed.commands.options import add_gpu_options, add_listen_option, config_file, configuration, load_config


def add_arguments(parser: CommandParser) -> None:
    """Add the arguments; those of the web are exporter-toolkit's."""
    add_gpu_options(parser)
    add_listen_option(parser)
    parser.add_argument(
        "--web.telemetry-path",
        dest="config.telemetry_path",
        metavar="PATH",
        help="path of the metrics page; default: /metrics",
    )
    parser.add_argument(
        "--web.max-requests",
        dest="config.max_requests",
        metavar="N",
        help="concurrent requests of the metrics page; 0: no limit",
    )
    parser.add_argument(
        "--web.enable-lifecycle", dest="config.enable_lifecycle", action="store_true", default=None,
        help="allow POST /-/reload and /-/forget",
    )  # fmt: skip
    parser.add_argument(
        "--web.external-url",
        dest="config.web.external_url",
        metavar="URL",
        help="URL under which clients reach pulsed; its path prefixes all routes",
    )
    parser.add_argument(
        "--web.route-prefix",
        dest="config.web.route_prefix",
        metavar="PATH",
        help="prefix of all routes; default: the path of --web.external-url",
    )
    parser.add_argument(
        "--web.config.file", dest="config.web.config_file", metavar="FILE", help="TLS, users, headers (YAML)"
    )
    parser.add_argument(
        "--web.systemd-socket", dest="config.web.systemd_socket", action="store_true", default=None,
        help="serve on the sockets of systemd",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Run the daemon until SIGTERM or SIGINT; return the exit code."""
    from pulsed.commands.daemon import serve
    from pulsed.config.load import file_of

    return serve(configuration(options), lambda: load_config(options), file_of(config_file(options), os.environ))
