"""Processes of NVIDIA's stack in uninterruptible sleep (state D), which wait for a driver that does not return.

Only files that the kernel answers without the memory lock of the process are read: `cmdline` of a stuck process can
hang, too.
"""

from __future__ import annotations

import os
from pathlib import Path

from pulsed.model.host import StuckProcess
from pulsed.owners.attribution.gpu_processes import are_visible

_STACK = ("nvidia", "dcgm", "nv-hostengine")
_DEVICE = "/dev/nvidia"
_START = 19
"""Field 22 of `/proc/PID/stat`, start in clock ticks since boot, as an index behind the name of the program."""


def read_stuck_processes(root: Path) -> tuple[StuckProcess, ...] | None:
    """Return the processes in state D that belong to NVIDIA's stack or have a GPU open, at this moment.

    None where the processes of the host cannot be seen.

    Args:
        root: folder with `proc` of the host.
    """
    proc = root / "proc"
    if not are_visible(proc):
        return None
    processes = (_stuck(proc / name) for name in os.listdir(proc) if name.isdecimal())
    return tuple([process for process in processes if process is not None])


def _stuck(folder: Path) -> StuckProcess | None:
    """Return a process; None for one that sleeps otherwise, is of another program, or has ended."""
    try:
        name, _, rest = (folder / "stat").read_text("utf-8", "replace").partition("(")[2].rpartition(")")
        state, *fields = rest.split()
        if state != "D" or not (name.startswith(_STACK) or _has_gpu(folder / "fd")):
            return None
        return StuckProcess(int(folder.name), int(fields[_START - 1]), name)
    except (OSError, ValueError, IndexError):
        return None


def _has_gpu(descriptors: Path) -> bool:
    try:
        return any(os.readlink(descriptors / name).startswith(_DEVICE) for name in os.listdir(descriptors))
    except OSError:  # of another user
        return False
