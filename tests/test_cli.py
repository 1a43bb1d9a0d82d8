from __future__ import annotations

import argparse
import subprocess
import sys

from pulsed.cli import argument_parser
from pulsed.config import Config
from pulsed.config.section import keys


def test_help_imports_nothing_that_only_running_a_command_needs() -> None:
    code = "import sys, pulsed.cli; pulsed.cli.argument_parser(); print(*sys.modules)"
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"argparse", "pulsed.commands.serve", "pulsed.commands.top"} <= set(imported)
    heavy = {"asyncio", "json", "logging", "pulsed.config", "pulsed.present", "pydantic", "ssl", "urllib.request"}
    assert heavy & set(imported) == set()


def test_flags_of_the_configuration_name_its_keys() -> None:
    (commands,) = [each for each in argument_parser()._actions if isinstance(each, argparse._SubParsersAction)]
    flags = {action.dest for parser in commands.choices.values() for action in parser._actions}
    named = {dest.removeprefix("config.") for dest in flags if dest.startswith("config.")}
    assert named >= {"listen", "log.level", "web.config_file", "gpus"}
    assert named <= set(keys(Config))
