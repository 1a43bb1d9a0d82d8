"""The output of Translate: a tick in the canonical vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pulsed.model.owner import Owners
from pulsed.model.raw_tick import KernelEvent, Layout, RawValue
from pulsed.model.vocabulary import Reading

EntityKind = Literal["gpu", "mig", "vgpu"]


@dataclass(frozen=True, slots=True)
class Entity:
    """The GPU, MIG instance or vGPU of a reading. Readings of the same device have equal entities.

    Attributes:
        kind: a whole GPU (also a board that is split, and what a vGPU guest sees), a MIG instance of one, or a vGPU as
            its host sees it.
        gpu: the index that the source gives the GPU; empty when unknown (a dmon row of a MIG instance).
        uuid: the UUID of the GPU, also for a MIG instance of it; empty when unknown.
        mig_id: number of the MIG instance, or of the vGPU, on its board; empty for a whole GPU.
        mig_profile: such as `1g.10gb`; empty for a whole GPU or when unknown.
        node: the host that the GPU is in.
    """

    kind: EntityKind
    gpu: str
    uuid: str = ""
    mig_id: str = ""
    mig_profile: str = ""
    node: str = ""

    @property
    def board(self) -> tuple[str, str]:
        """The key of the GPU, also of a MIG instance of it: its node, and its UUID or else its index."""
        return (self.node, self.uuid or self.gpu)

    @property
    def name(self) -> str:
        """The name in the API, as in `3` or `3:7`: its index or else its UUID, then the MIG id."""
        gpu = self.gpu or self.uuid
        return f"{gpu}:{self.mig_id}" if self.mig_id else gpu


@dataclass(frozen=True, slots=True)
class Device:
    """An entity with its properties besides numbers. The same object as long as none of them changes.

    Attributes:
        model: product name, such as `NVIDIA H100 80GB HBM3`; empty when unknown, like the other texts.
        pci_bus_id: PCI address in the form `00000000:1B:00.0`.
        driver_version: kernel driver, such as `535.129.03`.
        device: the device file's name, such as `nvidia0`.
        mig_uuid: UUID of the MIG instance itself.
        guest: true inside a virtual machine that sees a share of a board (a vGPU guest).
        owners: who has it, of a board also the owners of its instances; empty if it is free, None if that is unknown.
    """

    entity: Entity
    model: str = ""
    pci_bus_id: str = ""
    driver_version: str = ""
    device: str = ""
    mig_uuid: str = ""
    guest: bool = False
    owners: Owners | None = None

    @property
    def whole(self) -> bool:
        """Whether this is a whole physical GPU: below one, PCIe and C2C traffic do not exist (not: is not measured)."""
        return self.entity.kind == "gpu" and not self.guest


class Extras(NamedTuple):
    """Values of a GPU from dcgm-exporter's own metrics; each None if it is not on the page.

    Attributes:
        xid_counts: by XID, how many samples of the last minutes had it. A code that stays in the driver's gauge is
            counted with every sample: a number above 0 means that it was there, not how often it happened.
        xid_totals: by XID, how often it happened since the exporter was started (dcgm-exporter 4.8.3 and newer).
        health_watches: by watch of DCGM (`PCIE`, `MEM`, ...), 0 pass, 10 warning, 20 failure.
        clock_events: by reason (`hw_thermal`, ...), how many samples of the last minutes had it.
    """

    xid_counts: tuple[tuple[int, float], ...] | None = None
    xid_totals: tuple[tuple[int, float], ...] | None = None
    health_watches: tuple[tuple[str, float], ...] | None = None
    clock_events: tuple[tuple[str, float], ...] | None = None


@dataclass(frozen=True, slots=True)
class CanonicalTick:
    """One sample of all GPUs of a target, in the one vocabulary.

    Attributes:
        time: when, in Unix seconds.
        clock: when, in seconds of a clock that never steps.
        devices: the GPUs in this sample; the same tuple as long as nothing changes.
        anomalies: by position in `devices`, why some of its inputs count as missing or were cut to their range:
            `ratio_above_one`, ...
        values: one per series of the layout, as read.
        rejected: rows that could not be read in this tick, counted by reason.
        extras: by position in `devices`, values of dcgm-exporter's own metrics.
        kernel_events: of the kernel log since the last tick; None where the log is not read.
        passing: by position in `devices`, owners that had it since the tick before, but in neither of both.
    """

    target: str
    time: float
    clock: float
    interval: float
    devices: tuple[Device, ...]
    readings: tuple[Reading, ...]
    layout: Layout
    values: Sequence[RawValue]
    rejected: Mapping[str, int] = field(default_factory=dict)
    anomalies: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    extras: Mapping[int, Extras] = field(default_factory=dict)
    kernel_events: tuple[KernelEvent, ...] | None = None
    passing: Mapping[int, Owners] = field(default_factory=dict)
