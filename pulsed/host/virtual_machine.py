"""Whether this host is a virtual machine, from what the kernel shows of the processor and the firmware."""

from __future__ import annotations

import re
from pathlib import Path

from pulsed.regular_file import text_of

_FLAGS = re.compile(r"^flags\s*:(.*)$", re.MULTILINE)
_FLAG = "hypervisor"
"""The flag of an x86 processor that every hypervisor sets (CPUID 1, ECX bit 31), and no bare machine."""

_FIRMWARE = ("sys_vendor", "product_name", "bios_vendor")
_PRODUCTS = re.compile(
    r"KVM|QEMU|Virtual Machine|VMware|VirtualBox|HVM domU|Bochs|BHYVE|Parallels|OpenStack|KubeVirt|Amazon EC2|"
    r"Google Compute Engine|Alibaba Cloud ECS|Apple Virtualization"
)
"""Names in the firmware of virtual machines (systemd's `virt.c`)."""
_METAL = re.compile(r"\bmetal\b", re.IGNORECASE)
"""In the name of a bare machine of a cloud, such as `p5g.metal`."""

_FIRST_PROCESSOR = 16384
"""Characters of `/proc/cpuinfo` that have the first processor."""


def is_virtual_machine(root: Path) -> bool | None:
    """Return whether the host is a virtual machine; None if neither its processor nor its firmware can be read.

    Processors that are not x86 have no such flag: the names in the firmware decide.

    Args:
        root: folder with `proc` and `sys` of the host.
    """
    flags = _FLAGS.search(text_of(root / "proc/cpuinfo", _FIRST_PROCESSOR))
    if flags is not None:
        return _FLAG in flags[1].split()
    names = [name for file in _FIRMWARE if (name := text_of(root / "sys/class/dmi/id" / file))]
    if not names:
        return None
    return any(map(_PRODUCTS.search, names)) and not any(map(_METAL.search, names))
