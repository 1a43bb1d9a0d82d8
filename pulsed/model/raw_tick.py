"""The output of every source: a tick of values under the source's own names.

A source lists its series once, in a `Layout`, and then sends only values, position by position. As long as the set of
series stays the same, an equal `Layout`, usually the same object, comes with every tick, so that Translate compiles it
once. This module must not depend on GPUs or quantities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pulsed.model.clocks import EPOCH, Monotonic, Unix

Dialect = Literal["exporter", "dmon"]
"""The naming that a layout uses: a dcgm-exporter page (`DCGM_FI_DEV_GPU_UTIL`) or `dcgmi dmon` (`GPUTL`)."""

DECIMALS: Mapping[Dialect, int] = {"dmon": 3, "exporter": 6}
"""Decimals of fractions by dialect."""

MAX_GPUS = 1024
"""GPUs and MIG instances of one target; by default, a target with more fails."""

Labels = tuple[tuple[str, str], ...]
"""Label pairs: names and values."""

RawValue = float | str | None
"""A number, a text (dmon's string columns), or None where the source has no value."""


@dataclass(frozen=True, slots=True)
class Series:
    """One time series, named as the source names it.

    Attributes:
        name: metric name of an exporter page, short name of a dmon column, or name of a column of pulsed's CSV.
        labels: label pairs in the source's order. A dmon row has `entity` (`GPU`, `GPU-I`, `GPU-CI`, `vGPU`, ...)
            and `id` (the number behind it). A CSV row has its identity columns.
    """

    name: str
    labels: Labels = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """The series of a stream, in the order of the values.

    Attributes:
        help: HELP text by metric name, where the source has any.
        types: declared TYPE by metric name, where the source has any. An exporter's operator sets it, so it is
            used for republishing only.
        decimals: of the source's fractions, if it prints fewer than others of its dialect; otherwise None.
    """

    dialect: Dialect
    series: tuple[Series, ...]
    help: Mapping[str, str] = field(default_factory=dict, hash=False)
    types: Mapping[str, str] = field(default_factory=dict, hash=False)
    decimals: int | None = None

    @property
    def rounding(self) -> float:
        """The rounding error of a printed fraction: half of its last digit."""
        return 0.5 * 10.0 ** -(DECIMALS[self.dialect] if self.decimals is None else self.decimals)


class Epoch(NamedTuple):
    """Start markers that reveal restarts; each opaque, and empty if unknown.

    Two that are known and differ mean a start in between.

    Attributes:
        boot: of the node: another one after each start.
        driver: of the kernel driver: another one after each time that it was loaded.
        engine: of the process that keeps the last XID: the host engine.
        exporter: of the process that counts what is in `Extras`.
        booted: when the node was started, in Unix seconds; 0 if unknown.
    """

    boot: str = ""
    driver: str = ""
    engine: str = ""
    exporter: str = ""
    booted: Unix = EPOCH


UNKNOWN_EPOCH = Epoch()


def is_another(now: str, before: str) -> bool:
    """Return whether two parts of an epoch differ; an unknown one differs from none."""
    return now != before and bool(now and before)


class LinkFault(NamedTuple):
    """What the driver prints about a fault of an NVLink, of the XIDs 144 to 150.

    Attributes:
        unit: the part of the link's hardware that reports it, such as `NETIR_LINK_DOWN`.
        is_injected: whether it was injected as a test.
        link: number of the link; None if it concerns no single one.
        subcode: bits 25 to 20 of the interrupt information: of a link that is down, why; None without it.
    """

    unit: str
    is_fatal: bool
    is_injected: bool = False
    link: int | None = None
    subcode: int | None = None


class KernelEvent(NamedTuple):
    """One message of the NVIDIA driver in the kernel log.

    Attributes:
        kind: `xid` of a GPU, `sxid` of an NVSwitch, `bus_loss`: a GPU has fallen off the bus, or `not_started`: the
            driver could not start a GPU.
        code: XID or SXID number; 79 for `bus_loss`, 0 for `not_started`.
        time: when the kernel logged it, in Unix seconds.
        pci_bus_id: PCI address in DCGM's form, `00000000:3B:00.0`; empty if the message names none.
        pid: process id that the driver names; None if it names none.
        process: process name that the driver prints; empty if it prints none.
        is_fatal: of an SXID, as the driver classifies it; None where it does not.
        text: the message from its code on, without control characters.
        fault: of an XID about an NVLink.
        cause: the XID that it is caused by, as the driver states it.
        action: of XID 154, the recovery action that the driver requests from now on, as NVML numbers them; 0 none.
        place: of XIDs 13 and 31, where on the chip: `GPC 3, TPC 5, SM 1`; empty if the message names none.
    """

    kind: Literal["xid", "sxid", "bus_loss", "not_started"]
    code: int
    time: Unix
    pci_bus_id: str
    pid: int | None = None
    process: str = ""
    is_fatal: bool | None = None
    text: str = ""
    fault: LinkFault | None = None
    cause: int | None = None
    action: int | None = None
    place: str = ""


class GpuProcess(NamedTuple):
    """A process that uses a GPU, as the driver lists it.

    Attributes:
        pid: in the process namespace of the driver, which in containers is most often the host's.
        gpu: index of the GPU.
        uuid: of the GPU.
        mig_id: of the MIG instance; empty for a whole GPU.
        memory_bytes: memory of the GPU that it uses; None where the driver does not account for it.
        sm_utilization_ratio: share of time in which its kernels ran, in the driver's last sampling period; None where
            the driver has none, also of an idle process.
        mean_utilization_ratio: the same since its start, in accounting mode.
        peak_memory_bytes: most memory since its start, in accounting mode.
    """

    pid: int
    gpu: str
    uuid: str
    mig_id: str = ""
    memory_bytes: int | None = None
    sm_utilization_ratio: float | None = None
    mean_utilization_ratio: float | None = None
    peak_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RawTick:
    """One sample of everything that a target reports.

    Attributes:
        target: its source in human-readable form: a URL, a path, `demo`.
        time: when, in Unix seconds (wall clock).
        clock: when, in seconds of a clock that never steps; only differences mean something.
        interval: nominal seconds between two ticks of this source.
        layout: what the values are.
        values: one per series of the layout; None where this tick has no value. They do not change later.
        rejected: rows that could not be read in this tick, counted by reason.
        read_seconds: CPU-bound time that pulsed spent parsing its text, without waiting; 0 where there is no text.
        processes: on all GPUs; None where the source does not list them.
        lost: UUIDs of the GPUs that the driver reports as lost.
        epoch: as far as the source delivers it.
        target_labels: of the target in the configuration.
    """

    target: str
    time: Unix
    clock: Monotonic
    interval: float
    layout: Layout
    values: Sequence[RawValue]
    rejected: Mapping[str, int] = field(default_factory=dict)
    read_seconds: float = 0.0
    processes: tuple[GpuProcess, ...] | None = None
    lost: frozenset[str] = frozenset()
    epoch: Epoch = UNKNOWN_EPOCH
    target_labels: Labels = ()
