"""The folder through which a test and the stand-in's processes speak: the scenario, and a log of starts and ends."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.standin.scenario import Scenario, from_json

NAME = ".dcgmi"
"""The folder's name, beside the installed program."""


@dataclass
class Start:
    """A start of `dcgmi`.

    Attributes:
        arguments: without the program's name.
        environment: names of the variables that it saw.
        group: its process group.
        time: Unix time.
        status: exit status of an orderly end; None while it lives, or when it was killed.
    """

    pid: int
    arguments: tuple[str, ...]
    environment: frozenset[str]
    group: int
    time: float
    status: int | None = None


class Home:
    """The folder of one installed stand-in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._scenario_path = str(folder / "scenario.json")
        self._log_path = folder / "starts.jsonl"
        self._ticks_path = folder / "ticks"
        self._seen: tuple[int, int] = (0, 0)

    def write(self, scenario: Scenario) -> None:
        """Put a scenario in force, at once for running children too."""
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = f"{self._scenario_path}.{os.getpid()}"
        Path(draft).write_text(scenario.to_json())
        os.replace(draft, self._scenario_path)

    def read(self) -> Scenario:
        """The scenario in force."""
        return from_json(Path(self._scenario_path).read_text())

    def changed(self) -> bool:
        """Whether another scenario is in force than at the last call."""
        status = os.stat(self._scenario_path)
        seen, self._seen = self._seen, (status.st_mtime_ns, status.st_ino)
        return seen != self._seen

    def log_start(self, arguments: Sequence[str]) -> list[Start]:
        """Note that this process started; gives the starts before it."""
        self._append(
            {
                "pid": os.getpid(),
                "arguments": list(arguments),
                "environment": sorted(os.environ),
                "group": os.getpgrp(),
                "time": time.time(),
            }
        )
        starts = self.starts()
        own = max(place for place, start in enumerate(starts) if start.pid == os.getpid())
        return starts[:own]

    def log_end(self, status: int) -> None:
        """Note that this process is about to exit by itself."""
        self._append({"pid": os.getpid(), "status": status})

    def starts(self) -> list[Start]:
        """All starts so far, oldest first."""
        starts: list[Start] = []
        if not self._log_path.exists():
            return starts
        for line in self._log_path.read_text().splitlines():
            record = json.loads(line)
            if "status" in record:
                of_pid = [start for start in starts if start.pid == record["pid"]]
                of_pid[-1].status = record["status"]
            else:
                record |= {
                    "arguments": tuple(record["arguments"]),
                    "environment": frozenset(record["environment"]),
                }
                starts.append(Start(**record))
        return starts

    def log_tick(self, now: float, delay: int) -> None:
        """Note when a run with this delay read the values that it prints next."""
        with self._ticks_path.open("a") as file:
            file.write(f"{delay} {now:.6f}\n")

    def ticks(self, delay: int) -> list[float]:
        """When the runs with this delay read values, oldest first, if `Scenario.log_ticks` asked to note it."""
        noted = (line.split() for line in self._ticks_path.read_text().splitlines())
        return [float(now) for of_delay, now in noted if int(of_delay) == delay]

    def _append(self, record: dict[str, object]) -> None:
        # One write of less than a page to a file opened for appending is not torn by another process.
        with self._log_path.open("ab", buffering=0) as file:
            file.write(json.dumps(record).encode() + b"\n")
