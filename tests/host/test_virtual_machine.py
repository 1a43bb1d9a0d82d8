"""Virtual machines by what the kernel shows of their processor and firmware."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsed.host.virtual_machine import is_virtual_machine
from tests.support.host_tree import HostTree


def processor(flags: str) -> str:
    return "".join(f"processor\t: {number}\nflags\t\t: fpu vme {flags} lm\nbugs\t\t: none\n\n" for number in range(96))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/cpuinfo": processor("hypervisor")}, True),
        ({"proc/cpuinfo": processor("hypervisors")}, False),
        ({"proc/cpuinfo": processor("sse4"), "sys/class/dmi/id/sys_vendor": "Amazon EC2\n"}, False),
        ({"proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd\n"}, None),
        ({"sys/class/dmi/id/sys_vendor": "QEMU\n", "sys/class/dmi/id/product_name": "KVM Virtual Machine\n"}, True),
        (
            {
                "sys/class/dmi/id/sys_vendor": "Microsoft Corporation",
                "sys/class/dmi/id/product_name": "Virtual Machine",
            },
            True,
        ),
        ({"sys/class/dmi/id/sys_vendor": "Amazon EC2", "sys/class/dmi/id/product_name": "g5g.4xlarge"}, True),
        ({"sys/class/dmi/id/sys_vendor": "Amazon EC2", "sys/class/dmi/id/product_name": "g5g.metal"}, False),
        ({"sys/class/dmi/id/sys_vendor": "NVIDIA", "sys/class/dmi/id/product_name": "GB200 NVL"}, False),
        ({}, None),
    ],
)
def test_the_flag_of_the_processor_decides_then_the_firmware(
    files: dict[str, str], expected: bool | None, tmp_path: Path
) -> None:
    tree = HostTree(tmp_path)
    for path, text in files.items():
        tree.write(path, text)
    assert is_virtual_machine(tmp_path) is expected
