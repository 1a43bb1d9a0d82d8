"""Puts the stand-in on a PATH, and steers it from a test."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.standin.home import NAME, Home, Start
from tests.support.standin.scenario import Scenario

_ROOT = Path(__file__).resolve().parents[3]

# dcgmi leaves with 128 + signal until dmon has set its own handler, and dies of a closed pipe.
_LAUNCHER = """\
#!{python} -IS
import os
import signal
import sys

for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(_number, lambda number, frame: os._exit(128 + number))
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
sys.path.insert(0, {root!r})

from tests.support.standin.dcgmi import main

main({home!r}, sys.argv[1:])
"""


def install(folder: Path, scenario: Scenario) -> Path:
    """Put an executable `dcgmi` that plays the scenario into a folder; give its path."""
    home = folder.resolve() / NAME
    Home(home).write(scenario)
    path = folder / "dcgmi"
    path.write_text(_LAUNCHER.format(python=sys.executable, root=str(_ROOT), home=str(home)))
    path.chmod(0o755)
    return path


class Standin:
    """An installed stand-in that can be steered and asked.

    Attributes:
        path: of the executable.
        scenario: in force.
    """

    def __init__(self, folder: Path, scenario: Scenario | None = None) -> None:
        self.scenario = scenario or Scenario()
        self.path = install(folder, self.scenario)
        self._home = Home(folder.resolve() / NAME)

    def change(self, **changes: Any) -> None:
        """Play on with other values of some of the scenario's fields; a running child follows before its next tick."""
        self.scenario = replace(self.scenario, **changes)
        self._home.write(self.scenario)

    def starts(self, subcommand: str = "") -> list[Start]:
        """The starts so far, oldest first; of one subcommand, or all."""
        return [start for start in self._home.starts() if not subcommand or start.arguments[:1] == (subcommand,)]

    def ticks(self, delay: int) -> list[float]:
        """Unix times at which runs of dmon with this delay (ms) read their values; with `log_ticks` in the scenario."""
        return self._home.ticks(delay)
