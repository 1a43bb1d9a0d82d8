"""The output of compute: one tick with the results of every GPU; and one GPU of a tick, the input of every output."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

from pulsed.model.canonical_tick import Tick
from pulsed.model.counters import NOTHING_COUNTED, CounterSnapshot
from pulsed.model.gpu import Device, key_of, repeated
from pulsed.model.health import NOT_EVALUATED, Health, HealthChange, XidEvent
from pulsed.model.host import CpuReading
from pulsed.model.owner import Owners, OwnerUses
from pulsed.model.vocabulary import UNKNOWN, Reading, Value


class Inputs(NamedTuple):
    """One value per activity input of the formula and of the class table, 0..1."""

    sm: float
    tensor: float
    dram: float
    graphics_engine: float
    fp64: float


class Bounds(NamedTuple):
    """The lowest and the highest that each input can be, `low <= high` input by input.

    When all inputs are present both are the same object.
    """

    low: Inputs
    high: Inputs


class Saturation(NamedTuple):
    """How close a GPU is to its limits, all in 0..1; None where not known.

    Attributes:
        ratio: the largest of the known `resources`, when that means something: at least memory and one compute pipe are
            known, or nothing that is missing can be nearer its limit.
        lower: no lower than this, whatever is missing; never None.
        upper: no higher than this, by the physics of `compute.activity`; never None.
        limiting_resource: the name of the largest, the first of `RESOURCES` if several are equal; `none` when nothing
            can be above 0, `unknown` when there is no ratio, or it is 0 and what is missing may be more.
        resources: one per `RESOURCES`: activity over practical peak.
        compute: the largest known pipe.
        memory: device memory.
        missing: the resources that this device has and that are not known.
        tensor_clock_hertz: the SM clock of the data sheet's tensor peak; None if the product's is not known.
    """

    ratio: Value
    lower: float
    upper: float
    limiting_resource: str
    resources: tuple[Value, ...]
    compute: Value
    memory: Value
    missing: tuple[str, ...]
    tensor_clock_hertz: Value = None


class RealUtilization(NamedTuple):
    """How much of a GPU does real work.

    Attributes:
        ratio: 0..1; None when too few inputs are present to name a number.
        lower: no lower than this, whatever the missing inputs are, 0..1.
        upper: no higher than this, 0..1.
        coverage: share of the weights whose input is present, 0..1.
        missing: canonical names of the weighted inputs that are missing.
    """

    ratio: float | None
    lower: float
    upper: float
    coverage: float
    missing: tuple[str, ...]


Use = Literal["unknown", "busy", "held", "free", "idle"]
"""Whether a GPU is used: `unknown` if that is open, `idle` if only whether it is held is not known."""

USES: tuple[Use, ...] = get_args(Use)


@dataclass(frozen=True, slots=True)
class Workload:
    """What kind of work a GPU does.

    Attributes:
        raw_class: one of the twelve classes, or `unknown`: the class of this tick alone.
        bottleneck: what limits it: `idle`, `compute`, `io`, `memory`, `mixed`, or `unknown`.
        candidates: the classes that it could be, in the order of the rules, when it is unknown; otherwise empty.
        has_other_work: whether an engine works that no rule of the class table considers, such as NVLink; None if a
            MIG instance may be the one whose media engines work.
    """

    raw_class: str
    bottleneck: str
    candidates: tuple[str, ...] = ()
    has_other_work: bool | None = False

    @property
    def used(self) -> bool | None:
        """Whether any engine of the GPU works; None if the inputs allow both.

        All that depends on whether a GPU is used takes it from here: idle time and energy, accounts, advice, findings.
        """
        if self.has_other_work:
            return True
        if "idle" not in (self.raw_class, *self.candidates):
            return True
        return None if self.candidates or self.has_other_work is None else False


@dataclass(frozen=True, slots=True)
class HeldWorkload:
    """What kind of work a GPU does, flickers left out.

    Attributes:
        workload_class: one of the twelve classes, or `unknown`.
        bottleneck: that of the newest sample of this class.
        since: when the first sample of the run was taken that made it the class, in Unix seconds; None before any.
        changes: how often the class has changed so far.
        used: whether any engine works, as of the newest sample of this class; None if that is open.
    """

    workload_class: str
    bottleneck: str
    since: float | None
    changes: int = 0
    used: bool | None = None


NOT_HELD = HeldWorkload(UNKNOWN, UNKNOWN, None)
"""Before the first sample."""


class Result(NamedTuple):
    """What follows from one reading, and from those before it.

    Attributes:
        real_utilization: of this tick alone, as is `workload`.
        workload: with the raw class.
        saturation: how close it is to a limit, of this tick alone too.
        held: the class with flickers left out.
        counters: what was counted up to and with this tick.
        health: of the GPU; a MIG instance has its board's.
        clock_event_shares: by reason, the share of the last minute in which the clocks were held for it.
        mig_unpartitioned: of a board with MIG instances, the share of its compute slices that none of them has, 0..1.
        rollup_bounds: bounds of the inputs of a board that its MIG instances narrow; None: those of the reading alone.
        idle_kind: of `IDLE_KINDS`: what its time is while it is not used, by its owners and memory; None before any
            sample.
    """

    real_utilization: RealUtilization
    workload: Workload
    saturation: Saturation
    held: HeldWorkload = NOT_HELD
    counters: CounterSnapshot = NOTHING_COUNTED
    health: Health = NOT_EVALUATED
    clock_event_shares: tuple[tuple[str, float], ...] = ()
    mig_unpartitioned: float | None = None
    rollup_bounds: Bounds | None = None
    idle_kind: str | None = None

    @property
    def use(self) -> Use:
        """Whether the GPU is used and, if not, whether an owner or memory in use holds it; flickers left out."""
        if self.held.used is None:
            return "unknown"
        if self.held.used:
            return "busy"
        return "held" if self.idle_kind == "held" else "free" if self.idle_kind == "free" else "idle"


class ClassChange(NamedTuple):
    """A held class gave way to another one.

    Attributes:
        position: which device of the tick.
        before: the class that it had.
        after: the class that it has.
        time: since when, in Unix seconds: the first sample of the new class, which may be some ticks ago.
    """

    position: int
    before: str
    after: str
    time: float


RemovalReason = Literal["replaced", "moved", "expired", "forgotten"]

_REASONS: Mapping[RemovalReason, str] = {
    "replaced": "another board has replaced it",
    "moved": "another target reports it",
    "expired": "it was absent for health.forget_after",
    "forgotten": "it was forgotten by request",
}


class Removal(NamedTuple):
    """An absent GPU that is not expected any more; all of its state is dropped.

    Attributes:
        device: the GPU, as last seen.
        last_seen: when it was in a tick last, in Unix seconds; 0 if it was in none before.
        reason: `replaced`: a new board is in its slot, or came when its node was restarted; `moved`: another target
            reports it; `expired`: it was absent for too long; `forgotten`: by request.
        time: in Unix seconds.
        replacement: the new board, if it was replaced.
    """

    device: Device
    last_seen: float
    reason: RemovalReason
    time: float
    replacement: Device | None = None

    @property
    def message(self) -> str:
        """The reason as a sentence."""
        board = f": {self.replacement.entity.uuid}" if self.replacement is not None else ""
        return f"The GPU is no longer expected: {_REASONS[self.reason]}{board}"


@dataclass(frozen=True, slots=True)
class ComputedTick(Tick):
    """One sample of all GPUs of a target, with all results: everything that outputs need.

    Attributes:
        devices: the GPUs of the sample, then the missing ones: lost, or no longer listed by the source.
        readings: one per device, without implausible inputs; all None for a missing GPU.
        results: one per device.
        anomalies: by position in `devices`, why some of its inputs count as missing or were cut to their range.
        passing: by position in `devices`, owners that had it since the tick before, but in neither of both.
        uses: by position in `devices`, what each of its owners uses of it, where the source measures that.
        changes: of held classes that this sample brought.
        missing: by position in `devices`, when a missing GPU was seen last, in Unix seconds.
        health_changes: of checks and of whole GPUs that this sample brought.
        removed: GPUs that were missing and are not expected any more.
        xids: that happened since the sample before.
        now: seconds of the clock of the ticks. It never decreases, whatever the wall clock and the source's clock do,
            and is the same for all targets that are read on one host: durations follow it.
        standby: positions in `devices` of GPUs whose counters follow another target, which shows them, too.
        cpus: the processors of superchips.
    """

    devices: tuple[Device, ...]
    readings: tuple[Reading, ...]
    results: tuple[Result, ...]
    anomalies: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    passing: Mapping[int, Owners] = field(default_factory=dict)
    uses: Mapping[int, OwnerUses] = field(default_factory=dict)
    changes: tuple[ClassChange, ...] = ()
    missing: Mapping[int, float] = field(default_factory=dict)
    health_changes: tuple[HealthChange, ...] = ()
    removed: tuple[Removal, ...] = ()
    xids: tuple[XidEvent, ...] = ()
    now: float = 0.0
    standby: frozenset[int] = frozenset()
    cpus: tuple[CpuReading, ...] = ()


class GpuSample(NamedTuple):
    """The data of one GPU in one tick."""

    device: Device
    reading: Reading
    result: Result
    anomalies: tuple[str, ...]
    time: float


def gpu_samples(tick: ComputedTick) -> list[GpuSample]:
    """Return the samples of all devices of a tick."""
    missing, anomalies, time = tick.missing, tick.anomalies, tick.raw.time
    return [
        GpuSample(device, reading, result, anomalies.get(position, ()), missing.get(position, time))
        for position, (device, reading, result) in enumerate(
            zip(tick.devices, tick.readings, tick.results, strict=True)
        )
    ]


def without_duplicates(ticks: Iterable[ComputedTick], here: str) -> list[ComputedTick]:
    """Return the ticks of several targets without the GPUs that an earlier tick, or the same one, already has.

    Args:
        here: node of GPUs whose source does not name one.
    """
    all_ticks = list(ticks)
    hidden = repeated([key_of(device, here) for device in tick.devices] for tick in all_ticks)
    return [_without(tick, positions) if positions else tick for tick, positions in zip(all_ticks, hidden, strict=True)]


def _without(tick: ComputedTick, positions: Container[int]) -> ComputedTick:
    """Return the tick without the GPUs at some positions, for outputs that show the state of GPUs."""
    kept = [position for position in range(len(tick.devices)) if position not in positions]
    places = {old: new for new, old in enumerate(kept)}
    return replace(
        tick,
        devices=tuple([tick.devices[position] for position in kept]),
        readings=tuple([tick.readings[position] for position in kept]),
        results=tuple([tick.results[position] for position in kept]),
        anomalies={places[old]: reasons for old, reasons in tick.anomalies.items() if old in places},
        missing={places[old]: time for old, time in tick.missing.items() if old in places},
    )
