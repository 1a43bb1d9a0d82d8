"""`pulsed counters`: prints a counters file for dcgm-exporter."""

from __future__ import annotations

import argparse
import sys

from pulsed.commands.argument_types import version_tag
from pulsed.commands.command_parser import CommandParser


def add_arguments(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.description = (
        "Prints a counters file (CSV) for dcgm-exporter, which does not start with a field that it lacks."
    )
    parser.add_argument(
        "--exporter-version", type=version_tag, metavar="TAG", default="4.5.2",
        help="4.5.2, or the tag of its image: 4.4.1-4.5.2-ubuntu22.04; default: 4.5.2",
    )  # fmt: skip
    parser.add_argument("--model", default="", help="leave out what this model lacks, such as 'Tesla T4'")


def run(options: argparse.Namespace) -> int:
    """Print the counters file for a version of dcgm-exporter and a model; return the exit code."""
    from pulsed.present.counters_file import counters_file

    sys.stdout.write(counters_file(options.exporter_version, options.model))
    return 0
