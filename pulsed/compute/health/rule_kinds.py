"""The kinds of rules, with their measures: levels of the inputs of one sample, increases of counters, and shares of
time with reduced clocks. Rules about XIDs are in `xid_rule`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

from pulsed.compute.health.device_counters import MICROSECONDS, CounterIncrease, DutyCounter
from pulsed.compute.health.inputs import INPUT_POSITION, GpuInputs, link_counts, links_text
from pulsed.compute.health.rule import MINUTE, Rule, RuleState, When, duration
from pulsed.compute.products import is_data_centre, limits_of
from pulsed.model.health import SEVERITY, State
from pulsed.model.vocabulary import Value

# Replays per minute and lane that a bit error rate of 1e-12 explains, by generation (DCGM's PCIe watch). 4 and newer
# would do with less, as links correct more; DCGM scales them all alike.
_REPLAYS_PER_LANE: Mapping[int, float] = {1: 0.15, 2: 0.3, 3: 0.48, 4: 0.96, 5: 1.92, 6: 3.84}
NEWER_CODE = "look it up in the documentation of the driver and apply it"
"""What to do for a code that is newer than the table."""

_UNKNOWN_LINK = (5, 16)


@dataclass(frozen=True, kw_only=True)
class Level(Rule):
    """The measure follows from the inputs of one sample.

    Attributes:
        by: returns the measure from the inputs; the one input by default.
        fallback: attribute of `TemperatureLimits` that replaces a missing second input.
    """

    by: Callable[[Level, GpuInputs], float | None] | None = None
    fallback: str = ""

    def measure(self, state: RuleState, inputs: GpuInputs, now: float) -> float | None:
        """Return the measure; None while inputs are missing."""
        return self.by(self, inputs) if self.by else inputs.values[self.positions[0]]

    def evidence(self, state: RuleState, inputs: GpuInputs) -> tuple[tuple[str, float], ...]:
        """Return the numbers that decide; `limit_from_table` where the limit is not the device's own."""
        found = Rule.evidence(self, state, inputs)
        if self.fallback and inputs.value(self.inputs[1]) is None:
            limit = getattr(limits_of(inputs.model), self.fallback)
            if limit is not None:
                found = (*found, (self.inputs[1], limit), ("limit_from_table", 1.0))
        return found


@dataclass(frozen=True, kw_only=True)
class Codes(Level):
    """The measure is a code.

    Attributes:
        codes: by code, the state that it means; others up to the largest code are ok.
        beyond: the state of codes above all of these: they are newer than the table.
        actions: by code, what to do, as the end of a sentence.
    """

    codes: Mapping[State, tuple[int, ...]]
    beyond: State | None = None
    actions: Mapping[int, str] = field(default_factory=dict)

    def advice(self, state: RuleState, evidence: Mapping[str, float]) -> str:
        """Return what to do for the code."""
        return self.actions.get(int(evidence.get(self.name, -1)), NEWER_CODE) if self.actions else ""

    @property
    def states(self) -> tuple[State, ...]:
        """The states that it can raise."""
        beyond = (self.beyond,) if self.beyond else ()
        return tuple(dict.fromkeys((*self.codes, *beyond)))

    def grade(self, measure: float) -> tuple[int, int]:
        """Return the severity of a code, twice: it has no margin."""
        severity = next((SEVERITY[state] for state, codes in self.codes.items() if int(measure) in codes), 0)
        if self.beyond and measure > max(map(max, self.codes.values())):
            severity = SEVERITY[self.beyond]
        return severity, severity

    def _condition(self) -> str:
        states = [f"{state} at {self.text} {', '.join(map(str, codes))}" for state, codes in self.codes.items()]
        return ", ".join([*states, f"{self.beyond} at newer ones"] if self.beyond else states)


def total(rule: Level, inputs: GpuInputs) -> float | None:
    """Return the sum of the inputs."""
    found = [inputs.values[position] for position in rule.positions]
    return None if None in found else sum(filter(None, found))


def ratio(rule: Level, inputs: GpuInputs) -> float | None:
    """Return the ratio of the first input to the second."""
    first, second = rule.positions
    return _ratio(inputs.values[first], inputs.values[second])


