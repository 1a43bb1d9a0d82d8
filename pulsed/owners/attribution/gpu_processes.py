"""The processes that use the GPUs of this host, as the driver and control groups list them, and their owners.

Of their command lines, program and script are shown; arguments, which may be secrets, on request.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pulsed.daemon_thread import SharedCall
from pulsed.errors import ProcessesHidden
from pulsed.model.clocks import Unix
from pulsed.model.owner import Owner, OwnerKind, Owners
from pulsed.model.raw_tick import GpuProcess
from pulsed.owners.attribution.source import Claims

if TYPE_CHECKING:
    import psutil

KEPT_SECONDS = 60.0
"""How long a list counts when no other follows it."""


class GpuProcessTable:
    """The last list of processes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._processes: tuple[GpuProcess, ...] | None = None
        self._noted = 0.0

    def update(self, processes: tuple[GpuProcess, ...]) -> None:
        """Take the processes of a tick of a source that lists them."""
        self._processes, self._noted = processes, self._clock()

    @property
    def current(self) -> tuple[GpuProcess, ...] | None:
        """The processes; None where no source lists them."""
        return self._processes if self._clock() - self._noted <= KEPT_SECONDS else None


@dataclass(frozen=True)
class ProcessOwners:
    """The process groups that use a GPU, with their users; Slurm jobs and containers of Docker and Podman by the
    control groups of their processes.

    Processes of pods are left out: their control groups do not name them, and the kubelet does.
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
        ProcessesHidden: there are processes, but this host's are invisible: the numbers may belong to others.
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
    """Return the job or container of a process, otherwise its process group; None if it has ended, or is a pod's."""
    import psutil  # half a megabyte, which only a GPU with processes needs

    try:
        group = cgroup_owner(pid)
        group_id = os.getpgid(pid)
        leader = psutil.Process(group_id if group_id and psutil.pid_exists(group_id) else pid)  # it may have ended
        with leader.oneshot():
            user, user_id = leader.username(), str(leader.uids().real)
            if group is None:
                return Owner(
                    "process", str(leader.pid), Unix(start_of(leader)), user=user, user_id=user_id, name=leader.name()
                )
            if group.kind == "container":
                return Owner("container", group.id, user=user, user_id=user_id, container=group.id)
            return Owner("slurm_job", group.id, user=user, user_id=user_id) if group.kind == "slurm_job" else None
    except (psutil.Error, OSError):
        return None


MAX_PROCESSES = 1024
"""Processes beyond this are left out."""


class ListedProcess(NamedTuple):
    """A process of this host.

    Attributes:
        owner: job or pod by its control group; None without one.
        user: login name; the number where it has none.
        memory_bytes: resident.
        cpu_seconds: CPU time since its start.
        start: Unix seconds.
        command: program and script, or with all arguments; empty if it has none.
    """

    pid: int
    owner: CgroupOwner | None
    user: str
    memory_bytes: int
    cpu_seconds: float
    start: float
    command: str


def are_visible(proc: Path = Path("/proc")) -> bool:
    """Return whether all processes of the host can be seen: not with hidepid, nor in most containers."""
    try:
        return (proc / "2/comm").read_text(encoding="ascii", errors="replace").strip() == "kthreadd"
    except OSError:
        return False


def listed_processes(pids: Collection[int] = (), *, with_arguments: bool = False) -> list[ListedProcess]:
    """Return the visible processes of jobs and pods, and of `pids`; those that end meanwhile are left out."""
    return list(islice(_listed(pids, with_arguments), MAX_PROCESSES))


def cgroup_owner(pid: int) -> CgroupOwner | None:
    """Return the job or pod of a process. Raises `OSError` if it is hidden or has ended."""
    return owner_of_cgroup(Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="replace"))


def _listed(pids: Collection[int], with_arguments: bool) -> Iterator[ListedProcess]:
    import psutil  # see `gpu_processes`

    for pid in psutil.pids():
        try:
            owner = cgroup_owner(pid)
            if (owner is None or owner.kind == "container") and pid not in pids:
                continue
            process = psutil.Process(pid)
            with process.oneshot():
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                cpu = process.cpu_times()
                yield ListedProcess(
                    pid,
                    owner,
                    process.username(),
                    process.memory_info().rss,
                    cpu.user + cpu.system,
                    start_of(process),
                    _command(pid, with_arguments),
                )
        except (psutil.Error, OSError):  # it has ended, or is hidden
            continue


