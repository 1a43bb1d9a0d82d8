"""The processes that use the GPUs of this host, as the driver lists them, and the owners that follow from them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pulsed.attribution.processes import are_visible, cgroup_owner
from pulsed.attribution.source import Claims
from pulsed.daemon_thread import SharedCall
from pulsed.errors import ProcessesHidden
from pulsed.model.owner import Owner, Owners
from pulsed.model.raw_tick import GpuProcess

KEPT_SECONDS = 60.0
"""How long a list counts when no other follows it."""


class GpuProcessTable:
    """The last list of processes.

    Args:
        clock: seconds of a clock that never steps.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._processes: tuple[GpuProcess, ...] | None = None
        self._noted = 0.0

    def note(self, processes: tuple[GpuProcess, ...] | None) -> None:
        """Take the processes of a tick; None of a source that does not list them changes nothing."""
        if processes is not None:
            self._processes, self._noted = processes, self._clock()

    @property
    def current(self) -> tuple[GpuProcess, ...] | None:
        """The processes; None where no source lists them."""
        return self._processes if self._clock() - self._noted <= KEPT_SECONDS else None


@dataclass(frozen=True)
class ProcessOwners:
    """The process groups that use a GPU, with their users; Slurm jobs by the control groups of their processes.

    Processes of pods are left out: their control groups do not name them, and the kubelet does.

    Args:
        table: has the processes.
    """

    table: GpuProcessTable = field(compare=False)
    name: str = "processes"
    interval: float = 2.0
    _thread: SharedCall[Claims] = field(default_factory=lambda: SharedCall("gpu-processes"), compare=False, repr=False)

    @property
    def absence(self) -> str:
        """A source without processes."""
        return "no source has listed processes so far; only nvml does"

    async def read(self) -> Claims | None:
        """Return the owners by their processes; None if the source does not list any.

        Raises:
            ProcessesHidden: the processes of this host cannot be seen.
        """
        processes = self.table.current
        return None if processes is None else await self._thread.call(lambda: claims_of(processes))

    async def close(self) -> None:
        """End the thread."""
        self._thread.close()


def claims_of(processes: tuple[GpuProcess, ...]) -> Claims:
    """Return the owners of processes, which are looked up in /proc.

    Raises:
        ProcessesHidden: there are processes, and those of this host cannot be seen: the numbers may be other ones'.
    """
    if processes and not are_visible():
        raise ProcessesHidden(
            "the processes of this host are hidden",
            "Run pulsed in the host's process namespace (hostPID: true), without hidepid or ProtectProc",
        )
    owners: dict[str, Owners] = {}
    for process in processes:
        key = f"{process.uuid.lower()}/{process.mig_id}" if process.mig_id else process.uuid.lower()
        owner = _owner_of(process.pid)
        if owner is not None and owner not in owners.get(key, ()):
            owners[key] = (*owners.get(key, ()), owner)
    return Claims(owners)


def _owner_of(pid: int) -> Owner | None:
    """Return the job of a process, else its process group; None if it has ended, or is a pod's."""
    import psutil  # half a megabyte, which only a GPU with processes needs

    try:
        group = cgroup_owner(pid)
        group_id = os.getpgid(pid)
        leader = psutil.Process(group_id if group_id and psutil.pid_exists(group_id) else pid)  # it may have ended
        with leader.oneshot():
            user, user_id = leader.username(), str(leader.uids().real)
            if group is None:
                return Owner(
                    "process", str(leader.pid), leader.create_time(), user=user, user_id=user_id, name=leader.name()
                )
            return Owner("slurm_job", group.id, user=user, user_id=user_id) if group.kind == "slurm_job" else None
    except (psutil.Error, OSError):
        return None
