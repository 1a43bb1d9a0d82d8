"""`pulsed check-config`: validates a configuration file, and the web configuration file that it names."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pulsed.commands.command_parser import CommandParser


def add_arguments(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="a configuration file (YAML)")
    parser.add_argument("--web.config.file", dest="web_config_file", metavar="FILE", help="a web configuration file")


def run(options: argparse.Namespace) -> int:
    """Print `FILE: valid` for each file; return the exit code.

    Raises `ConfigError` if a file is not valid; the message has one line per problem.
    """
    from pulsed.configuration import check
    from pulsed.server.reloader import check as check_web

    file, web_config_file = options.file, options.web_config_file
    if not file and not web_config_file:
        options.parser.error("no file is given")
    if file:
        web_config_file = web_config_file or check(Path(file)).web.config_file
    if web_config_file:
        check_web(Path(web_config_file))
    sys.stdout.writelines(f"{name}: valid\n" for name in (file, web_config_file) if name)
    return 0