@cache
def _booted() -> float:
    """Return when this host started, in Unix seconds by the clock of the first call."""
    import psutil

    return float(psutil.boot_time())


def start_of(process: psutil.Process) -> float:
    """Return when a process started, in Unix seconds. A later step of the wall clock does not change it.

    The kernel counts from the start of the host, which psutil dates by the clock of now.
    """
    import psutil

    first, now = _booted(), psutil.boot_time()
    return float(process.create_time()) - (now - first)


def _command(pid: int, with_arguments: bool) -> str:
    """Return the command line of a process; psutil would read megabytes of it."""
    with Path(f"/proc/{pid}/cmdline").open("rb") as file:
        arguments = arguments_of(file.read(MAX_BYTES + 1))
    return " ".join(arguments)[:MAX_TEXT] if with_arguments else program_of(arguments)


_JOB = re.compile(r"slurm(?:(?!slurm)[^/])*/(?:uid_[0-9]+/)?job_([0-9]+)(?=/|$)")
_PODS = "kubepods"
_OF_USERS = "/user.slice/"
"""Below it users make groups of any name: their jobs and pods are elsewhere, their containers are there."""
_POD = re.compile(r"[/-]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?=[./:]|$)")


_CONTAINER = re.compile(r"/(?:docker/|(?:docker|libpod|nerdctl)-)([0-9a-f]{12})[0-9a-f]{52}(?=[./]|$)")


class CgroupOwner(NamedTuple):
    """The owner of a control group: the id of a Slurm job, the uid of a pod, or the short id of a container."""

    kind: OwnerKind
    id: str


def owner_of_cgroup(text: str) -> CgroupOwner | None:
    """Return the owner of a process by the contents of its /proc/PID/cgroup; None without one.

    Forms: cgroup v1 and v2; Slurm's `slurm/uid_U/job_J` and `slurmstepd.scope/job_J`; Kubernetes' cgroupfs and systemd
    drivers, with containerd, CRI-O or Docker; Docker, Podman and nerdctl without Kubernetes. From Slurm 26.05 on,
    groups have no job ids unless CgroupJobIdPaths=yes.
    """
    paths = [line.split(":", 2)[-1] for line in text.splitlines()]
    for path in paths:
        if _OF_USERS in path:
            continue
        if match := _JOB.search(path):
            return CgroupOwner("slurm_job", match[1])
        if _PODS in path and (match := _POD.search(path, path.index(_PODS))):
            return CgroupOwner("pod", match[1].replace("_", "-"))
    container = next((match[1] for path in paths if (match := _CONTAINER.search(path))), None)
    return None if container is None else CgroupOwner("container", container)


MAX_BYTES = 4096
"""Most bytes of a command line to read."""

MAX_TEXT = 256
"""Longer results are cut."""

_INTERPRETERS = (
    (re.compile(r"-?(?:ba|da|k|z)?sh"), re.compile(r"-[efluvx]+")),
    (re.compile(r"(?:python|pypy|perl|ruby|node|julia|Rscript)[0-9.]*"), re.compile(r"-[BIOSbdqsuvwx]+")),
)
"""Names of programs that run scripts, and the options before a script after which no code, module or secret follows."""


def arguments_of(content: bytes) -> list[str]:
    """Return the arguments in the content of /proc/PID/cmdline; only the first `MAX_BYTES` count.

    Programs that set their title separate words by spaces (psutil#1179). If the content is longer, its last word is
    left out.
    """
    text = content[:MAX_BYTES].decode("utf-8", "replace").rstrip("\0")
    if len(content) > MAX_BYTES:
        text = text[: max(text.rfind("\0"), text.rfind(" "), 0)]
    return text.split("\0" if "\0" in text else " ") if text else []


def program_of(arguments: Sequence[str]) -> str:
    """Return the program and its script or module, cut after `MAX_TEXT` characters; other arguments may be secrets."""
    return " ".join([*arguments[:1], *_script(arguments)])[:MAX_TEXT]


def _script(arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments that name the script or module of an interpreter; none after an option with a value."""
    name = arguments[0].rpartition("/")[2] if arguments else ""
    options = next((options for names, options in _INTERPRETERS if names.fullmatch(name)), None)
    if options is None:
        return ()
    at = next((at for at, each in enumerate(arguments) if at > 0 and not options.fullmatch(each)), len(arguments))
    if arguments[at : at + 1] == ["-m"] and name.startswith("py"):
        return arguments[at : at + 2]
    return [each for each in arguments[at : at + 1] if not each.startswith("-")]
