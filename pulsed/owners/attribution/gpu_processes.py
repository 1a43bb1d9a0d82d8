"""The processes that use the GPUs of this host, as the driver and control groups list them, and their owners.

Their command lines are shown without secrets. The arguments are those of any user of the host: the time to mask them
grows linearly with their length.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pulsed.daemon_thread import SharedCall
from pulsed.errors import ProcessesHidden
from pulsed.model.owner import Owner, OwnerKind, Owners
from pulsed.model.raw_tick import GpuProcess
from pulsed.owners.attribution.source import Claims

if TYPE_CHECKING:
    import psutil

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
    """The process groups that use a GPU, with their users; Slurm jobs and containers of Docker and Podman by the
    control groups of their processes.

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
                    "process", str(leader.pid), start_of(leader), user=user, user_id=user_id, name=leader.name()
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
        start: Unix seconds.
        command: without secrets; empty if it has none.
    """

    pid: int
    owner: CgroupOwner | None
    user: str
    memory_bytes: int
    start: float
    command: str


def are_visible(proc: Path = Path("/proc")) -> bool:
    """Return whether all processes of the host can be seen: not with hidepid, nor in most containers."""
    try:
        return (proc / "2/comm").read_text(encoding="ascii", errors="replace").strip() == "kthreadd"
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
            if (owner is None or owner.kind == "container") and pid not in pids:
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
                    start_of(process),
                    _command(pid),
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


def _command(pid: int) -> str:
    """Return the command line of a process, without secrets; psutil would read megabytes of it."""
    with Path(f"/proc/{pid}/cmdline").open("rb") as file:
        return masked_command(arguments_of(file.read(MAX_BYTES + 1)))


_JOB = re.compile(r"slurm(?:(?!slurm)[^/])*/(?:uid_[0-9]+/)?job_([0-9]+)(?=/|$)")
_PODS = "kubepods"
_POD = re.compile(r"[/-]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?=[./:]|$)")


_CONTAINER = re.compile(r"/(?:docker/|(?:docker|libpod|nerdctl)-)([0-9a-f]{12})[0-9a-f]{52}(?=[./]|$)")


class CgroupOwner(NamedTuple):
    """What a control group belongs to: the id of a Slurm job, the uid of a pod, or the short id of a container."""

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

_SECRET = re.compile(
    "token|secret|passw|pwd|api[_-]?key|access[_-]?key|private[_-]?key|credential|auth|bearer|cookie", re.IGNORECASE
)
_SEPARATOR = re.compile("[=:]")
_HEADER = re.compile(r"\b(bearer|basic)\s+\S+", re.IGNORECASE)
_LOGIN = re.compile(r"://[^/\s]+@")
_KNOWN = re.compile(r"\b(?:hf_|gh[opsu]_|github_pat_|glpat-|sk-|xox[abp]-|AKIA|eyJ)[A-Za-z0-9_.=-]{8,}")


def arguments_of(content: bytes) -> list[str]:
    """Return the arguments in the content of /proc/PID/cmdline, of which `MAX_BYTES` count.

    Programs that set their title separate words by spaces (psutil#1179). If the content is longer, its last word is
    left out: half a secret cannot be recognized.
    """
    text = content[:MAX_BYTES].decode("utf-8", "replace").rstrip("\0")
    if len(content) > MAX_BYTES:
        text = text[: max(text.rfind("\0"), text.rfind(" "), 0)]
    return text.split("\0" if "\0" in text else " ") if text else []


def masked_command(arguments: Iterable[str]) -> str:
    """Return a command line with `***` for what looks like a secret: values of options and variables with such names,
    logins in URLs, headers, and tokens of well-known services."""
    return " ".join(_masked(arguments))[:MAX_TEXT]


def _masked(arguments: Iterable[str]) -> Iterator[str]:
    is_value = False
    for argument in arguments:
        if is_value and not argument.startswith("-"):
            yield "***"
        else:
            text = _HEADER.sub(r"\1 ***", _without_named_secret(argument))
            yield _KNOWN.sub("***", _LOGIN.sub("://***@", text))
        is_value = argument in ("-p", "-u") or _is_secret_option(argument)


def _without_named_secret(text: str) -> str:
    """Return a text up to the first `=` or `:` behind the name of a secret; what follows is masked."""
    start = 0
    for separator in _SEPARATOR.finditer(text):
        words = text[start : separator.start()].split()
        if words and _SECRET.search(words[-1]):
            value = text[separator.end() :].lstrip()
            return f"{text[: len(text) - len(value)]}***" if value else text
        start = separator.end()
    return text


def _is_secret_option(argument: str) -> bool:
    """Return whether the value of an option is the next argument, and a secret."""
    is_option = argument.startswith("-") and "=" not in argument and len(argument.split()) == 1
    return is_option and _SECRET.search(argument) is not None
