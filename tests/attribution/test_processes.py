"""Processes in real control groups."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsed.attribution.processes import are_visible, listed_processes
from support.tools import missing

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
        assert (found.pid, found.owner.kind, found.command) == (process.pid, "slurm_job", "sleep 600")
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
    code = f"from pulsed.attribution.processes import *; {become}; print(are_visible(), listed_processes())"
    mount = 'mount -t proc -o hidepid=2 proc /proc && exec "$0" -c "$1"'
    command = ["unshare", "--mount", "sh", "-c", mount, sys.executable, code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False []\n"
    assert are_visible() is (Path("/proc/2/comm").read_text() == "kthreadd\n")


def test_processes_by_their_number() -> None:
    assert os.getpid() not in {each.pid for each in listed_processes()}
    (found,) = [each for each in listed_processes({os.getpid()}) if each.pid == os.getpid()]
    assert found.user
    assert "python" in found.command
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert ended.pid not in {each.pid for each in listed_processes({ended.pid})}
