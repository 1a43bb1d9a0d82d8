"""The kinds of rules that checks are made of: level, increase, duty. Each turns inputs into a measure and compares it
with thresholds, one per state that it can raise; `pulsed.compute.health.hysteresis` decides when a state is raised.

A rule is evaluated when one of its inputs changes, or when it is due.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from pulsed.compute.health.clock_events import DutyCounter
from pulsed.compute.health.counter_increase import CounterIncrease
from pulsed.compute.health.hysteresis import Hysteresis
from pulsed.compute.health.inputs import ACTIVITY, INPUT_POSITION, GpuInputs
from pulsed.compute.health.model import SEVERITY, State
from pulsed.compute.health.temperature_limits import limits_of

Levels = tuple[tuple[State, float], ...]
"""Thresholds by state, the mildest first."""

Measure = Callable[[GpuInputs], float | None]
"""Returns the measure of a rule; None while inputs are missing."""

SOON = 1.0
"""Seconds until a rule is evaluated again that depends on inputs that cause no evaluation."""


@dataclass(frozen=True, slots=True)
class When:
    """A condition of a rule.

    Without its reading the rule is unknown; if it is false no level is reached. With `absent` the rule is unknown while
    the reading is present.
    """

    quantity: str
    sign: Literal["==", "<", ">", "absent"]
    value: float = 0.0

    def holds(self, value: float) -> bool:
        """Return whether the condition is true for a value."""
        if self.sign == "==":
            return value == self.value
        return value > self.value if self.sign == ">" else value < self.value


class RuleState:
    """The state of one rule for one GPU.

    Attributes:
        hysteresis: the severity, and when it changes.
        due: when to evaluate although no input changes.
        measure: the newest measure; None while unknown.
        is_covered: whether the inputs are present.
        is_uncertain: whether the measure is from a counter of an unknown unit.
        events: number of events so far, of rules that count them.
        event_at: time of the last event; None for none or an unknown time.
        xid: the code that decides, of rules about XIDs.
        increases: by counter, of rules about increases.
        duties: by counter, of rules about duty.
    """

    __slots__ = (
        "due",
        "duties",
        "event_at",
        "events",
        "hysteresis",
        "increases",
        "is_covered",
        "is_uncertain",
        "measure",
        "xid",
    )

    def __init__(self, rule: Rule) -> None:
        self.hysteresis = Hysteresis(rule.enter, rule.hold, rule.release)
        self.due = -inf
        self.measure: float | None = None
        self.is_covered = self.is_uncertain = False
        self.events = 0
        self.event_at: float | None = None
        self.xid: int | None = None
        self.increases: dict[str, CounterIncrease] = {} if isinstance(rule, Increase) else _NO_INCREASES
        self.duties: dict[str, DutyCounter] = {} if isinstance(rule, Duty) else _NO_DUTIES

    @property
    def outcome(self) -> tuple[int, bool, float | None, int, int | None]:
        """What the state of a check is made of."""
        return self.hysteresis.held, self.is_covered, self.event_at, self.events, self.xid


_NO_INCREASES: dict[str, CounterIncrease] = {}
_NO_DUTIES: dict[str, DutyCounter] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Common parts of all kinds.

    Attributes:
        name: of the measure, with its unit; the name in evidence and of its thresholds in the configuration.
        inputs: names of the inputs that it needs: all of them, or one if the kind allows it.
        text: the condition in words, to follow the thresholds.
        number: how a threshold is written in that sentence; `at 5 or more` by default.
        levels: by state, the measure from which on it is reached.
        below: whether small measures are the bad ones.
        when: conditions.
        enter: seconds for which a level must be reached without a break before it is raised.
        hold: minimum seconds for which a raised state is kept.
        release: seconds for which a raised state must not be reached before it is left.
        clear: how far the measure must be behind the threshold to leave a state, in its own unit.
        clear_share: the same as a share of the threshold.
    """

    name: str
    inputs: tuple[str, ...]
    text: str
    number: str | None = None
    levels: Levels = ()
    below: bool = False
    when: tuple[When, ...] = ()
    enter: float = 0.0
    hold: float = 0.0
    release: float = 0.0
    clear: float = 0.0
    clear_share: float = 0.0
    positions: tuple[int, ...] = field(init=False, repr=False)
    _reach: tuple[tuple[int, float, float], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Compile: names to positions, thresholds to severities with the thresholds to reach and to keep them."""
        object.__setattr__(self, "positions", tuple([INPUT_POSITION[name] for name in self.inputs]))
        sign = -1.0 if self.below else 1.0
        reach = [
            (SEVERITY[state], sign * at, sign * at - self.clear - abs(at) * self.clear_share)
            for state, at in self.levels
        ]
        object.__setattr__(self, "_reach", tuple(reach))

    @property
    def states(self) -> tuple[State, ...]:
        """The states that it can raise, the mildest first."""
        return tuple(state for state, _ in self.levels)

    @property
    def uses(self) -> tuple[str, ...]:
        """All inputs that its state depends on."""
        return (*self.inputs, *(when.quantity for when in self.when))

    @property
    def counts_events(self) -> bool:
        """Whether it counts events itself; for others each time that they are raised is one."""
        return False

    @property
    def sentence(self) -> str:
        """When it is raised, in words."""
        enter = f", for {duration(self.enter)}" if self.enter else ""
        return self._condition() + enter + (f" (kept for {duration(self.hold)})" if self.hold else "")

    def measure(self, state: RuleState, inputs: GpuInputs, now: float) -> float | None:
        """Return the measure; None while inputs are missing."""
        raise NotImplementedError

    def grade(self, measure: float) -> tuple[int, int]:
        """Return the severity that a measure reaches, and the one that it keeps."""
        measure = -measure if self.below else measure
        reached = kept = 0
        for severity, reach, keep in self._reach:
            if measure >= keep:
                kept = max(kept, severity)
                if measure >= reach:
                    reached = max(reached, severity)
        return reached, kept

    def evaluate(self, state: RuleState, inputs: GpuInputs, now: float) -> None:
        """Update the state for one GPU."""
        state.due = inf
        state.measure = measure = self.measure(state, inputs, now)
        reached = kept = -1
        if measure is not None:
            reached, kept = self.grade(measure)
            if self.when:
                reached, kept = self._conditional(reached, kept, state, inputs, now)
        state.is_covered = reached >= 0
        state.hysteresis.follow(reached, kept, now)
        state.due = min(state.due, state.hysteresis.due)

    def evidence(self, state: RuleState, inputs: GpuInputs) -> tuple[tuple[str, float], ...]:
        """Return the numbers that decide, by name."""
        found = {} if state.measure is None else {self.name: state.measure}
        for name in self.uses:
            value = inputs.value(name)
            if value is not None:
                found.setdefault(name, value)
        return tuple(found.items())

    def _conditional(self, reached: int, kept: int, state: RuleState, inputs: GpuInputs, now: float) -> tuple[int, int]:
        """Return the severities under the conditions: 0 if one is false, -1 if one is unknown."""
        matters = reached > 0 or state.hysteresis.held > 0  # conditions only lower the severity
        for when in self.when:
            value = inputs.value(when.quantity)
            if when.sign == "absent":
                if value is not None:
                    return -1, -1
            elif matters:
                if when.quantity == ACTIVITY:
                    state.due = now + SOON
                if value is None:
                    return -1, -1
                if not when.holds(value):
                    return 0, 0
        return reached, kept

    def _condition(self) -> str:
        """Return the sentence without its times."""
        number = self.number if self.number is not None else "at {:g} or " + ("less" if self.below else "more")
        return f"{', '.join(f'{state} {number.format(at)}'.rstrip() for state, at in self.levels)} {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Level(Rule):
    """The measure follows from the inputs of one sample.

    Attributes:
        by: returns the function for the measure from the positions of the inputs; their sum by default.
        codes: by value of the input, the state that it means; others up to the largest code are ok.
        beyond: the state of values above all codes: these are newer than the table.
        fallback: attribute of `TemperatureLimits` that replaces a missing second input.
        recheck: evaluate again after so many seconds.
    """

    by: Callable[[tuple[int, ...], str], Measure] | None = None
    codes: tuple[tuple[State, tuple[int, ...]], ...] = ()
    beyond: State | None = None
    fallback: str = ""
    recheck: float = inf
    _measure: Measure = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Compile the measure."""
        Rule.__post_init__(self)
        object.__setattr__(self, "_measure", (self.by or total)(self.positions, self.fallback))

    @property
    def states(self) -> tuple[State, ...]:
        """The states that it can raise."""
        beyond = (self.beyond,) if self.beyond else ()
        return tuple(dict.fromkeys([state for state, _ in (*self.levels, *self.codes)] + list(beyond)))

    def measure(self, state: RuleState, inputs: GpuInputs, now: float) -> float | None:
        """Return the measure; None while inputs are missing."""
        measure = self._measure(inputs)
        if measure is not None:
            state.due = now + self.recheck
        return measure

    def grade(self, measure: float) -> tuple[int, int]:
        """Return the severity that a measure reaches, and the one that it keeps."""
        if not self.codes:
            return Rule.grade(self, measure)
        newest = severity = 0
        for state, codes in self.codes:
            newest = max(newest, *codes)
            if int(measure) in codes:
                severity = SEVERITY[state]
        if self.beyond and measure > newest:
            severity = SEVERITY[self.beyond]
        return severity, severity

    def evidence(self, state: RuleState, inputs: GpuInputs) -> tuple[tuple[str, float], ...]:
        """Return the numbers that decide; `limit_from_table` where the limit is not the device's own."""
        found = Rule.evidence(self, state, inputs)
        if self.fallback and inputs.value(self.inputs[1]) is None:
            limit = getattr(limits_of(inputs.model), self.fallback)
            if limit is not None:
                found = (*found, (self.inputs[1], limit), ("limit_from_table", 1.0))
        return found

    def _condition(self) -> str:
        if not self.codes:
            return Rule._condition(self)
        states = [f"{state} at {self.text} {', '.join(map(str, codes))}" for state, codes in self.codes]
        return ", ".join([*states, f"{self.beyond} at newer ones"] if self.beyond else states)


@dataclass(frozen=True, slots=True, kw_only=True)
class Increase(Rule):
    """The measure is the increase of a counter within a window; of several inputs the first that is present counts.

    Attributes:
        window: seconds.
        per: the increase is given per so many seconds; 0 for the increase within the window.
        lifetime: the counter never falls in the life of a board: only values above its peak are an increase.
        limit: returns the number that the measure is divided by.
        limit_inputs: inputs of `limit`.
    """

    window: float
    per: float = 0.0
    lifetime: bool = False
    limit: Callable[[GpuInputs], float] | None = None
    limit_inputs: tuple[str, ...] = ()

    @property
    def uses(self) -> tuple[str, ...]:
        """All inputs that its state depends on."""
        return (*self.inputs, *self.limit_inputs, *(when.quantity for when in self.when))

    @property
    def counts_events(self) -> bool:
        """Whether each step of the counter is an event."""
        return not self.per

    def measure(self, state: RuleState, inputs: GpuInputs, now: float) -> float | None:
        """Return the increase; None before the second value."""
        chosen: CounterIncrease | None = None
        for name, position in zip(self.inputs, self.positions, strict=True):
            value = inputs.values[position]
            if value is None:
                continue
            increase = state.increases.get(name)
            if increase is None:
                increase = state.increases[name] = CounterIncrease(self.window, self.lifetime)
            grown = increase.follow(value, now)
            if not increase.settled:
                state.due = -inf  # the next sample settles it
            if chosen is None:
                chosen = increase
                if grown and not self.per:
                    state.events += max(1, int(grown))
        if chosen is None:
            return None
        state.event_at = chosen.grown
        if not chosen.settled:
            return None
        state.due = min(state.due, chosen.due)
        measure = chosen.total * self.per / self.window if self.per else chosen.total
        return measure / self.limit(inputs) if self.limit else measure

    def _condition(self) -> str:
        return Rule._condition(self) + ("" if self.per else f" within {duration(self.window)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty(Rule):
    """The measure is the share of a window in which the clocks were reduced for a reason.

    The inputs are counters of seconds; the largest share counts. Without any, the samples decide whose bit mask
    `clocks_event_reasons` has one of the bits. Evaluated when a part of the window of `ClockEvents` is complete.

    Attributes:
        window: seconds.
        bits: of `clocks_event_reasons`; 0 for counters only.
        uncertain: whether the counters may be in microseconds where the documentation says nanoseconds. Until they have
            grown faster than microseconds can, the state is at most info.
    """

    window: float
    bits: int = 0
    uncertain: bool = False

    @property
    def states(self) -> tuple[State, ...]:
        """The states that it can raise, the mildest first."""
        return (*(("info",) if self.uncertain else ()), *(state for state, _ in self.levels))

    @property
    def uses(self) -> tuple[str, ...]:
        """All inputs that its state depends on."""
        return (*self.inputs, "clocks_event_reasons")

    def measure(self, state: RuleState, inputs: GpuInputs, now: float) -> float | None:
        """Return the share, 0..1; None before the third sample."""
        counters: list[DutyCounter] = []
        for name, position in zip(self.inputs, self.positions, strict=True):
            value = inputs.values[position]
            if value is not None or name in state.duties:
                counter = state.duties.setdefault(name, DutyCounter())
                counter.follow(value, now, self.window)
                counters.append(counter)
        best = max(counters, key=lambda counter: counter.share, default=None)
        state.is_uncertain = self.uncertain and best is not None and best.share > 0 and not best.is_proven
        if best is not None and best.share >= 0:
            return min(best.share, 1.0)
        if not self.bits or inputs.reading.clocks_event_reasons is None:
            return None
        return inputs.clock_events.share(self.bits, self.window, now)

    def evaluate(self, state: RuleState, inputs: GpuInputs, now: float) -> None:
        """Update the state for one GPU."""
        Rule.evaluate(self, state, inputs, now)
        if state.is_uncertain and state.hysteresis.held == 0:
            state.hysteresis.held = SEVERITY["info"]


def total(positions: tuple[int, ...], _: str) -> Measure:
    """Compile the sum of the inputs."""
    first, *others = positions

    def measure(inputs: GpuInputs) -> float | None:
        found = inputs.values[first]
        for position in others:
            value = inputs.values[position]
            found = None if found is None or value is None else found + value
        return found

    return measure


def duration(seconds: float) -> str:
    """Render a duration, such as `5 min`."""
    for unit, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds > unit:
            return f"{seconds / unit:g} {name}"
    return f"{seconds:g} s"
