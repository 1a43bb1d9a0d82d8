"""Made trees of control groups, as Slurm and the kubelet make them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsed.host.kernel_files import read_usage
from pulsed.model.host import JobHostUsage
from pulsed.model.owner import Owner

JOB = Owner("slurm_job", "4711")
POD = Owner("pod", "ml/train/main", uid="0a1b-2c3d")
V2 = {"cpu.stat": "usage_usec 90000000\nuser_usec 1\n", "memory.current": "3e9", "memory.max": "max"}


def made(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = root / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def under(folder: str, files: dict[str, str]) -> dict[str, str]:
    return {f"{folder}/{name}": text for name, text in files.items()}


@pytest.mark.parametrize(
    ("owner", "files", "usage"),
    [
        (JOB, under("system.slice/slurmstepd.scope/job_4711", V2), JobHostUsage(90.0, 3e9, None)),
        (
            JOB,
            under("system.slice/n1_slurmstepd.scope/job_4711", V2 | {"memory.peak": "5e9", "memory.max": "8e9"}),
            JobHostUsage(90.0, 5e9, 8e9),
        ),
        (
            JOB,
            {
                "cpu,cpuacct/slurm/uid_7/job_4711/cpuacct.usage": "12000000000\n",
                "memory/slurm/uid_7/job_4711/memory.max_usage_in_bytes": "4096\n",
                "memory/slurm/uid_7/job_4711/memory.limit_in_bytes": "9223372036854771712\n",
            },
            JobHostUsage(12.0, 4096.0, None),
        ),
        *[
            (
                JOB,
                under("slurm/uid_7/job_4711", V2 | {"memory.max": f"{2**60 - below}"}),
                JobHostUsage(90.0, 3e9, limit),
            )
            for below, limit in ((0, None), (256, 2.0**60 - 256))
        ],
        (POD, under("kubepods.slice/kubepods-pod0a1b_2c3d.slice", V2), JobHostUsage(90.0, 3e9, None)),
        (POD, under("kubepods/burstable/pod0a1b-2c3d", V2), JobHostUsage(90.0, 3e9, None)),
        (JOB, {"system.slice/slurmstepd.scope/job_4711/cpu.stat": "nothing"}, None),
        (JOB, under("system.slice/slurmstepd.scope/job_4712", V2), None),
        (Owner("pod", "ml/train/main", uid="*"), under("kubepods/burstable/pod0a1b-2c3d", V2), None),
        (Owner("container", "main", uid="0a1b-2c3d"), under("kubepods/burstable/pod0a1b-2c3d", V2), None),
        (Owner("slurm_job", "*"), under("system.slice/slurmstepd.scope/job_4711", V2), None),
        (Owner("process", "4711"), under("system.slice/slurmstepd.scope/job_4711", V2), None),
    ],
)
def test_usage_is_that_of_the_control_group(
    tmp_path: Path, owner: Owner, files: dict[str, str], usage: JobHostUsage | None
) -> None:
    assert read_usage(made(tmp_path, files), owner) == usage


def test_without_a_peak_of_the_kernel_the_highest_one_seen_counts(tmp_path: Path) -> None:
    folder = "system.slice/slurmstepd.scope/job_4711"
    before = read_usage(made(tmp_path, under(folder, V2)), JOB)
    made(tmp_path, {f"{folder}/memory.current": "1e9"})
    assert read_usage(tmp_path, JOB, before) == JobHostUsage(90.0, 3e9, None)