def pcie_width_ratio(rule: Level, inputs: GpuInputs) -> float | None:
    """Return the ratio of the first input to the second; `HealthSettings.pcie_width_max` replaces the second."""
    first, second = rule.positions
    return _ratio(inputs.values[first], inputs.pcie_width_max or inputs.values[second])


def difference(rule: Level, inputs: GpuInputs) -> float | None:
    """Return the first input less the second, or less the model's limit where the second is missing."""
    first, second = rule.positions
    value, other = inputs.values[first], inputs.values[second]
    if other is None and rule.fallback:
        other = getattr(limits_of(inputs.model), rule.fallback)
    return None if value is None or other is None else value - other


def distance(rule: Level, inputs: GpuInputs) -> float | None:
    """Return the absolute difference of two inputs."""
    signed = difference(rule, inputs)
    return None if signed is None else abs(signed)


def of_data_centre(rule: Level, inputs: GpuInputs) -> float | None:
    """Return the one input, for data-centre GPUs only."""
    return inputs.values[rule.positions[0]] if is_data_centre(inputs.model) else None


def faults(fields: tuple[tuple[int, int, int, int], ...]) -> Callable[[Level, GpuInputs], float | None]:
    """Return a measure: how many fields of a bit mask report a fault.

    Args:
        fields: shift, number of bits, smallest and largest value that is a fault.
    """

    def measure(rule: Level, inputs: GpuInputs) -> float | None:
        value = inputs.values[rule.positions[0]]
        if value is None:
            return None
        return float(sum(low <= int(value) >> shift & (1 << bits) - 1 <= high for shift, bits, low, high in fields))

    return measure


PCIE_LIMIT_INPUTS = ("pcie_link_generation_max", "pcie_link_width", "pcie_link_width_max")
_GENERATION, _WIDTH, _WIDTH_MAX = (INPUT_POSITION[name] for name in PCIE_LIMIT_INPUTS)


def pcie_replay_limit(inputs: GpuInputs) -> float:
    """Return the replays per minute that are no fault at the link's best generation: an idle link runs slower."""
    generation = int(inputs.values[_GENERATION] or _UNKNOWN_LINK[0])
    width = inputs.values[_WIDTH] or inputs.values[_WIDTH_MAX] or _UNKNOWN_LINK[1]
    per_lane = _REPLAYS_PER_LANE.get(generation, _REPLAYS_PER_LANE[6])
    return float(max(1, math.ceil(per_lane * width)))


def _ratio(first: Value, second: Value) -> float | None:
    return None if first is None or not second else first / second


@dataclass(frozen=True, kw_only=True)
class Increase(Rule):
    """The measure is the increase of a counter within a window; of several inputs the first that is present counts.

    Attributes:
        window: seconds.
        per: the increase is given per so many seconds; 0 for the increase within the window, where each is an event.
        lifetime: the counter never falls in the life of a board: only values above its peak are an increase.
        limit: returns the number that the measure is divided by.
    """

    window: float
    per: float = 0.0
    lifetime: bool = False
    limit: Callable[[GpuInputs], float] | None = None

    @property
    def counts_events(self) -> bool:
        """Whether each step of the counter is an event."""
        return not self.per

    def observe(self, state: RuleState, inputs: GpuInputs, now: float) -> None:
        """Take the values of the counters."""
        is_first = True
        for place, position in enumerate(self.positions):
            value = inputs.values[position]
            if value is None:
                continue
            if state.increases is None:
                state.increases = [None] * len(self.positions)
            increase = state.increases[place]
            if increase is None:
                increase = state.increases[place] = CounterIncrease(self.window, self.lifetime)
            grown = increase.update(value, now, inputs.gap_seconds if self.per else 0.0)
            if is_first and grown and not self.per:
                state.events += max(1, int(grown))
            is_first = False

    def measure(self, state: RuleState, inputs: GpuInputs, now: float) -> float | None:
        """Return the increase; None before the second value."""
        for position, increase in zip(self.positions, state.increases or (), strict=False):
            if inputs.values[position] is None or increase is None:
                continue
            state.event_at = increase.grown
            if not increase.settled:
                return None
            measure = increase.total * self.per / self.window if self.per else increase.total
            return measure / self.limit(inputs) if self.limit else measure
        return None

    def evaluate(self, state: RuleState, inputs: GpuInputs, now: float) -> None:
        """Update the state for one GPU."""
        Rule.evaluate(self, state, inputs, now)
        state.detail = links_text(link_counts(inputs.extras, self.inputs) or ()) if state.severity > 0 else ""

    def latched_until(self, state: RuleState, now: float) -> float:
        """Return when the newest increase leaves its window, of a rule whose increases are events."""
        found = [each.ends for each in filter(None, state.increases or ())]
        return max(found, default=-inf) if self.lasts else -inf

    def resolve(self, state: RuleState, moment: float) -> None:
        """Drop increases before a reset of the GPU."""
        Rule.resolve(self, state, moment)
        if self.lasts and self.ends_with_reset:
            for increase in filter(None, state.increases or ()):
                increase.drop_before(moment)

    def _condition(self) -> str:
        return f"{Rule._condition(self)} within {duration(self.window)}"


