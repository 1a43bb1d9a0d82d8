"""What the kernel shows of this host in files: GPUs on the PCI bus, InfiniBand ports, stuck processes, control groups.

Each function gets the folder that has `sys`, `proc` and `dev` of the host, and returns None for what cannot be seen.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from pulsed.model.host import PORT_COUNTERS, InfinibandPort, JobHostUsage, PciGpu, StuckProcess
from pulsed.model.owner import Owner
from pulsed.model.vocabulary import Value
from pulsed.owners.attribution.gpu_processes import are_visible
from pulsed.regular_file import read_regular, text_of

_NVIDIA = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")
"""VGA and 3D controllers. NVSwitches, audio and USB functions of a board have other classes."""

_MINOR = re.compile(r"^Device Minor:\s*(\d{1,6})", re.MULTILINE)

_RATE = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,3})?) Gb/sec")
_NUMBER = re.compile(r"[0-9]{1,20}")

_STACK = ("nvidia", "dcgm", "nv-hostengine")
_DEVICE = "/dev/nvidia"
_START = 19
"""Field 22 of `/proc/PID/stat`, start in clock ticks since boot, as an index behind the name of the program."""

_SLURM = ("system.slice/*slurmstepd.scope/job_{}", "slurm*/uid_*/job_{}")
_PODS = ("kubepods.slice/kubepods-pod{}.slice", "kubepods.slice/*/kubepods-*-pod{}.slice")
_PODS_BY_NAME = ("kubepods/pod{}", "kubepods/*/pod{}")
"""Folders of groups, relative to the root (version 2) or to a controller's (1): of the kubelet's driver `systemd`,
which writes `_` for `-`, and of its driver `cgroupfs`."""

_UNLIMITED = 2.0**60
"""Version 1 shows the largest page number for no limit."""


def read_pci_gpus(root: Path) -> tuple[PciGpu, ...] | None:
    """Return the GPUs on the bus in the order of their addresses, and whether the driver lists them.

    Args:
        root: folder with `sys`, `proc` and `dev` of the host.
    """
    devices = root / "sys/bus/pci/devices"
    try:
        names = sorted(os.listdir(devices))
    except OSError:
        return None
    return tuple([_gpu(root, devices / name) for name in names if _is_gpu(devices / name)])


def _is_gpu(device: Path) -> bool:
    is_nvidia = text_of(device / "vendor") == _NVIDIA and text_of(device / "class")[:6] in _DISPLAY_CLASSES
    return is_nvidia and not (device / "physfn").exists()  # a virtual function, for a guest


def _gpu(root: Path, device: Path) -> PciGpu:
    try:
        driver = os.path.basename(os.readlink(device / "driver"))
    except OSError:
        driver = ""
    minor = _MINOR.search(text_of(root / f"proc/driver/nvidia/gpus/{device.name}/information"))
    is_usable = minor is not None and (root / f"dev/nvidia{minor[1]}").exists()
    return PciGpu(f"{device.name.upper():0>16}", driver, is_usable)


def read_ports(root: Path, counters: Collection[str] = PORT_COUNTERS) -> tuple[InfinibandPort, ...] | None:
    """Return the ports in the order of their names; None if there is no sysfs to see.

    Args:
        root: folder with `sys` of the host.
        counters: the ones of `PORT_COUNTERS` to read.
    """
    if not (root / "sys/class").is_dir():
        return None
    return tuple([_port(folder, counters) for folder in sorted((root / "sys/class/infiniband").glob("*/ports/[0-9]*"))])


def _port(folder: Path, counters: Collection[str]) -> InfinibandPort:
    device = folder.parent.parent
    rate = _RATE.match(text_of(folder / "rate"))
    counted = {
        name: int(text) * counter.unit
        for name, counter in PORT_COUNTERS.items()
        if name in counters and _NUMBER.fullmatch(text := text_of(folder / counter.path))
    }
    return InfinibandPort(
        device.name,
        folder.name,
        f"{text_of(device / 'board_id') or device.name} {text_of(folder / 'link_layer')}",
        _word(folder / "state"),
        _word(folder / "phys_state"),
        float(rate[1]) * 1e9 / 8 if rate else None,
        counted,
    )


def _word(path: Path) -> str:
    """Return the word of `4: ACTIVE`."""
    return text_of(path).rpartition(": ")[2]


def read_stuck_processes(root: Path) -> tuple[StuckProcess, ...] | None:
    """Return the processes in state D that belong to NVIDIA's stack or have a GPU open, at this moment.

    None where the processes of the host cannot be seen. Only files that the kernel answers without the memory lock of
    the process are read: even `cmdline` of a stuck process can hang.

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
