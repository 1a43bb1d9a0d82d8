"""Stuck processes of made trees, and of this machine."""

from __future__ import annotations

from pathlib import Path

from pulsed.host.kernel_files import read_stuck_processes
from pulsed.model.host import StuckProcess
from tests.support.host_tree import HostTree


def test_processes_of_the_stack_or_with_a_gpu_count_in_state_d_only(tmp_path: Path) -> None:
    tree = HostTree(tmp_path)
    tree.add_process(11, "nvidia-smi")
    tree.add_process(12, "nv-hostengine", "S")
    tree.add_process(13, "python3", has_gpu=True)
    tree.add_process(14, "rsync")
    tree.add_process(15, "dcgm (x) D y")
    tree.write("proc/16/stat", "16 (broken) D")
    tree.write("proc/17/comm", "ended before it was read")
    stuck = read_stuck_processes(tmp_path)
    assert stuck is not None
    assert set(stuck) == {
        StuckProcess(11, 1011, "nvidia-smi"),
        StuckProcess(13, 1013, "python3"),
        StuckProcess(15, 1015, "dcgm (x) D y"),
    }


def test_processes_that_cannot_be_seen_are_not_known(tmp_path: Path) -> None:
    """In a container the second process is another one."""
    tree = HostTree(tmp_path)
    tree.add_process(11, "nvidia-smi")
    tree.write("proc/2/comm", "sleep\n")
    assert read_stuck_processes(tmp_path) is None
