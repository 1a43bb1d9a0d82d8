"""The few kinds of rules that checks are made of, as data.

Every rule turns readings into one number, its measure, and compares that with thresholds, one per state that it can
raise. What differs is how the measure comes about; what happens then (how long before it is raised, and how long it is
kept) is the same for all. Knows no readings of any GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from pulsed.compute.health.model import State

Levels = tuple[tuple[State, float], ...]
"""Thresholds by state, the mildest first."""

Sign = Literal["==", "<", ">", "absent"]

ACTIVITY = "gpu_activity_ratio"
"""How busy the GPU is: the larger of graphics engine activity and GPU utilization."""


@dataclass(frozen=True, slots=True)
class When:
    """A condition under which a rule counts at all.

    Without its reading the rule is unknown, and if it is false no level is reached. With `absent` it is the other way
    round: the rule is unknown while the reading is there.
    """

    quantity: str
    sign: Sign
    value: float

    def __str__(self) -> str:
        return f"{self.quantity} {self.sign} {self.value:g}" if self.sign != "absent" else f"no {self.quantity}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What all kinds have.

    Attributes:
        name: of the measure, with its unit; the name in evidence and of its thresholds in the configuration.
        inputs: names of the readings that it needs: all of them, or one if the kind says so.
        levels: from which measure on, both ends included, which state.
        below: whether small measures are the bad ones.
        when: conditions.
        enter: seconds for which a level must be reached without a break before it is raised.
        hold: seconds for which a raised state is kept at least.
        release: seconds for which a raised state must not be reached before it is left.
        clear: how far the measure must come back behind the threshold to leave it: in its own unit, or, where
            `clear_share` is set, as a share of the threshold.
        clear_share: what `clear` is in.
    """

    kind: ClassVar[str]

    name: str
    inputs: tuple[str, ...]
    levels: Levels
    below: bool = False
    when: tuple[When, ...] = ()
    enter: float = 0.0
    hold: float = 0.0
    release: float = 0.0
    clear: float = 0.0
    clear_share: bool = False

    @property
    def states(self) -> tuple[State, ...]:
        """The states that it can raise, the mildest first."""
        return tuple(state for state, _ in self.levels)

    @property
    def sign(self) -> float:
        """By what the measure is multiplied so that large is bad."""
        return -1.0 if self.below else 1.0

    @property
    def uses(self) -> tuple[str, ...]:
        """Everything that its measure depends on."""
        return (*self.inputs, *(when.quantity for when in self.when))


