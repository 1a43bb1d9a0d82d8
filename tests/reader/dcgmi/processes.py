"""Processes for the tests of `pulsed.reader.dcgmi`: scripts to run, and a look at what is still there."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.waiting import eventually, until


def script(folder: Path, text: str, name: str = "dcgmi") -> str:
    """An executable shell script; gives its path."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def is_there(pid: int) -> bool:
    """Whether a process exists, as a zombie too."""
    return Path(f"/proc/{pid}").exists()


def is_alive(pid: int) -> bool:
    """Whether a process runs: a zombie whose parent is somebody else's does not count."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until_dead(pid: int) -> None:
    until(lambda: not is_alive(pid))


async def until_gone(pid: int) -> None:
    await eventually(lambda: not is_there(pid))


_IGNORED: set[int] = set()


def ignore_running_children() -> None:
    """Leave the children that run now out of `children`: servers that other tests of this process have in common."""
    _IGNORED.clear()
    _IGNORED.update(children())


def children() -> list[int]:
    """Processes, zombies too, whose parent is this one."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            parent = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == str(os.getpid()) and int(entry) not in _IGNORED:
            found.append(int(entry))
    return found
