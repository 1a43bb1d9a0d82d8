"""A tick: the rows of all GPUs of a target at one moment. Each layer fills its part of a row; none keeps positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pulsed.model.clocks import START, Monotonic, Unix
from pulsed.model.gpu import Device, GpuKey, Presence, key_of
from pulsed.model.health import HealthChange, XidEvent
from pulsed.model.host import CpuReading, HostFacts
from pulsed.model.owner import UNKNOWN_OWNERS, Owners, Ownership
from pulsed.model.raw_tick import UNKNOWN_EPOCH, Epoch, KernelEvent, Layout, RawTick, RawValue
from pulsed.model.result import NOT_COMPUTED, ClassChange, Removal, Result
from pulsed.model.vocabulary import NOTHING, Reading

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


@dataclass(slots=True)
class GpuRow:
    """One GPU, MIG instance or vGPU of a target, in one tick.

    Attributes:
        device: its identity.
        reading: of translate; compute removes implausible inputs. `NOTHING` while it is not listed.
        anomalies: why some of its inputs count as missing or were cut to their range: `ratio_above_one`, ...
        extras: values of dcgm-exporter's own metrics.
        ownership: who has it.
        presence: whether it is listed.
        has_moved: whether the source's values differ from the previous sample; set by compute.
        is_split: of compute: whether it is a board with MIG instances, which stand for it where GPUs are counted.
        time: when it was listed last, in Unix seconds.
        result: of compute; before it, nothing is known.
    """

    device: Device
    reading: Reading = field(repr=False)
    time: Unix
    anomalies: tuple[str, ...] = ()
    extras: Extras | None = None
    ownership: Ownership = UNKNOWN_OWNERS
    presence: Presence = "listed"
    has_moved: bool = False
    is_split: bool = False
    result: Result = field(default=NOT_COMPUTED, repr=False)

    @property
    def owners(self) -> Owners | None:
        """Its owners; empty if it is free, None if that is unknown."""
        return self.ownership.owners

    @property
    def is_listed(self) -> bool:
        """Whether the source lists it."""
        return self.presence == "listed"


@dataclass(slots=True)
class Tick:
    """One sample of all GPUs of a target.

    Attributes:
        gpus: a row each: those that the source lists, then those that last without it.
        kernel_events: of the kernel log since the last tick; None where the log is not read.
        epoch: of the source, and of the node where all GPUs are in this one.
        lists_gpus: whether the source lists any GPU, also one that is not selected.
        host: the last look at the host, where all GPUs are in this one.
        cpus: the processors of superchips.
        unknown_fields: unknown names on the page that begin like DCGM's names.
        now: seconds of the clock of the ticks. It never decreases, whatever the wall clock and the source's clock do,
            and is the same for all targets that are read on one host: durations follow it.
        duplicates: by name of another target, how many of its GPUs that one has.
        alternating_hosts: hosts that its pages name in turns, as behind a balanced address; empty for none.
        changes: of held classes that this sample brought.
        health_changes: of checks and of whole GPUs that this sample brought.
        removed: GPUs that were missing and are not expected any more.
        xids: that happened since the sample before.
    """

    raw: RawTick
    gpus: list[GpuRow]
    kernel_events: tuple[KernelEvent, ...] | None = None
    epoch: Epoch = UNKNOWN_EPOCH
    lists_gpus: bool = True
    host: HostFacts | None = None
    cpus: tuple[CpuReading, ...] = ()
    unknown_fields: tuple[str, ...] = ()
    now: Monotonic = START
    duplicates: Mapping[str, int] = field(default_factory=dict)
    alternating_hosts: tuple[str, ...] = ()
    changes: tuple[ClassChange, ...] = ()
    health_changes: tuple[HealthChange, ...] = ()
    removed: tuple[Removal, ...] = ()
    xids: tuple[XidEvent, ...] = ()

    @property
    def target(self) -> str:
        """The target, in human-readable form."""
        return self.raw.target

    @property
    def time(self) -> Unix:
        """When, in Unix seconds."""
        return self.raw.time

    @property
    def clock(self) -> Monotonic:
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

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices of its rows; the same device is equal in every tick."""
        return tuple([row.device for row in self.gpus])


def lasting(device: Device, time: Unix, presence: Presence, ownership: Ownership = UNKNOWN_OWNERS) -> GpuRow:
    """Return the row of a GPU that is not listed, and was last at a time."""
    return GpuRow(device, NOTHING, time, ownership=ownership, presence=presence)


def shown_rows(ticks: Iterable[Tick], here: str) -> Iterator[tuple[GpuKey, GpuRow]]:
    """Yield the rows of several targets, each GPU once; `here` is the node of GPUs whose source does not name one.

    A target that is late still shows what another one has taken over; and a source may not distinguish two devices.
    """
    seen: set[GpuKey] = set()
    for tick in ticks:
        for row in tick.gpus:
            key = key_of(row.device, here)
            if key not in seen:
                seen.add(key)
                yield key, row