@dataclass(frozen=True, slots=True, kw_only=True)
class Level(Rule):
    """The measure is the sum of the inputs; all must be there.

    Attributes:
        data_centre: it counts only for data-centre GPUs.
    """

    kind = "level"

    data_centre: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Codes(Rule):
    """The input is a code that stands for a state.

    Attributes:
        codes: by code, which state.
        beyond: state of codes above all that are named here or in `good`; these are newer than the table.
        good: codes that mean that all is well.
    """

    kind = "level"

    codes: tuple[tuple[int, State], ...]
    beyond: State | None = None
    good: tuple[int, ...] = (0,)

    @property
    def states(self) -> tuple[State, ...]:
        """The states that it can raise, in no order."""
        found = [state for _, state in self.codes] + ([self.beyond] if self.beyond else [])
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask(Rule):
    """The input is a bit mask of small numbers; the measure is how many of them report a fault.

    Attributes:
        faults: shift, number of bits, smallest and largest value that is a fault.
    """

    kind = "level"

    faults: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Rule):
    """The measure is the first input less the second one, or as a share of it.

    Attributes:
        share: the measure is first over second.
        apart: the measure is how far they are apart, whichever is larger.
        fallback: attribute of `limits.Limits` to take where the second input is missing.
    """

    kind = "comparison"

    share: bool = False
    apart: bool = False
    fallback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth(Rule):
    """The measure is how much a counter grew within a window; of several inputs the first that is there counts.

    Attributes:
        window: seconds.
        per: growth is told per so many seconds; the growth within the window where 0.
        lifetime: the counter never falls in the life of a board: growth is what passes its highest value.
        pcie_limit: growth is told in multiples of what PCIe's specified bit error rate explains for this link.
    """

    window: float
    per: float = 0.0
    lifetime: bool = False
    pcie_limit: bool = False

    @property
    def kind(self) -> str:  # type: ignore[override]
        """A rate if it is told per time, else a step."""
        return "rate" if self.per else "step"

    @property
    def uses(self) -> tuple[str, ...]:
        """Everything that its measure depends on."""
        link = ("pcie_link_generation_max", "pcie_link_width", "pcie_link_width_max") if self.pcie_limit else ()
        return (*self.inputs, *link, *(when.quantity for when in self.when))


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty(Rule):
    """The measure is the share of the window in which the clocks were held for a reason.

    The inputs are counters of seconds; the first that is there counts. Without any, or with none that can be believed,
    the samples whose bit mask `clocks_event_reasons` has one of the bits do.

    Attributes:
        bits: of `clocks_event_reasons`.
        window: seconds.
        uncertain: whether the counters may be in microseconds where the documentation says nanoseconds. They are
            believed once they have grown faster than microseconds can.
    """

    kind = "duty"

    bits: int
    window: float
    uncertain: bool = False

    @property
    def states(self) -> tuple[State, ...]:
        """The states that it can raise, the mildest first."""
        told: tuple[State, ...] = ("info",) if self.uncertain else ()
        return (*told, *(state for state, _ in self.levels))

    @property
    def uses(self) -> tuple[str, ...]:
        """Everything that its measure depends on."""
        return (*self.inputs, "clocks_event_reasons")


@dataclass(frozen=True, slots=True, kw_only=True)
class Events(Rule):
    """XIDs. The measure is the code that decides.

    Attributes:
        choose: which of the codes count: `critical` and `warning` by the catalogue, `repeated` ones, or one code.
        keep: seconds for which an event of a state counts.
    """

    kind = "event code"

    choose: Literal["critical", "warning", "repeated"] | int
    keep: Mapping[State, float]

    @property
    def states(self) -> tuple[State, ...]:
        """The states that it can raise, the mildest first."""
        return tuple(self.keep)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watches(Rule):
    """DCGM's own health watches. The measure is the worst result of those whose part we cannot judge ourselves.

    Attributes:
        ours: by watch, the checks that judge the same part; a watch counts where none of them has its inputs.
        mild: watches whose warnings are noise and only told.
    """

    kind = "level"

    ours: Mapping[str, tuple[str, ...]]
    mild: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check of a GPU.

    Attributes:
        id: its name in metrics, in JSON and in the configuration.
        title: what is wrong when it is raised.
        rule: when it is raised, in words.
        rules: the worst of them is the state; known as soon as one of them is.
        remedy: what to do. `{...}` stand for evidence.
        source: where the thresholds come from.
        guest: whether it makes sense in a vGPU guest, which sees a share of a board.
        unless: it does not apply to a GPU that gives one of these instead of its own inputs: another generation.
        superseded_by: it is not judged at all while this reading is there.
        optional: it applies only where its inputs are there.
    """

    id: str
    title: str
    rule: str
    rules: tuple[Rule, ...]
    remedy: str
    source: str
    guest: bool = False
    unless: tuple[str, ...] = ()
    superseded_by: str = ""
    optional: bool = False

    @property
    def states(self) -> tuple[State, ...]:
        """The states that it can raise."""
        return tuple(dict.fromkeys(state for rule in self.rules for state in rule.states))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The readings that decide."""
        return tuple(dict.fromkeys(name for rule in self.rules for name in rule.uses))

    @property
    def enter(self) -> float:
        """The longest time before it is raised, in seconds."""
        return max(rule.enter for rule in self.rules)
