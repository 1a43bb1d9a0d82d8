"""The processes of this host that belong to jobs and pods by their control groups, or use a GPU."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from pulsed.attribution.cgroup import CgroupOwner, owner_of_cgroup
from pulsed.attribution.command_line import MAX_BYTES, arguments_of, masked_command

MAX_PROCESSES = 1024
"""Processes beyond this are left out."""


class ListedProcess(NamedTuple):
    """A process of this host.

    Attributes:
        owner: job or pod by its control group; None without one.
        user: login name; the number where it has none.
        memory_bytes: resident.
        start: Unix seconds.
        command: without secrets; empty if it has none.
    """

    pid: int
    owner: CgroupOwner | None
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


def listed_processes(pids: Collection[int] = ()) -> list[ListedProcess]:
    """Return the visible processes of jobs and pods, and of `pids`; those that end meanwhile are left out."""
    return list(islice(_listed(pids), MAX_PROCESSES))


def cgroup_owner(pid: int) -> CgroupOwner | None:
    """Return the job or pod of a process. Raises `OSError` if it is hidden or has ended."""
    return owner_of_cgroup(Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="replace"))


def _listed(pids: Collection[int]) -> Iterator[ListedProcess]:
    import psutil  # see `gpu_processes`

    for pid in psutil.pids():
        try:
            owner = cgroup_owner(pid)
            if owner is None and pid not in pids:
                continue
            process = psutil.Process(pid)
            with process.oneshot():
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                yield ListedProcess(
                    pid,
                    owner,
                    process.username(),
                    process.memory_info().rss,
                    process.create_time(),
                    _command(pid),
                )
        except (psutil.Error, OSError):  # it has ended, or is hidden
            continue


def _command(pid: int) -> str:
    """Return the command line of a process, without secrets; psutil would read megabytes of it."""
    with Path(f"/proc/{pid}/cmdline").open("rb") as file:
        return masked_command(arguments_of(file.read(MAX_BYTES + 1)))
