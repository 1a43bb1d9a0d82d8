"""Processes in real control groups, whose paths name jobs and pods; and command lines without arguments."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.owners.attribution.gpu_processes import (
    MAX_TEXT,
    are_visible,
    arguments_of,
    listed_processes,
    owner_of_cgroup,
    program_of,
    start_of,
)
from tests.support.tools import missing

ROOTS = [Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/freezer"), Path("/sys/fs/cgroup/unified")]


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group as slurmd makes them, of a job that has the number of this process."""
    root = next((root for root in ROOTS if (root / "cgroup.procs").exists() and os.access(root, os.W_OK)), None)
    if root is None:
        missing(f"no control group can be made: none of {', '.join(map(str, ROOTS))} is writable; run as root")
    top = root / f"pulsed_{os.getpid()}_slurmstepd.scope"
    made = top / f"job_{os.getpid()}" / "step_0"
    made.mkdir(parents=True)
    yield made
    for each in (made, made.parent, top):
        each.rmdir()


def test_a_process_of_a_job(group: Path) -> None:
    before = time.time()
    process = subprocess.Popen(["sleep", "600"], env={"TOKEN": "x"})
    try:
        (group / "cgroup.procs").write_text(str(process.pid))
        (found,) = [each for each in listed_processes() if each.owner and each.owner.id == str(os.getpid())]
        assert found.owner is not None
        assert (found.pid, found.owner.kind, found.command) == (process.pid, "slurm_job", "sleep")
        assert found.memory_bytes > 0
        assert before - 2 < found.start < time.time() + 2
        assert found.user
    finally:
        process.kill()
        process.wait()
    assert not [each for each in listed_processes() if each.owner and each.owner.id == str(os.getpid())]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_with_hidepid_processes_are_known_to_be_hidden() -> None:
    # Another user need not be able to start this Python: its files may be root's alone.
    become = "import os, psutil; os.setgroups([]); os.setgid(65534); os.setuid(65534)"
    code = f"from pulsed.owners.attribution.gpu_processes import *; {become}; print(are_visible(), listed_processes())"
    mount = 'mount -t proc -o hidepid=2 proc /proc && exec "$0" -c "$1"'
    command = ["unshare", "--mount", "sh", "-c", mount, sys.executable, code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False []\n"
    kernel = Path("/proc/2/comm")  # a namespace may have no process 2
    assert are_visible() is (kernel.exists() and kernel.read_text() == "kthreadd\n")


def test_a_step_of_the_wall_clock_does_not_date_processes_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    process, started = psutil.Process(), start_of(psutil.Process())
    booted = psutil.boot_time()
    monkeypatch.setattr(psutil, "boot_time", lambda: booted + 3600.0)
    stepped = SimpleNamespace(create_time=lambda: process.create_time() + 3600.0)
    assert start_of(stepped) == pytest.approx(started)  # type: ignore[arg-type]  # has all that is needed


def test_processes_by_their_number() -> None:
    assert os.getpid() not in {each.pid for each in listed_processes()}
    (found,) = [each for each in listed_processes({os.getpid()}) if each.pid == os.getpid()]
    assert 0.0 < found.cpu_seconds <= time.process_time() + 1.0
    assert found.user
    assert "python" in found.command
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert ended.pid not in {each.pid for each in listed_processes({ended.pid})}


UID = "0a1b2c3d-0000-1111-2222-0123456789ab"
CONTAINER = "0123456789abcdef" * 4
SYSTEMD = UID.replace("-", "_")


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        ("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n", ("slurm_job", "4711")),
        ("0::/system.slice/gpu07_slurmstepd.scope/job_4711\n", ("slurm_job", "4711")),
        ("5:cpuset:/slurm/uid_1000/job_4711/step_batch/task_0\n1:name=systemd:/\n", ("slurm_job", "4711")),
        ("9:memory:/slurm_gpu07/uid_1000/job_12/step_0\n", ("slurm_job", "12")),
        (f"4:memory:/kubepods/burstable/pod{UID}/0123abcd\n", ("pod", UID)),
        (f"0::/kubepods.slice/kubepods-pod{SYSTEMD}.slice/cri-containerd-0123.scope\n", ("pod", UID)),
        (
            f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SYSTEMD}.slice/crio-01.scope",
            ("pod", UID),
        ),
        (f"0::/system.slice/containerd.service/kubepods-burstable-pod{SYSTEMD}.slice:cri-containerd:01", ("pod", UID)),
        (f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{SYSTEMD}.slice/cri-1.scope", ("pod", UID)),
        (
            "0::/kubepods/burstable/pod0123456789abcdef0123456789abcdef/01\n",
            ("pod", "0123456789abcdef0123456789abcdef"),
        ),
        ("0::/user.slice/user-1000.slice/session-2.scope\n", None),
        ("0::/user.slice/user-1000.slice/user@1000.service/slurm/job_4711\n", None),
        (f"0::/user.slice/user-1000.slice/user@1000.service/kubepods/pod{UID}\n", None),
        ("0::/system.slice/slurmd.service\n", None),
        ("0::/system.slice/slurmstepd.scope/s5K1/step_0\n", None),
        ("0::/docker/0123\n", None),
        (f"0::/system.slice/docker-{CONTAINER}.scope\n", ("container", "0123456789ab")),
        (f"5:cpuset:/docker/{CONTAINER}\n1:name=systemd:/docker/{CONTAINER}\n", ("container", "0123456789ab")),
        (f"0::/machine.slice/libpod-{CONTAINER}.scope/container\n", ("container", "0123456789ab")),
        (
            f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{CONTAINER}.scope",
            ("container", "0123456789ab"),
        ),
        (f"0::/machine.slice/libpod-conmon-{CONTAINER}.scope\n", None),
        (f"3:cpu:/docker/{CONTAINER}\n4:memory:/slurm/uid_1/job_4711/step_0\n", ("slurm_job", "4711")),
        ("", None),
    ],
)
def test_every_known_form(text: str, owner: object) -> None:
    assert owner_of_cgroup(text) == owner


