"""The command line: runs the chosen command and prints its errors."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Protocol, cast

from pulsed import __version__
from pulsed.commands.command_parser import CommandParser
from pulsed.errors import PulsedError
from pulsed.printable import clean_lines
from pulsed.standard_streams import OutputFailed, checked_output, open_standard_streams

COMMANDS: Mapping[str, str] = {
    "serve": "run the daemon",
    "adapter": "answer the metrics APIs of Kubernetes from the daemons of a cluster",
    "snapshot": "print one tick and exit",
    "export": "print every tick as CSV until the source ends",
    "record": "write raw ticks to a file, for replay, until the source ends",
    "doctor": "check which sources work here, and what they lack",
    "counters": "print a counters file for dcgm-exporter with all that pulsed can use",
    "health": "show the problems of the GPUs and their remedies",
    "job": "list the jobs and pods of a running daemon, or report what one got out of its GPUs",
    "top": "show the GPUs of running daemons, or of an own source, in the terminal",
    "rules": "print recording and alerting rules for Prometheus",
    "check-config": "validate a configuration file",
}
"""The help of each command. Its module in `pulsed.commands` is a `CommandModule`, imported when it is chosen."""

EPILOG = (
    "Precedence: flag, environment (PULSED_<KEY>__<SUBKEY>), file, default. Exit codes: 0 success, 1 error, 2 wrong "
    "usage or configuration; of health: 0 ok, 1 warn or hot, 2 crit, 3 unknown or wrong usage."
)


class CommandModule(Protocol):
    """A command. Its module imports at the top only what the arguments need, so that `--help` is fast."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the arguments."""

    def run(self, options: argparse.Namespace) -> int:
        """Run the command; return the exit code. `options.parser` is its parser."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code: 0 success, 1 error at run time, 2 wrong usage or configuration."""
    open_standard_streams()
    with checked_output():
        return _main(sys.argv[1:] if arguments is None else arguments)


def _main(given: Sequence[str]) -> int:
    code, parser = 0, CommandParser()
    try:
        name = next((each for each in given if each in COMMANDS), None)
        try:
            options = _parse(argument_parser([] if name is None else [name]), given)
        except SystemExit:  # of --help and --version
            sys.stdout.flush()
            raise
        parser = options.parser
        code = _command(options.command).run(options)
        sys.stdout.flush()
    except PulsedError as error:
        with contextlib.suppress(OSError):  # standard error may be a full disk
            sys.stderr.write(clean_lines(f"pulsed: {error}"))
        return parser.failure_code if isinstance(error, OutputFailed) else error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has read enough (`| head`)
        return code
    return code


def argument_parser(complete: Sequence[str] = tuple(COMMANDS)) -> CommandParser:
    """Return the parser; only `complete` commands have their arguments."""
    parser = CommandParser(prog="pulsed", description="Trustworthy GPU metrics from NVIDIA DCGM.", epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"pulsed {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", parser_class=CommandParser)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text)
        command.set_defaults(parser=command)
        if name in complete:
            _command(name).add_arguments(command)
    return parser


def _parse(parser: CommandParser, arguments: Sequence[str]) -> argparse.Namespace:
    options = argparse.Namespace(parser=parser)
    rest: list[str] = parser.parse_known_args(arguments, options)[1]
    if rest:
        options.parser.unknown(rest[0])
    if options.command is None:
        parser.error("no command is given")
    return options


def _command(name: str) -> CommandModule:
    return cast("CommandModule", import_module(f"pulsed.commands.{name.replace('-', '_')}"))
