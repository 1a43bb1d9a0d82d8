"""`pulsed doctor`: which sources work here, what can be derived from them, and how to get what is missing."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, TextIO

from pulsed.commands.argument_types import version_tag
from pulsed.commands.command_parser import CommandParser
from pulsed.commands.options import add_source_options, configuration

if TYPE_CHECKING:
    from pulsed.configuration import Config
    from pulsed.translate.fields import ExporterVersion


def add_arguments(parser: CommandParser) -> None:
    """Add the arguments."""
    add_source_options(parser)
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.add_argument(
        "--exporter-version", type=version_tag, metavar="TAG",
        help="version of dcgm-exporter, which its page does not name: 4.5.2, or the tag of its image",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Print the report; return the exit code."""
    return doctor(configuration(options), options.format, sys.stdout, options.exporter_version)


def doctor(config: Config, format: str, out: TextIO, exporter: ExporterVersion | None = None) -> int:
    """Print the report; return the exit code: 0 if any GPU can be served, else 1.

    Args:
        format: `table` or `json`.
        exporter: version of the dcgm-exporters; None to conclude it from their pages.
    """
    import json
    import logging

    from pulsed.commands.doctor.render import render
    from pulsed.commands.doctor.report import examine

    logger = logging.getLogger("pulsed")
    before = logger.level
    if config.log.level != "debug":
        logger.setLevel(logging.ERROR)  # the report has the warnings
    try:
        report = examine(config, exporter)
    finally:
        logger.setLevel(before)
    if format == "json":
        json.dump(report, out, indent=2)
        out.write("\n")
    else:
        out.writelines(f"{line}\n" for line in render(report))
    return 0 if report["can_serve"] else 1
