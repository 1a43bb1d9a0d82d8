"""What a host has beside the samples of its GPUs: GPUs on the PCI bus, stuck processes, InfiniBand ports.

A part that cannot be read is None, which is never the same as empty.
"""

from __future__ import annotations

from typing import NamedTuple

from pulsed.model.raw_tick import KernelEvent


class PciGpu(NamedTuple):
    """A GPU of NVIDIA on the PCI bus. Virtual functions are none.

    Attributes:
        address: in DCGM's form, `00000000:3B:00.0`.
        driver: name of the kernel driver that is bound to it, such as `nvidia` or `vfio-pci`; empty for none.
        is_usable: whether the driver lists it and its device file is here. In a container it may be withheld.
    """

    address: str
    driver: str
    is_usable: bool


class StuckProcess(NamedTuple):
    """A process of NVIDIA's stack, or with a GPU open, in uninterruptible sleep.

    Attributes:
        start: clock ticks since boot; with the id it identifies the process.
        name: as the kernel has it, at most 15 characters.
    """

    pid: int
    start: int
    name: str


class HostFacts(NamedTuple):
    """What one look at the host found.

    Attributes:
        time: of the look, in Unix seconds.
        pci_gpus: None where there is no PCI bus to see.
        stuck_processes: at this look; None where the processes of the host cannot be seen.
        kernel_events: of GPUs that the driver could not start, since boot and as far as the kernel log was read.
    """

    time: float
    pci_gpus: tuple[PciGpu, ...] | None = None
    kernel_events: tuple[KernelEvent, ...] = ()
    stuck_processes: tuple[StuckProcess, ...] | None = None


class ShownGpu(NamedTuple):
    """A board that a source shows, or has shown and is missing (`is_lost`)."""

    address: str
    model: str
    is_lost: bool