def step(
    counter: str,
    state: State,
    text: str,
    window: float,
    *,
    lifetime: bool = False,
    ends_with_reset: bool = True,
    when: tuple[When, ...] = (),
) -> Increase:
    """Return a rule for a counter that must not increase; the state lasts for the window."""
    return Increase(
        f"{counter.removesuffix('_total')}_step",
        {state: 1},
        text,
        (counter,),
        window=window,
        lifetime=lifetime,
        lasts=window,
        ends_with_reset=ends_with_reset,
        when=when,
    )


_REASONS = INPUT_POSITION["clocks_event_reasons"]


@dataclass(frozen=True, kw_only=True)
class Duty(Rule):
    """The measure is the share of a window in which the clocks were reduced for a reason.

    The inputs are counters of seconds; the largest share counts. Without any, the samples decide whose bit mask
    `clocks_event_reasons` has one of the bits. The share moves when a part of the window of `ClockEvents` is complete.

    Attributes:
        window: seconds.
        bits: of `clocks_event_reasons`; 0 for counters only.
        uncertain: whether the counters may be in microseconds where the documentation has nanoseconds. Until they have
            grown faster than microseconds can, the state is info where microseconds would reach a level.
    """

    window: float = MINUTE
    bits: int = 0
    uncertain: bool = False
    other_inputs: tuple[str, ...] = ("clocks_event_reasons",)
    number: str | None = "at {:.0%} or more"
    enter: float = MINUTE
    hold: float = 5 * MINUTE
    release: float = MINUTE
    clear_share: float = 0.5

    @property
    def states(self) -> tuple[State, ...]:
        """The states that it can raise, the mildest first."""
        return (*(("info",) if self.uncertain else ()), *self.levels)

    def observe(self, state: RuleState, inputs: GpuInputs, now: float) -> None:
        """Take the values of the counters and the share of the bits at the end of a part."""
        if not inputs.is_part_complete:
            return
        state.share = inputs.clock_events.share(self.bits, self.window) if self.bits else None
        for name, position in zip(self.inputs, self.positions, strict=True):
            value = inputs.values[position]
            if value is not None and state.duties is None:
                state.duties = {}
            if state.duties is not None and (value is not None or name in state.duties):
                state.duties.setdefault(name, DutyCounter()).update(value, now, self.window)

    def measure(self, state: RuleState, inputs: GpuInputs, now: float) -> float | None:
        """Return the share, 0..1; None before the third sample."""
        duties = state.duties or {}
        present = [name for name in self.inputs if name in duties and inputs.value(name) is not None]
        if shares := [share for name in present if (share := duties[name].share) is not None]:
            return min(max(shares), 1.0)
        return None if inputs.values[_REASONS] is None else state.share

    def severities(self, state: RuleState, measure: float) -> tuple[int, int]:
        """Return the severity that a measure reaches, and the one that it keeps; info for an unproven unit."""
        if not self.uncertain or not state.duties or any(counter.is_proven for counter in state.duties.values()):
            return self.grade(measure)
        reached, kept = self.grade(measure * MICROSECONDS)
        return min(reached, SEVERITY["info"]), min(kept, SEVERITY["info"])

    def _condition(self) -> str:
        unproven = " (info at a thousandth of it while its unit is unknown)" if self.uncertain else ""
        return f"{self._thresholds()} of {duration(self.window)} with clocks reduced by {self.text}{unproven}"
