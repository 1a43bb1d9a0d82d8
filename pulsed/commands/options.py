"""Options that several commands have, and the configuration that they lead to."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pulsed.commands.argument_types import time_span
from pulsed.commands.command_parser import CommandParser

if TYPE_CHECKING:
    from pulsed.configuration import Config

DEFAULT_URL = "http://localhost:9401"
"""Of the daemon of this host."""


def add_config_options(parser: CommandParser) -> None:
    """Add the options of the configuration."""
    parser.add_argument(
        "--config.file", "--config", dest="config_file", metavar="FILE", help="configuration file (YAML)"
    )
    parser.add_argument(
        "--set", dest="overrides", metavar="KEY=VALUE", action="append", default=[],
        help="set a configuration key, such as source.interval=5s; the value is YAML; repeatable",
    )  # fmt: skip


def add_log_options(parser: CommandParser) -> None:
    """Add the options of configuration and log."""
    add_config_options(parser)
    parser.add_argument("--log.level", dest="config.log.level", choices=["debug", "info", "warn", "error"])
    parser.add_argument("--log.format", dest="config.log.format", choices=["logfmt", "json"])


def add_source_options(parser: CommandParser) -> None:
    """Add the options of configuration, log and source."""
    add_log_options(parser)
    parser.add_argument("--source", dest="config.source.kind", metavar="KIND", help="short for --set source.kind=KIND")


def add_gpu_options(parser: CommandParser) -> None:
    """Add the options of configuration, log, source and shown GPUs."""
    add_source_options(parser)
    parser.add_argument(
        "--gpus", dest="config.gpus", metavar="LIST", help="show only these: indexes, UUIDs, GPU:instance, all or none"
    )
    parser.add_argument(
        "--show-all", dest="config.gpus", action="store_const", const="all", help="short for --gpus all"
    )


def add_listen_option(parser: CommandParser) -> None:
    """Add the addresses of a server."""
    parser.add_argument(
        "--web.listen-address", dest="config.listen", metavar="ADDRESS", action="append", help=":9401; repeatable"
    )


def add_client_options(parser: CommandParser, *, timeout: float) -> None:
    """Add the options of requests to a daemon; `timeout` is the default in seconds."""
    parser.add_argument(
        "--timeout",
        type=time_span,
        metavar="TIME",
        default=timeout,
        help=f"of each request, such as 5s; default: {timeout:g}s",
    )
    parser.add_argument("--username", default="", metavar="NAME", help="user, for URLs without one")
    parser.add_argument("--password-file", default="", metavar="FILE", help="file with the password of the user")
    parser.add_argument(
        "--bearer-token-file", default="", metavar="FILE", help="file with a token, for a proxy that requires one"
    )
    parser.add_argument("--ca-file", default="", metavar="FILE", help="certificates to trust, for https")
    parser.add_argument("--cert-file", default="", metavar="FILE", help="certificate of this client, for https")
    parser.add_argument("--key-file", default="", metavar="FILE", help="its key, if it is not in --cert-file")


def configuration(options: argparse.Namespace) -> Config:
    """Return the configuration and set up its log; raises `ConfigError`."""
    from pulsed import log

    config = load_config(options)
    log.setup(config.log.level, config.log.format)
    return config


def load_config(options: argparse.Namespace) -> Config:
    """Return the configuration; raises `ConfigError`."""
    from pulsed.configuration import load

    return load(config_file(options), options.overrides, os.environ, options.parser.flags(options))


def config_file(options: argparse.Namespace) -> Path | None:
    """Return the configuration file that is given as an option."""
    return Path(options.config_file) if options.config_file else None
