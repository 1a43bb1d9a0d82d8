"""GPUs on the PCI bus of made trees."""

from __future__ import annotations

from pathlib import Path

from pulsed.host.kernel_files import read_pci_gpus
from pulsed.model.host import PciGpu
from tests.support.host_tree import HostTree


def test_only_gpus_of_nvidia_count_with_their_driver_and_whether_they_are_here(tmp_path: Path) -> None:
    tree = HostTree(tmp_path)
    tree.add_gpu("0000:3b:00.0")
    tree.add_gpu("0000:1b:00.0", is_given=False)
    tree.add_pci("0000:5e:00.0", "vfio-pci", kind="0x030000")
    tree.add_pci("0001:5e:00.0")
    tree.add_pci("0000:05:00.0", "nvidia-nvswitch", kind="0x068000")
    tree.add_pci("0000:06:00.0", "amdgpu", vendor="0x1002")
    (tree.add_pci("0000:5e:00.4", "nvidia") / "physfn").symlink_to("../0000:5e:00.0")
    (tmp_path / "sys/bus/pci/devices/0000:07:00.0").mkdir()
    assert read_pci_gpus(tmp_path) == (
        PciGpu("00000000:1B:00.0", "nvidia", False),
        PciGpu("00000000:3B:00.0", "nvidia", True),
        PciGpu("00000000:5E:00.0", "vfio-pci", False),
        PciGpu("00000001:5E:00.0", "", False),
    )


def test_without_a_bus_nothing_is_known(tmp_path: Path) -> None:
    assert read_pci_gpus(tmp_path) is None
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    assert read_pci_gpus(tmp_path) == ()
