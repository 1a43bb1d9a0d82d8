"""Facts about a host that are not samples of its GPUs: GPUs on the PCI bus, stuck processes, InfiniBand ports, use by
jobs.

A part that cannot be read is None; an empty part was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pulsed.model.clocks import Unix
from pulsed.model.gpu import Presence
from pulsed.model.raw_tick import KernelEvent
from pulsed.model.vocabulary import Value

NVIDIA_DRIVER = "nvidia"
"""Name of the kernel driver that serves GPUs on their host."""


def is_given_away(driver: str) -> bool:
    """Return whether a kernel driver other than NVIDIA's has a GPU, such as vfio-pci; empty stands for none."""
    return driver not in ("", NVIDIA_DRIVER)


class PciGpu(NamedTuple):
    """An NVIDIA GPU on the PCI bus. Virtual functions do not count.

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


class PortCounter(NamedTuple):
    """A counter of a port: its file below the folder of the port, the size of its unit, and its meaning."""

    path: str
    unit: int
    meaning: str


PORT_COUNTERS: Mapping[str, PortCounter] = {
    "receive_bytes": PortCounter("counters/port_rcv_data", 4, "Data received by the port"),
    "transmit_bytes": PortCounter("counters/port_xmit_data", 4, "Data sent by the port"),
    "symbol_errors": PortCounter("counters/symbol_error", 1, "Symbol errors received by the port"),
    "link_recoveries": PortCounter("counters/link_error_recovery", 1, "Link recoveries from errors"),
    "link_downed": PortCounter("counters/link_downed", 1, "Failed link recoveries, after which the link went down"),
    "rnr_nak_retry_errors": PortCounter(
        "hw_counters/rnr_nak_retry_err", 1, "Sends abandoned because the receiver was not ready"
    ),
    "local_ack_timeout_errors": PortCounter("hw_counters/local_ack_timeout_err", 1, "Acknowledgements that timed out"),
}
"""By name. An adapter or kernel may lack some. Sources: the kernel's sysfs-class-infiniband, NVIDIA's mlx5 counters."""


class InfinibandPort(NamedTuple):
    """A port of an InfiniBand or RoCE adapter.

    Attributes:
        device: such as `mlx5_0`.
        board: the same for ports of adapters of one model with the same link layer.
        state: `ACTIVE`, `DOWN`, `INIT`, `ARMED`; empty if it cannot be read, like `physical_state`.
        physical_state: `LinkUp`, `Polling` (no partner), `Disabled` (by an administrator), and others.
        bytes_per_second: of the link now, in one direction.
        counters: by name of `PORT_COUNTERS`.
    """

    device: str
    port: str
    board: str
    state: str
    physical_state: str
    bytes_per_second: float | None
    counters: Mapping[str, int]

    @property
    def name(self) -> str:
        """Device and port, as in `mlx5_0/1`."""
        return f"{self.device}/{self.port}"

    @property
    def is_active(self) -> bool:
        """Whether the port can carry data now."""
        return self.state == "ACTIVE"


class CpuReading(NamedTuple):
    """A processor of a superchip, as DCGM reads it (fields 1110 and 1130 to 1133).

    Attributes:
        node: its host; empty if the source does not name it.
        cpu: its number.
        io_power_watts: of its part for input and output.
        module_power_watts: of the whole superchip, its GPUs and memory included.
    """

    node: str
    cpu: str
    temperature_celsius: Value = None
    power_watts: Value = None
    power_limit_watts: Value = None
    io_power_watts: Value = None
    module_power_watts: Value = None


class HostFacts(NamedTuple):
    """What one look at the host found.

    Attributes:
        time: of the look, in Unix seconds.
        pci_gpus: None where there is no PCI bus to see.
        stuck_processes: at this look; None where the processes of the host cannot be seen.
        ports: None where there is no sysfs to see.
        kernel_events: of GPUs that the driver could not start or has lost, since boot and as far as the kernel log
            was read.
        switch_errors: the last SXID of each NVSwitch, code and severity, likewise; None where the log is not read.
        is_virtual: whether the host is a virtual machine.
    """

    time: Unix
    pci_gpus: tuple[PciGpu, ...] | None = None
    kernel_events: tuple[KernelEvent, ...] = ()
    stuck_processes: tuple[StuckProcess, ...] | None = None
    ports: tuple[InfinibandPort, ...] | None = None
    switch_errors: tuple[KernelEvent, ...] | None = None
    is_virtual: bool | None = None

    def pci_drivers(self) -> dict[str, str]:
        """Return by PCI address the kernel driver of the GPUs on the bus, empty for none."""
        return {gpu.address: gpu.driver for gpu in self.pci_gpus or ()}


class ShownGpu(NamedTuple):
    """A board that a source shows.

    Attributes:
        shown_as: `listed`: the source lists it; `unlisted`: it no longer does; `lost`: it is lost.
    """

    address: str
    model: str
    shown_as: Presence = "listed"


@dataclass(frozen=True, slots=True)
class JobHostUsage:
    """What the control group of a job or pod has used of its host, page cache included; None where unknown."""

    cpu_seconds: Value = None
    memory_peak_bytes: Value = None
    memory_limit_bytes: Value = None