def test_a_group_within_that_of_a_job_does_not_change_the_job() -> None:
    text = "0::/system.slice/slurmstepd.scope/job_1/step_0/user/slurm/job_2"
    assert owner_of_cgroup(text) == ("slurm_job", "1")


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    owner_of_cgroup(text)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("python train.py --epochs 3 --token S", "python train.py"),
        (
            "/opt/env/bin/python3.11 -u -m torch.distributed.run x.py S",
            "/opt/env/bin/python3.11 -m torch.distributed.run",
        ),
        ("python -c S", "python"),
        ("python -uc S", "python"),
        ("bash job.sh S", "bash job.sh"),
        ("/bin/bash -e /var/spool/slurmd/job1/slurm_script S", "/bin/bash /var/spool/slurmd/job1/slurm_script"),
        ("-bash -lc S", "-bash"),
        ("sh -c S", "sh"),
        ("perl -pe S", "perl"),
        ("node --eval S", "node"),
        ("node -p S", "node"),
        ("python - S", "python"),
        ("python -X S x.py", "python"),
        ("bash -s S", "bash"),
        ("bash -s -- --token S", "bash"),
        ("bash -m S", "bash"),
        ("Rscript fit.R S", "Rscript fit.R"),
        ("env TOKEN=S x", "env"),
        ("curl -u ann:S -H S", "curl"),
        ("psql postgres://ann:S@db/x", "psql"),
        ("mysql -pS", "mysql"),
        ("x --pass=S", "x"),
        ("vault login S", "vault"),
        ("docker run -e NVIDIA_API_KEY=nvapi-S", "docker"),
        ("python", "python"),
        ("python -m", "python -m"),
        ("", ""),
    ],
)
def test_arguments_are_not_shown(line: str, expected: str) -> None:
    assert program_of(line.split()) == expected


def test_arguments_are_shown_on_request() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            shown = [
                next(
                    each.command
                    for each in listed_processes({process.pid}, with_arguments=asked)
                    if each.pid == process.pid
                )
                for asked in (False, True)
            ]
        finally:
            process.kill()
    assert shown == ["sleep", "sleep 600"]


def test_long_lines_are_cut() -> None:
    assert len(program_of(["x" * 1000])) == MAX_TEXT


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        (b"python\0train.py\0--name=a b\0", ["python", "train.py", "--name=a b"]),
        (b"nginx: worker process", ["nginx:", "worker", "process"]),
        (b"x\0\0\0", ["x"]),
        (b"x\0\0y\0", ["x", "", "y"]),
        (b"\xff\0", ["\N{REPLACEMENT CHARACTER}"]),
        (b"", []),
        (b"\0", []),
    ],
)
def test_arguments_of_a_process(content: bytes, arguments: list[str]) -> None:
    assert arguments_of(content) == arguments
