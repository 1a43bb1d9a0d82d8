"""The NVIDIA GPUs on the PCI bus, from /sys/bus/pci, and whether the driver lists them, from /proc/driver/nvidia."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pulsed.model.host import PciGpu

_NVIDIA = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")
"""VGA and 3D controllers. NVSwitches, audio and USB functions of a board have other classes."""

_MINOR = re.compile(r"^Device Minor:\s*(\d{1,6})", re.MULTILINE)


def read_pci_gpus(root: Path) -> tuple[PciGpu, ...] | None:
    """Return the GPUs on the bus in the order of their addresses; None if there is no bus to see.

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


def text_of(path: Path) -> str:
    """Return the content of a small file; empty if it cannot be read, as that of a device that was just removed."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
