"""What this machine has of NVIDIA's: GPUs on the bus, the driver, its device files, its library. Opens no device."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from pathlib import Path

from pulsed.reader.kernel_log import KMSG, KernelLog
from pulsed.regular_file import text_of

NVML = "libnvidia-ml.so.1"

_DRIVER = re.compile(r"Kernel Module\s+(?:for \S+\s+)?(\d[\d.]+)")
_NVIDIA = "0x10de"
_DCGM = frozenset({"dcgm-exporter", "nv-hostengine"})
_DISPLAY = ("0x0300", "0x0302")  # PCI classes: VGA and 3D controllers
_DEVICE_FILE = re.compile(r"nvidia\d+")


@dataclass(frozen=True, slots=True)
class Machine:
    """Hardware and software of this machine, as inspected.

    Attributes:
        gpus_on_bus: NVIDIA's GPUs on the PCI bus, with a driver or without.
        driver: version of the loaded kernel driver; empty if no driver is loaded.
        device_files: names of the GPUs' files in /dev.
        dcgm: names of DCGM's programs that run.
        kernel_log: path of the kernel log to read; empty if it is not to be read.
        kernel_log_error: why it cannot be used; empty if it can.
    """

    gpus_on_bus: int
    driver: str
    device_files: tuple[str, ...]
    has_nvml: bool
    dcgm: tuple[str, ...] = ()
    kernel_log: str = ""
    kernel_log_error: str = ""


def inspect_machine(root: Path = Path("/"), library: str = NVML, kernel_log: str = KMSG) -> Machine:
    """Look at the machine.

    Args:
        kernel_log: path of the kernel log to read; empty for none.
    """
    gpus_on_bus = sum(
        text_of(device / "vendor") == _NVIDIA and text_of(device / "class").startswith(_DISPLAY)
        for device in (root / "sys/bus/pci/devices").glob("*")
    )
    files = sorted(file.name for file in (root / "dev").glob("nvidia*") if _DEVICE_FILE.fullmatch(file.name))
    programs = {text_of(process / "comm") for process in (root / "proc").glob("[0-9]*")}
    return Machine(
        gpus_on_bus,
        driver_version(root),
        tuple(files),
        _is_loadable(library),
        tuple(sorted(_DCGM & programs)),
        kernel_log,
        _kernel_log_error(root / kernel_log.lstrip("/")) if kernel_log else "",
    )


def _kernel_log_error(path: Path) -> str:
    log = KernelLog(str(path))
    log.poll()
    log.close()
    return log.error


def driver_version(root: Path) -> str:
    """Return the version of the loaded NVIDIA kernel driver; empty if no driver is loaded."""
    text = text_of(root / "proc/driver/nvidia/version")
    match = _DRIVER.search(text)
    return match[1] if match else "unknown" if text else ""


def advice(machine: Machine) -> str:
    """Return the remedy for a machine on which no source works."""
    elsewhere = (
        "To serve GPUs of other nodes, point source.exporter.targets to their exporters, or source.dcgmi.host to a "
        "host engine. To look around without a GPU: --source demo"
    )
    if machine.driver and machine.device_files:
        return (
            f"There is an NVIDIA driver, and {len(machine.device_files)} GPUs, but nothing that measures them: install "
            "DCGM (package datacenter-gpu-manager) and start it (systemctl start nvidia-dcgm), run a dcgm-exporter, or "
            "let pulsed read the driver (pip install 'pulsed[nvml]')"
        )
    if machine.driver:
        return (
            "There is an NVIDIA driver, but no GPU in /dev. In a container, request the GPUs (docker run --gpus all, "
            f"or runtimeClassName: nvidia). On a host, run nvidia-smi as root, which creates the files. {elsewhere}"
        )
    if machine.gpus_on_bus:
        return (
            f"There are {machine.gpus_on_bus} NVIDIA GPUs on the PCI bus, but no driver is loaded: install the driver "
            f"(nvidia-smi must work), then DCGM. {elsewhere}"
        )
    return (
        "There is no NVIDIA GPU on this machine: none on the PCI bus, and no driver. On a node with GPUs, install the "
        f"driver and DCGM. {elsewhere}"
    )


def _is_loadable(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
