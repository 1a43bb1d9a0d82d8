"""The stand-in's program: connects, or not, and hands over to the subcommand."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from tests.support.dmon_writer import FAILURES
from tests.support.standin.arguments import WrongUsage, discovery_command, dmon_options, parsed
from tests.support.standin.discovery import hierarchy, listing, long_version, short_version
from tests.support.standin.dmon import BAD_PARAMETER, Dmon
from tests.support.standin.home import Home
from tests.support.standin.process import STDERR, STDOUT, Process
from tests.support.standin.scenario import Scenario

_BANNER_SINCE = (4, 4, 2)
_LOCAL = "localhost"


def _banner(scenario: Scenario, host: str) -> str:
    """What dcgmi says of CUDA_VISIBLE_DEVICES in its environment (dcgmi/Environment.cpp)."""
    value = os.environ.get("CUDA_VISIBLE_DEVICES")
    if value is None or scenario.release < _BANNER_SINCE:
        return ""
    line = "=================================\n"
    name = "CUDA_VISIBLE_DEVICES"
    return (
        f"{line}Environment Variable Information:\n{line}"
        f"WARNING: {name} is set to {value} on dcgmi process. "
        "This does not affect which GPUs are selected for diagnostics. "
        f"Unset {name} on dcgmi process. Set {name} on nv-hostengine to select GPUs.\n\n"
        f"Variable Name: {name}\nHost: {host}\nHostengine Process Value: (not set)\nDcgmi Process Value: {value}\n"
        "Status: Failed to get hostengine environment variable\n"
        + (f"Please set the {name} env on nv-hostengine\n" if scenario.engine else "")
        + "\n"
    )


def _require_engine(process: Process, host: str, scenario: Scenario) -> None:
    if host == "unix://":
        process.write('Missing hostname after "unix://".\n', STDERR)
    if not scenario.engine or host == "unix://":
        failure = FAILURES["no_engine"]
        process.fail(failure.text.replace(_LOCAL, host), failure.result, STDOUT)


def main(home: str, arguments: Sequence[str]) -> NoReturn:
    """Do what `dcgmi` does with these arguments, and exit.

    Args:
        home: the folder with the scenario.
    """
    folder = Home(Path(home))
    scenario = folder.read()
    before = folder.log_start(arguments)
    process = Process(folder)
    process.ignore(scenario.ignored_signals)
    if scenario.slow_start:
        time.sleep(scenario.slow_start)
    if tuple(arguments) == ("--version",):
        process.fail(short_version(scenario), 0, STDOUT)
    process.write(_banner(scenario, _LOCAL), STDERR)
    subcommand, *rest = arguments or ("",)
    try:
        if subcommand == "-v":
            process.fail(long_version(scenario), 0, STDOUT)
        if subcommand == "discovery":
            _discover(process, scenario, rest)
        if subcommand == "dmon":
            options = dmon_options(scenario.release, rest)
            _require_engine(process, options.host, scenario)
            nth = sum(start.arguments[:1] == ("dmon",) for start in before)
            Dmon(folder, process, scenario, options, nth).run()
    except WrongUsage as error:
        process.fail(error.text, error.status)
    process.fail("ERROR: Invalid subsystem.\n\n", BAD_PARAMETER, STDOUT)


def _discover(process: Process, scenario: Scenario, arguments: Sequence[str]) -> NoReturn:
    given = parsed(discovery_command(scenario.release), arguments)
    _require_engine(process, given.get("host", _LOCAL), scenario)
    if "compute-hierarchy" in given:
        process.fail(hierarchy(scenario), 0, STDOUT)
    process.fail(listing(scenario, "all" in given), 0, STDOUT)
