"""The processes of this host that belong to jobs and pods by their control groups."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import psutil

from pulsed.attribution.cgroup import CgroupOwner, owner_of_cgroup
from pulsed.attribution.command_line import masked_command

MAX_PROCESSES = 1024
"""Processes beyond this are left out."""


class OwnedProcess(NamedTuple):
    """A process of a job or pod.

    Attributes:
        user: login name; the number where it has none.
        memory_bytes: resident.
        start: Unix seconds.
        command: without secrets; empty if it cannot be read.
    """

    pid: int
    owner: CgroupOwner
    user: str
    memory_bytes: int
    start: float
    command: str


def are_visible() -> bool:
    """Return whether all processes of the host can be seen: not with hidepid, nor in most containers."""
    try:
        return Path("/proc/2/comm").read_text(encoding="ascii", errors="replace").strip() == "kthreadd"
    except OSError:
        return False


def owned_processes() -> list[OwnedProcess]:
    """Return the visible processes of jobs and pods; those that end meanwhile are left out."""
    return list(islice(_owned(), MAX_PROCESSES))


def _owned() -> Iterator[OwnedProcess]:
    for pid in psutil.pids():
        try:
            owner = owner_of_cgroup(Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="replace"))
            if owner is None:
                continue
            process = psutil.Process(pid)
            with process.oneshot():
                yield OwnedProcess(
                    pid,
                    owner,
                    process.username(),
                    process.memory_info().rss,
                    process.create_time(),
                    masked_command(process.cmdline()),
                )
        except (psutil.Error, OSError):  # it has ended, or is hidden
            continue
