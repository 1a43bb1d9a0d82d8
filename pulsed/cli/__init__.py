"""The command line: runs the chosen command and prints its errors, on standard streams that may be missing or full."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, TextIO, cast

from pulsed import version_text
from pulsed.cli import options
from pulsed.cli.arguments import CommandParser
from pulsed.errors import HealthUsageError, PulsedError, UsageError
from pulsed.printable import clean_lines, write_ascii_marks


class Command(NamedTuple):
    """A command.

    Attributes:
        help: its line in the list of commands.
        options: in the order of its help.
        function: `module:function` in `pulsed`, imported when the command runs. It takes the parsed options and returns
            the exit code. In the options, `parser` is the command's parser, and `parser_of_all` returns the main one.
        description: the text above its options.
        usage_error: class of errors of usage.
        failure_code: exit code if the output cannot be written.
    """

    help: str
    options: options.Options
    function: str
    description: str | None = None
    usage_error: type[UsageError] = UsageError
    failure_code: int = 1

    def run(self, options: argparse.Namespace) -> int:
        """Run the command; return the exit code."""
        module, _, name = self.function.partition(":")
        code: int = getattr(import_module(f"pulsed.{module}"), name)(options)
        return code


COMMANDS: Mapping[str, Command] = {
    "serve": Command("run the daemon", options.SERVE, "daemon.serve:run"),
    "snapshot": Command("print one tick and exit", options.SNAPSHOT, "apps.ticks:run_snapshot"),
    "export": Command("print every tick as CSV until the source ends", options.EXPORT, "apps.ticks:run_export"),
    "record": Command(
        "write raw ticks to a file, for replay, until the source ends", options.RECORD, "apps.record:run",
    ),
    "doctor": Command("check which sources work on this machine and what they lack", options.DOCTOR, "apps.doctor:run"),
    "counters": Command(
        "print a counters file for dcgm-exporter with all fields that pulsed uses", options.COUNTERS,
        "apps.install_files:run_counters",
        "Prints a counters file (CSV) for dcgm-exporter, which does not start with a field that it lacks.",
    ),
    "health": Command(
        "show the problems of the GPUs and their remedies", options.HEALTH, "apps.health:run",
        "Shows the GPU health of a running pulsed. Exit codes: 0 ok, 1 warn or hot, 2 crit, 3 unknown or wrong usage.",
        HealthUsageError, HealthUsageError.exit_code,
    ),
    "job": Command(
        "list the jobs and pods of a running daemon, or report how one used its GPUs", options.JOB,
        "apps.jobs:run_job",
        "Lists the owners of GPUs of a running pulsed, or reports one of them.",
    ),
    "jobs": Command(
        "show current and recent jobs and pods of running daemons in a table, with their problems",
        options.JOBS, "apps.jobs:run_jobs",
    ),
    "report": Command(
        "show GPU hours by user, with the share of work, idle time, energy and cost", options.REPORT,
        "apps.jobs:run_report",
        "Sums the whole accounts of all owners that ran in this time, over all given daemons.",
    ),
    "top": Command(
        "show the GPUs of running daemons, or of a local source, in the terminal", options.TOP, "apps.top.run:run",
        "Shows GPUs, their work, health and events. Press ? for keys and commands.",
    ),
    "rules": Command("print recording and alerting rules for Prometheus", options.RULES, "apps.files:run_rules"),
    "check-config": Command("validate a configuration file", options.CHECK_CONFIG, "apps.files:run_check_config"),
    "install-files": Command(
        "write systemd units, scripts, rules, dashboards, man pages and completions", options.INSTALL_FILES,
        "apps.install_files:run", "Writes the files that pip does not install, of this version, into a folder.",
    ),
}  # fmt: skip

EPILOG = (
    "Precedence: flag, environment (PULSED_<KEY>__<SUBKEY>), file, default. Exit codes: 0 success, 1 error, 2 wrong "
    "usage or configuration; of health: 0 ok, 1 warn or hot, 2 crit, 3 unknown or wrong usage."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code: 0 success, 1 error at run time, 2 wrong usage or configuration."""
    open_standard_streams()
    write_ascii_marks(sys.stdout)
    with checked_output():
        return _main(sys.argv[1:] if arguments is None else arguments)


def _main(arguments: Sequence[str]) -> int:
    code, parser = 0, CommandParser()
    name = next((each for each in arguments if each in COMMANDS), None)
    try:
        try:
            parsed = _parse(argument_parser([] if name is None else [name]), arguments)
        except SystemExit:  # of --help and --version
            sys.stdout.flush()
            raise
        parser = parsed.parser
        code = COMMANDS[parsed.command].run(parsed)
        sys.stdout.flush()
    except PulsedError as error:
        from pulsed.log import error_lines

        with contextlib.suppress(OSError):  # standard error may be a full disk
            sys.stderr.write(error_lines(clean_lines(f"pulsed: {error}")))
        if isinstance(error, OutputFailed):
            return parser.failure_code
        # Values of options are parsed by functions of several commands.
        return COMMANDS[name].usage_error.exit_code if name and isinstance(error, UsageError) else error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has read enough (`| head`)
        return code
    return code


def argument_parser(complete: Sequence[str] = tuple(COMMANDS)) -> CommandParser:
    """Return the parser; only `complete` commands have their options."""
    parser = CommandParser(prog="pulsed", description="Trustworthy GPU metrics from NVIDIA DCGM.", epilog=EPILOG)
    parser.add_argument("--version", action="version", version=version_text())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", parser_class=CommandParser)
    for name, command in COMMANDS.items():
        each = commands.add_parser(name, help=command.help, description=command.description)
        each.usage_error, each.failure_code = command.usage_error, command.failure_code
        each.set_defaults(parser=each)
        for names, settings in command.options if name in complete else ():
            each.add_argument(*names, **settings)
    return parser


def _parse(parser: CommandParser, arguments: Sequence[str]) -> argparse.Namespace:
    parsed = argparse.Namespace(parser=parser, parser_of_all=argument_parser)
    rest: list[str] = parser.parse_known_args(arguments, parsed)[1]
    if rest:
        parsed.parser.unknown(rest[0])
    if parsed.command is None:
        parser.error("no command is given")
    return parsed


class OutputFailed(PulsedError):
    """Standard output cannot be written."""


def open_standard_streams() -> None:
    """Open `/dev/null` on each closed descriptor of 0 to 2, so that no file or socket gets its number.

    Standard input is empty then and standard error is discarded. Writing to standard output fails, as it would if it
    were closed.
    """
    for descriptor, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, flags), True)  # it has the lowest free number
    # Python has None for a stream that was closed when it started.
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


@contextlib.contextmanager
def checked_output() -> Iterator[None]:
    """Let writing to standard output raise `OutputFailed`; discard at the end what it has not taken.

    A reader that has closed a pipe is a BrokenPipeError.
    """
    stream = sys.stdout
    with contextlib.redirect_stdout(cast("TextIO", _Checked(stream))):
        try:
            yield
        finally:
            try:
                stream.flush()
            except OSError:  # Python would try again when it exits
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, stream.fileno())
                os.close(null)


class _Checked:
    """A text stream whose errors are typed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with _typed_errors():
            return self._stream.write(text)

    def writelines(self, lines: Iterator[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with _typed_errors():
            self._stream.flush()


@contextlib.contextmanager
def _typed_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)
        raise OutputFailed(f"standard output cannot be written: {reason}") from error
