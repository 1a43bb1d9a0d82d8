"""`pulsed record`: writes the raw ticks of the sources to a file, for `replay`."""

from __future__ import annotations

import argparse

from pulsed.commands.argument_types import positive_number, time_span
from pulsed.commands.command_parser import CommandParser
from pulsed.commands.options import add_source_options, configuration


def add_arguments(parser: CommandParser) -> None:
    """Add the arguments."""
    add_source_options(parser)
    parser.add_argument(
        "file", metavar="FILE", help="an existing record is appended to; gzipped if named .gz; - is stdout"
    )
    parser.add_argument("--duration", type=time_span, metavar="TIME", help="stop after this time, such as 60s")
    parser.add_argument(
        "--ticks", type=positive_number, metavar="N", help="stop after N ticks, of all targets together"
    )


def run(options: argparse.Namespace) -> int:
    """Record until the sources end, a limit is reached, or a signal arrives; return the exit code."""
    from pulsed.commands.recorder import record

    return record(configuration(options), options.file, seconds=options.duration, ticks=options.ticks)
