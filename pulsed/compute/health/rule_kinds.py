"""Rules about codes, increases of counters, and shares of time with reduced clocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from pulsed.compute.health.inputs import INPUT_POSITION, GpuInputs, link_counts, links_text
from pulsed.compute.health.rule import Measure, Rule, RuleState, When
from pulsed.compute.health.windows import MICROSECONDS, CounterIncrease, DutyCounter
from pulsed.durations import MINUTE, in_words
from pulsed.model.clocks import GPU_NEVER, GpuSeconds
from pulsed.model.health import SEVERITY, State

NEWER_CODE = "look it up in the documentation of the driver and apply it"
"""What to do for a code that is newer than the table."""

_REASONS = INPUT_POSITION["clocks_event_reasons"]


@dataclass(frozen=True, kw_only=True)
class Codes(Rule):
    """The measure is a code.

    Attributes:
        codes: by state, the codes that mean it; others up to the largest of them are ok.
        beyond: the state of codes above all of these: they are newer than the table.
        actions: by code, what to do, as the end of a sentence.
    """

    codes: Mapping[State, tuple[int, ...]]
    beyond: State | None = None
    actions: Mapping[int, str] = field(default_factory=dict)

    @property
    def states(self) -> tuple[State, ...]:
        """The states that it can raise."""
        beyond = (self.beyond,) if self.beyond else ()
        return tuple(dict.fromkeys((*self.codes, *beyond)))

    def severities(self, state: RuleState, measure: float) -> tuple[int, int]:
        """Return the severity of a code, twice: it has no margin."""
        code = int(measure)
        if self.actions:
            state.advice = self.actions.get(code, NEWER_CODE)
        severity = next((SEVERITY[state] for state, codes in self.codes.items() if code in codes), 0)
        if self.beyond and measure > max(map(max, self.codes.values())):
            severity = SEVERITY[self.beyond]
        return severity, severity

    def _condition(self) -> str:
        states = [f"{state} at {self.text} {', '.join(map(str, codes))}" for state, codes in self.codes.items()]
        return ", ".join([*states, f"{self.beyond} at newer ones"] if self.beyond else states)


def increase_within(rule: Rule, state: RuleState, inputs: GpuInputs) -> float | None:
    """Return the increase of a rule about one; None before the second value."""
    assert isinstance(rule, Increase)
    for name, position in rule.named_positions:
        if inputs.values[position] is None or (increase := state.increases.get(name)) is None:
            continue
        state.event_at = increase.grown
        if not increase.settled:
            return None
        measure = increase.total * rule.per / rule.window if rule.per else increase.total
        return measure / rule.limit(inputs) if rule.limit else measure
    return None


@dataclass(frozen=True, kw_only=True)
class Increase(Rule):
    """The measure is the increase of a counter within a window; of several inputs the first that is present counts.

    Attributes:
        window: seconds.
        per: seconds that the increase is given per; 0 for the increase within the window, where each is an event.
        lifetime: the counter never falls in the life of a board: only values above its peak are an increase.
        limit: returns the number that the measure is divided by.
    """

    window: float
    per: float = 0.0
    lifetime: bool = False
    limit: Callable[[GpuInputs], float] | None = None
    by: Measure = increase_within
    has_events: ClassVar = True
    needs_all: ClassVar = False

    @property
    def counts_events(self) -> bool:
        """Whether each step of the counter is an event."""
        return not self.per

    def observe(self, state: RuleState, inputs: GpuInputs, now: GpuSeconds) -> None:
        """Record the values of the counters."""
        is_first = True
        for name, position in self.named_positions:
            value = inputs.values[position]
            if value is None:
                continue
            increase = state.increases.get(name)
            if increase is None:
                increase = state.increases[name] = CounterIncrease(self.window, self.lifetime)
            grown = increase.update(value, now, inputs.gap_seconds if self.per else 0.0)
            if is_first and grown and not self.per:
                state.events += max(1, int(grown))
            is_first = False

    def evaluate(self, state: RuleState, inputs: GpuInputs, now: GpuSeconds) -> None:
        """Update the state for one GPU."""
        Rule.evaluate(self, state, inputs, now)
        state.detail = links_text(link_counts(inputs.extras, self.inputs) or ()) if state.severity > 0 else ""

    def rests(self, state: RuleState, inputs: GpuInputs) -> bool:
        """Return whether its state stays as it is for as long as its inputs do."""
        is_quiet = state.event_at is None and all(counter.settled for counter in state.increases.values())
        return is_quiet and Rule.rests(self, state, inputs)

    def latched_until(self, state: RuleState, now: GpuSeconds) -> GpuSeconds:
        """Return when the newest increase leaves its window, of a rule whose increases are events."""
        return (
            max([increase.ends for increase in state.increases.values()], default=GPU_NEVER)
            if self.lasts
            else GPU_NEVER
        )

    def resolve(self, state: RuleState, moment: GpuSeconds) -> None:
        """Drop increases before a reset of the GPU."""
        Rule.resolve(self, state, moment)
        for increase in state.increases.values():
            increase.restart()
            if self.lasts and self.ends_with_reset:
                increase.drop_before(moment)

    def _condition(self) -> str:
        return f"{Rule._condition(self)} within {in_words(self.window)}"


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


@dataclass(frozen=True, kw_only=True)
class Lanes(Rule):
    """The measure is a share of lanes; info where the machine has no more by its design."""

    @property
    def states(self) -> tuple[State, ...]:
        """The states that it can raise, the mildest first."""
        return ("info", *self.levels)

    def evaluate(self, state: RuleState, inputs: GpuInputs, now: GpuSeconds) -> None:
        """Update the state for one GPU."""
        Rule.evaluate(self, state, inputs, now)
        if inputs.has_lanes_by_design and state.severity > SEVERITY["info"]:
            state.severity = SEVERITY["info"]


DIAG_WARNED, DIAG_FAILED = 2.0, 3.0
"""Results of a test (dcgm_structs.h, dcgmDiagResult_t); 0 passed, 1 skipped, 4 not run."""


def worst_result(rule: Rule, state: RuleState, inputs: GpuInputs) -> float | None:
    """Return the worst result of a test, naming those that have it; None if no result is known."""
    results = tuple([inputs.values[position] for position in rule.positions])
    bad = [value for value in results if value in (DIAG_WARNED, DIAG_FAILED)]
    worst = max(filter(None, bad), default=0.0)
    names = [name for name, value in zip(rule.inputs, results, strict=True) if worst and value == worst]
    state.detail = ", ".join([name.removeprefix("diag_").removesuffix("_result") for name in names])
    return None if all(value is None for value in results) else worst


@dataclass(frozen=True, kw_only=True)
class DiagResults(Rule):
    """The measure is the worst of several results of tests; its last event is the last change of one: another run."""

    by: Measure = worst_result
    has_events: ClassVar = True
    needs_all: ClassVar = False

    def evaluate(self, state: RuleState, inputs: GpuInputs, now: GpuSeconds) -> None:
        """Update the state for one GPU; a result that is there from the start is of an unknown age."""
        results = tuple([inputs.values[position] for position in self.positions])
        if state.results and any(
            value is not None and value != before for value, before in zip(results, state.results, strict=True)
        ):
            state.event_at = now
        state.results = tuple(
            [
                before if value is None else value
                for value, before in zip(results, state.results or results, strict=True)
            ]
        )
        Rule.evaluate(self, state, inputs, now)


def share_of_time(rule: Rule, state: RuleState, inputs: GpuInputs) -> float | None:
    """Return the share of a rule about one, 0..1; None before the third sample."""
    if state.duties:
        present = [state.duties[name] for name, at in rule.named_positions if inputs.values[at] is not None]
        if shares := [duty.share for duty in present if duty.share is not None]:
            return min(max(shares), 1.0)
    return None if inputs.values[_REASONS] is None else state.share


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
    by: Measure = share_of_time
    needs_all: ClassVar = False
    other_inputs: tuple[str, ...] = ("clocks_event_reasons",)
    number: str | None = "from {:.0%}"
    enter: float = MINUTE
    hold: float = 5 * MINUTE
    release: float = MINUTE
    clear_share: float = 0.5

    @property
    def states(self) -> tuple[State, ...]:
        """The states that it can raise, the mildest first."""
        return (*(("info",) if self.uncertain else ()), *self.levels)

    def observe(self, state: RuleState, inputs: GpuInputs, now: GpuSeconds) -> None:
        """Record the values of the counters and the share of the bits, once a part of `clock_events` is complete."""
        state.share = inputs.clock_events.share(self.bits, self.window) if self.bits else None
        for name, position in self.named_positions:
            value = inputs.values[position]
            if value is not None or name in state.duties:
                state.duties.setdefault(name, DutyCounter()).update(value, now, self.window)

    def severities(self, state: RuleState, measure: float) -> tuple[int, int]:
        """Return the severity that a measure reaches, and the one that it keeps; info for an unproven unit."""
        if not self.uncertain or not state.duties or any(duty.is_proven for duty in state.duties.values()):
            return Rule.severities(self, state, measure)
        reached, kept = Rule.severities(self, state, measure * MICROSECONDS)
        return min(reached, SEVERITY["info"]), min(kept, SEVERITY["info"])

    def _condition(self) -> str:
        unproven = " (info while its unit is unknown)" if self.uncertain else ""
        return f"{self._levels_text()} of {in_words(self.window)} with clocks reduced by {self.text}{unproven}"
