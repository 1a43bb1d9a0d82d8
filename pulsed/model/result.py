"""What compute finds out about one GPU of a tick, and what it reports: the input of every output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from pulsed.model.clocks import Unix
from pulsed.model.counters import NOTHING_COUNTED, CounterSnapshot
from pulsed.model.gpu import Device
from pulsed.model.health import NOT_EVALUATED, Health, State
from pulsed.model.interval import Interval, between
from pulsed.model.vocabulary import UNKNOWN, Value


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
            known, or nothing that is missing can be nearer its limit. Missing are the resources that this device has
            and that are not known; the upper bound follows from the physics of `compute.activity`.
        limiting_resource: the name of the largest, the first of `RESOURCES` if several are equal; `none` when nothing
            can be above 0, `unknown` when there is no ratio, or it is 0 and what is missing may be more.
        resources: one per `RESOURCES`: activity over practical peak.
        compute: the largest known pipe.
        memory: device memory.
        tensor_clock_hertz: the SM clock of the data sheet's tensor peak; None if the product's is not known.
    """

    ratio: Interval
    limiting_resource: str
    resources: tuple[Value, ...]
    compute: Value
    memory: Value
    tensor_clock_hertz: Value = None


class RealUtilization(NamedTuple):
    """How much of a GPU does real work.

    Attributes:
        ratio: 0..1; missing are the canonical names of inputs that have a weight.
        coverage: share of the weights whose input is present, 0..1.
    """

    ratio: Interval
    coverage: float


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
class ShownClass:
    """What kind of work a GPU does, flickers left out.

    Attributes:
        workload_class: one of the twelve classes, or `unknown`.
        bottleneck: of the newest sample of this class.
        since: when the first sample of the run was taken that made it the class, in Unix seconds; None before any.
        changes: how often the class has changed so far.
        used: whether any engine works, as of the newest sample of this class; None if that is open.
    """

    workload_class: str
    bottleneck: str
    since: Unix | None
    changes: int = 0
    used: bool | None = None


NO_SHOWN_CLASS = ShownClass(UNKNOWN, UNKNOWN, None)
"""Before the first sample."""


class Result(NamedTuple):
    """What follows from one reading, and from those before it.

    Attributes:
        real_utilization: of this tick alone, as is `workload`.
        workload: with the raw class.
        saturation: how close it is to a limit, of this tick alone too.
        shown_class: the class with flickers left out.
        counters: up to and including this tick.
        health: of the GPU; a MIG instance has its board's.
        clock_event_shares: by reason, the share of the last minute in which the clocks were held for it.
        mig_unpartitioned: of a board with MIG instances, the share of its compute slices that none of them has, 0..1.
        rollup_bounds: bounds of the inputs of a board, narrowed by its MIG instances; None: the reading's own bounds.
        idle_kind: of `IDLE_KINDS`: what its time is while it is not used, by its owners and memory; None before any
            sample.
        errors: memory errors by kind, `corrected` and `uncorrected`; a fall counts once a second sample confirms it.
        health_seconds: by state of its health, how long it was in it so far; time that no sample covers is unknown.
    """

    real_utilization: RealUtilization
    workload: Workload
    saturation: Saturation
    shown_class: ShownClass = NO_SHOWN_CLASS
    counters: CounterSnapshot = NOTHING_COUNTED
    health: Health = NOT_EVALUATED
    clock_event_shares: tuple[tuple[str, float], ...] = ()
    mig_unpartitioned: float | None = None
    rollup_bounds: Bounds | None = None
    idle_kind: str | None = None
    errors: tuple[tuple[str, float], ...] = ()
    health_seconds: tuple[tuple[State, float], ...] = ()

    @property
    def use(self) -> Use:
        """Whether the GPU is used and, if not, whether an owner or memory in use holds it; flickers left out.

        While its newest sample works, an idle GPU is not held: it may be about to be used.
        """
        if self.shown_class.used is None:
            return "unknown"
        if self.shown_class.used:
            return "busy"
        if self.workload.used:
            return "idle"
        return "held" if self.idle_kind == "held" else "free" if self.idle_kind == "free" else "idle"


NOT_COMPUTED = Result(
    RealUtilization(between(0.0, 1.0), 0.0),
    Workload(UNKNOWN, UNKNOWN),
    Saturation(between(0.0, 1.0), UNKNOWN, (), None, None),
)
"""Of a row that compute has not filled."""


class ClassChange(NamedTuple):
    """A shown class gave way to another one.

    Attributes:
        before: the class that it had.
        after: the class that it has.
        time: since when, in Unix seconds: the first sample of the new class, which may be some ticks ago.
        bottleneck: of the new class.
    """

    device: Device
    before: str
    after: str
    time: Unix
    bottleneck: str = UNKNOWN


RemovalReason = Literal["moved", "expired", "forgotten"]

_REASONS: Mapping[RemovalReason, str] = {
    "moved": "another target reports it",
    "expired": "it was absent for health.forget_after",
    "forgotten": "it was forgotten by request",
}


class Removal(NamedTuple):
    """An absent GPU that is not expected any more; all of its state is dropped.

    Attributes:
        device: the GPU, as last seen.
        last_seen: when it was in a tick last, in Unix seconds; 0 if it was in none before.
        reason: `moved`: another target reports it; `expired`: it was absent for too long; `forgotten`: by request.
        time: in Unix seconds.
    """

    device: Device
    last_seen: Unix
    reason: RemovalReason
    time: Unix

    @property
    def message(self) -> str:
        """The reason as a sentence."""
        return f"The GPU is no longer expected: {_REASONS[self.reason]}"
