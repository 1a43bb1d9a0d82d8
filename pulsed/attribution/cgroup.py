"""The job or pod of a process, by the path of its control group. This module does no I/O."""

from __future__ import annotations

import re
from typing import NamedTuple

from pulsed.model.owner import OwnerKind

_JOB = re.compile(r"slurm[^/]*/(?:uid_[0-9]+/)?job_([0-9]+)(?=/|$)")
_PODS = "kubepods"
_POD = re.compile(r"[/-]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?=[./:]|$)")


class CgroupOwner(NamedTuple):
    """What a control group belongs to: the id of a Slurm job, or the uid of a pod."""

    kind: OwnerKind
    id: str


def owner_of_cgroup(text: str) -> CgroupOwner | None:
    """Return the owner of a process by the contents of its /proc/PID/cgroup; None without one.

    Forms: cgroup v1 and v2; Slurm's `slurm/uid_U/job_J` and `slurmstepd.scope/job_J`; Kubernetes' cgroupfs and systemd
    drivers, with containerd, CRI-O or Docker. From Slurm 26.05 on, groups have no job ids unless CgroupJobIdPaths=yes.
    """
    for line in text.splitlines():
        path = line.split(":", 2)[-1]
        if match := _JOB.search(path):
            return CgroupOwner("slurm_job", match[1])
        if _PODS in path and (match := _POD.search(path, path.index(_PODS))):
            return CgroupOwner("pod", match[1].replace("_", "-"))
    return None
