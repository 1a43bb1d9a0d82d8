"""The output of Translate: a tick in the canonical vocabulary, made from a raw one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pulsed.model.gpu import Device
from pulsed.model.host import CpuReading
from pulsed.model.owner import Owners, OwnerUses
from pulsed.model.raw_tick import UNKNOWN_EPOCH, Epoch, KernelEvent, Layout, RawTick, RawValue
from pulsed.model.vocabulary import Reading

LinkCounters = tuple[tuple[int, tuple[tuple[str, float], ...]], ...]


class Extras(NamedTuple):
    """Values of a GPU from dcgm-exporter's own metrics, and of its NVLinks; each None if the source does not have it.

    Attributes:
        xid_counts: by XID, how many samples of the last minutes had it. A code that stays in the driver's gauge is
            counted with every sample: a number above 0 means that it was there, not how often it happened.
        xid_totals: by XID, how often it happened since the exporter was started (dcgm-exporter 4.8.3 and newer).
        health_watches: by watch of DCGM (`PCIE`, `MEM`, ...) and error code (`DCGM_FR_...`, empty if none is named), 0
            pass, 10 warning, 20 failure.
        clock_events: by reason (`hw_thermal`, ...), how many samples of the last minutes had it.
        nvlink_states: by number of the NVLink, 0 not up, 1 up, 2 asleep.
        nvlink_counters: by number of the NVLink, its counters by kind: `crc_flit_errors`, `link_recoveries`, ...
    """

    xid_counts: tuple[tuple[int, float], ...] | None = None
    xid_totals: tuple[tuple[int, float], ...] | None = None
    health_watches: tuple[tuple[tuple[str, str], float], ...] | None = None
    clock_events: tuple[tuple[str, float], ...] | None = None
    nvlink_states: tuple[tuple[int, float], ...] | None = None
    nvlink_counters: LinkCounters | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick that follows from a raw one, whose attributes it has."""

    raw: RawTick

    @property
    def target(self) -> str:
        """What was read, in human-readable form."""
        return self.raw.target

    @property
    def time(self) -> float:
        """When, in Unix seconds."""
        return self.raw.time

    @property
    def clock(self) -> float:
        """When, in seconds of a clock that never steps."""
        return self.raw.clock

    @property
    def interval(self) -> float:
        """Nominal seconds between two ticks."""
        return self.raw.interval

    @property
    def layout(self) -> Layout:
        """The series of the source."""
        return self.raw.layout

    @property
    def values(self) -> Sequence[RawValue]:
        """One per series of the layout, as read."""
        return self.raw.values


@dataclass(frozen=True, slots=True)
class CanonicalTick(Tick):
    """One sample of all GPUs of a target, in the one vocabulary.

    Attributes:
        devices: the GPUs in this sample.
        anomalies: by position in `devices`, why some of its inputs count as missing or were cut to their range:
            `ratio_above_one`, ...
        extras: by position in `devices`, values of dcgm-exporter's own metrics.
        kernel_events: of the kernel log since the last tick; None where the log is not read.
        passing: by position in `devices`, owners that had it since the tick before, but in neither of both.
        uses: by position in `devices`, what each of its owners uses of it, where the source measures that.
        epoch: of the source, and of the node where all GPUs are in this one.
        lists_gpus: whether the source lists any GPU, also one that is not selected.
        pci_drivers: by PCI address, the kernel driver of the GPUs on the bus of this node, empty for none; without any
            where that is unknown.
        cpus: the processors of superchips.
    """

    devices: tuple[Device, ...]
    readings: tuple[Reading, ...]
    anomalies: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    extras: Mapping[int, Extras] = field(default_factory=dict)
    kernel_events: tuple[KernelEvent, ...] | None = None
    passing: Mapping[int, Owners] = field(default_factory=dict)
    uses: Mapping[int, OwnerUses] = field(default_factory=dict)
    epoch: Epoch = UNKNOWN_EPOCH
    lists_gpus: bool = True
    pci_drivers: Mapping[str, str] = field(default_factory=dict)
    cpus: tuple[CpuReading, ...] = ()
