"""Host CPU time and memory of jobs and pods, from their control groups in /sys/fs/cgroup, version 2 or 1.

Slurm's `task/cgroup` and the kubelet make the groups. Where they are not there or cannot be read, nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pulsed.model.host import JobHostUsage
from pulsed.model.owner import Owner
from pulsed.model.vocabulary import Value
from pulsed.regular_file import read_regular

_SLURM = ("system.slice/*slurmstepd.scope/job_{}", "slurm*/uid_*/job_{}")
_PODS = ("kubepods.slice/kubepods-pod{}.slice", "kubepods.slice/*/kubepods-*-pod{}.slice")
_PODS_BY_NAME = ("kubepods/pod{}", "kubepods/*/pod{}")
"""Folders of groups, relative to the root (version 2) or that of a controller (1): of the kubelet's driver `systemd`,
which writes `_` for `-`, and of its driver `cgroupfs`."""

_UNLIMITED = 2.0**60
"""Version 1 shows the largest page number for no limit."""


def read_usage(root: Path, owner: Owner, before: JobHostUsage | None = None) -> JobHostUsage | None:
    """Return what the control group of a job or pod has used; None without one that can be read.

    Args:
        root: folder with `sys` of the host.
        before: an earlier one of this owner: kernels before 5.19 have no peak, so that the highest one seen counts.
    """
    groups, patterns = root / "sys/fs/cgroup", list(_patterns(owner))
    cpu = _first(_numbers(groups, patterns, "cpu.stat", "usage_usec"), 1e-6)
    if cpu is None:
        cpu = _first(_numbers(groups, [f"cpu*/{each}" for each in patterns], "cpuacct.usage"), 1e-9)
    in_memory = [f"memory/{each}" for each in patterns]
    peak = _first((
        *_numbers(groups, patterns, "memory.peak"),
        *_numbers(groups, in_memory, "memory.max_usage_in_bytes"),
        *_numbers(groups, patterns, "memory.current"),
    ))  # fmt: skip
    limit = _first((*_numbers(groups, patterns, "memory.max"), *_numbers(groups, in_memory, "memory.limit_in_bytes")))
    if cpu is None and peak is None:
        return None
    peaks = [each for each in (peak, before.memory_peak_bytes if before is not None else None) if each is not None]
    return JobHostUsage(cpu, max(peaks, default=None), limit if limit is not None and limit < _UNLIMITED else None)


def _patterns(owner: Owner) -> Iterator[str]:
    if owner.kind == "slurm_job" and re.fullmatch(r"[0-9]{1,20}", owner.id):
        yield from (each.format(owner.id) for each in _SLURM)
    elif owner.kind == "pod" and re.fullmatch(r"[0-9a-fA-F-]{1,64}", owner.uid):
        yield from (each.format(owner.uid.replace("-", "_")) for each in _PODS)
        yield from (each.format(owner.uid) for each in _PODS_BY_NAME)


def _numbers(groups: Path, patterns: Iterable[str], file: str, key: str = "") -> Iterator[float]:
    """Yield a number of each control group that has it: the content of a file, or behind a key."""
    for pattern in patterns:
        for path in groups.glob(f"{pattern}/{file}"):
            try:
                words = read_regular(path, 65536).split()
                yield float(words[words.index(key.encode()) + 1] if key else words[0])
            except (OSError, ValueError, IndexError):
                continue


def _first(numbers: Iterable[float], factor: float = 1.0) -> Value:
    number = next(iter(numbers), None)
    return None if number is None else number * factor
