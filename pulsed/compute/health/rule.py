"""A rule: a measure of the inputs of a GPU, compared with thresholds, and the times to raise and to leave a state.

Rules that count observe every sample; all are evaluated on the newest one, at most once a second. Measures are
functions of a rule, its state and the inputs of one sample; they return None while inputs are missing. `measures` has
the measures of single checks; other kinds of rules are in `rule_kinds` and `xid_rule`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple

from pulsed.compute.health.inputs import IN_EXTRAS, INPUT_POSITION, GpuInputs
from pulsed.compute.health.windows import CounterIncrease, DutyCounter
from pulsed.compute.products import limits_of
from pulsed.compute.sample import has_passed
from pulsed.durations import in_words
from pulsed.model.clocks import GPU_NEVER, GpuSeconds
from pulsed.model.health import SEVERITY, State
from pulsed.model.vocabulary import Value


class When(NamedTuple):
    """A condition of a rule: `compare(reading, value)`, such as `operator.gt`.

    If it is false no level is reached; without its reading the rule is unknown.
    """

    quantity: str
    compare: Callable[[float, float], bool]
    value: float


@dataclass(slots=True, eq=False)
class RuleState:
    """The state of one rule for one GPU.

    Attributes:
        severity: -1 while unknown.
        until: when the minimum time of a raised severity ends.
        kept_until: until when a raised severity is kept while its inputs are absent.
        reached_since: by severity, since when it is reached without a break.
        below_since: since when the raised severity is not reached; None while it is.
        measure: the newest measure; None while unknown.
        is_covered: whether the inputs are present.
        events: number of events since the evaluation before, of rules that count them.
        event_at: time of the last event; None for none or an unknown time.
        xid: the code that decides, of rules about XIDs.
        suspects: programs that explain the state instead of the GPU.
        detail: what the message names in addition to the title.
        ignored: a known false alarm, and the reason.
        advice: replaces `{advice}` in the remedy.
        increases, duties: by input, of rules about increases and about duty.
        results: the results of a rule about tests.
        share: of the bits of a rule about duty, as of the last complete part of the window.
    """

    severity: int = -1
    until: GpuSeconds = GPU_NEVER
    kept_until: GpuSeconds = GPU_NEVER
    reached_since: dict[int, GpuSeconds] = field(default_factory=dict)
    below_since: GpuSeconds | None = None
    measure: float | None = None
    is_covered: bool = False
    events: int = 0
    event_at: GpuSeconds | None = None
    xid: int | None = None
    suspects: tuple[str, ...] = ()
    detail: str = ""
    ignored: str = ""
    advice: str = ""
    increases: dict[str, CounterIncrease] = field(default_factory=dict)
    duties: dict[str, DutyCounter] = field(default_factory=dict)
    results: tuple[Value, ...] = ()
    share: float | None = None


def first_input(rule: Rule, state: RuleState, inputs: GpuInputs) -> float | None:
    """Return the first input."""
    return inputs.values[rule.positions[0]]


def total(rule: Rule, state: RuleState, inputs: GpuInputs) -> float | None:
    """Return the sum of the inputs."""
    values = [inputs.values[position] for position in rule.positions]
    return None if None in values else sum(filter(None, values))


def ratio(rule: Rule, state: RuleState, inputs: GpuInputs) -> float | None:
    """Return the ratio of the first input to the second."""
    first, second = [inputs.values[position] for position in rule.positions]
    return None if first is None or not second else first / second


def difference(rule: Rule, state: RuleState, inputs: GpuInputs) -> float | None:
    """Return the first input less the second, or less the limit of the model where the second is missing."""
    first, second = [inputs.values[position] for position in rule.positions]
    second = rule.limit_of_model(inputs) if second is None else second
    return None if first is None or second is None else first - second


def distance(rule: Rule, state: RuleState, inputs: GpuInputs) -> float | None:
    """Return the absolute difference of two inputs."""
    signed = difference(rule, state, inputs)
    return None if signed is None else abs(signed)


Measure = Callable[["Rule", RuleState, GpuInputs], float | None]


@dataclass(frozen=True)
class Rule:
    """A rule whose measure follows from the inputs of one sample.

    Attributes:
        name: of the measure, with its unit; the name in evidence and of its thresholds in the configuration.
        levels: by state, the mildest first, the measure from which on it is reached.
        text: the condition in words, to follow the thresholds.
        detail: what the message names in addition to the title of the check.
        remedy: what to do, if that differs from the remedy of the check.
        inputs: names of the inputs that it needs: all of them, or one if the kind allows it; by default the measure.
        by: returns the measure; None while inputs are missing.
        number: how a threshold is written in that sentence; `from 5` by default.
        below: whether small measures are the bad ones.
        when: conditions.
        other_inputs: inputs that the measure depends on where they are present.
        shown: inputs behind its conditions, for the evidence.
        fallback: attribute of `TemperatureLimits` that replaces a missing second input.
        enter: seconds for which a level must be reached without a break before it is raised.
        hold: minimum seconds for which a raised state is kept.
        release: seconds for which a raised state must not be reached before it is left.
        lasts: seconds for which a raised state is kept while its inputs are absent: it does not pass by itself.
        ends_with_reset: whether a reset of the GPU resolves such a state.
        clear: how far a temperature must be behind the threshold to leave a state, in degrees.
        clear_share: how far a measure must be behind it, as a share of the threshold.
    """

    name: str
    levels: Mapping[State, float] = field(default_factory=dict)
    text: str = ""
    inputs: tuple[str, ...] = ()
    _: KW_ONLY
    by: Measure = first_input
    number: str | None = None
    below: bool = False
    when: tuple[When, ...] = ()
    other_inputs: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    fallback: str = ""
    enter: float = 0.0
    hold: float = 0.0
    release: float = 0.0
    lasts: float = 0.0
    ends_with_reset: bool = True
    clear: float = 0.0
    clear_share: float = 0.0
    detail: str = ""
    remedy: str = ""

    def __post_init__(self) -> None:
        if not self.inputs and self.name in INPUT_POSITION:
            object.__setattr__(self, "inputs", (self.name,))

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """The positions of the inputs in `GpuInputs.values`."""
        return tuple([INPUT_POSITION[name] for name in self.inputs])

    @cached_property
    def named_positions(self) -> tuple[tuple[str, int], ...]:
        """The inputs with their positions."""
        return tuple(zip(self.inputs, self.positions, strict=True))

    @cached_property
    def _thresholds(self) -> tuple[tuple[int, float, float], ...]:
        """By severity, the measure from which on it is reached, and the one from which on it is kept."""
        sign = -1.0 if self.below else 1.0
        return tuple(
            (SEVERITY[state], sign * at, sign * at - self.clear - abs(at) * self.clear_share)
            for state, at in self.levels.items()
        )

    @property
    def states(self) -> tuple[State, ...]:
        """The states that it can raise, the mildest first."""
        return tuple(self.levels)

    @cached_property
    def uses(self) -> tuple[str, ...]:
        """All inputs that it has."""
        return (*self.inputs, *self.other_inputs, *self.shown, *(when.quantity for when in self.when))

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The inputs that its state depends on."""
        return (*self.inputs, *self.other_inputs, *(when.quantity for when in self.when))

    needs_all: ClassVar = True
    """Whether its measure needs all of its inputs; otherwise one of them will do."""

    has_events: ClassVar = False
    """Whether its state has events and when the last one was."""

    @cached_property
    def _reads_extras(self) -> bool:
        return any(name in IN_EXTRAS for name in self.uses)

    @property
    def counts_events(self) -> bool:
        """Whether it counts events itself; for others each time that they are raised is one."""
        return False

    @property
    def sentence(self) -> str:
        """When it is raised, in words."""
        enter = f", for {in_words(self.enter)}" if self.enter else ""
        clear = f", cleared {self.clear:g} °C cooler" if self.clear else ""
        kept = f" (kept for {in_words(self.hold)})" if self.hold else ""
        return self._condition() + enter + kept + clear

    def _condition(self) -> str:
        """Return the sentence without its times."""
        return f"{self._levels_text()} {self.text}"

    def _levels_text(self) -> str:
        number = self.number if self.number is not None else ("at {:g} or less" if self.below else "from {:g}")
        return ", ".join(f"{state} {number.format(at)}".rstrip() for state, at in self.levels.items())

    def limit_of_model(self, inputs: GpuInputs) -> float | None:
        """Return the limit of the model that replaces a missing second input."""
        limit: float | None = getattr(limits_of(inputs.model), self.fallback) if self.fallback else None
        return limit

    def evidence(self, state: RuleState, inputs: GpuInputs) -> tuple[tuple[str, float], ...]:
        """Return the numbers that decide, by name; `limit_from_table` where the limit is not the device's own."""
        numbers = {} if state.measure is None else {self.name: state.measure}
        for name in self.uses:
            if name not in numbers and (value := inputs.value(name)) is not None:
                numbers[name] = value
        if self.fallback and self.inputs[1] not in numbers and (limit := self.limit_of_model(inputs)) is not None:
            numbers |= {self.inputs[1]: limit, "limit_from_table": 1.0}
        return tuple(numbers.items())

    def severities(self, state: RuleState, measure: float) -> tuple[int, int]:
        """Return the severity that a measure reaches, and the one that it keeps."""
        measure = -measure if self.below else measure
        reached = kept = 0
        for severity, reach, keep in self._thresholds:
            if measure >= reach:
                reached = max(reached, severity)
            if measure >= keep:
                kept = max(kept, severity)
        return reached, kept

    def observe(self, state: RuleState, inputs: GpuInputs, now: GpuSeconds) -> None:
        """Record what happened and what lasted since the sample before."""

    def evaluate(self, state: RuleState, inputs: GpuInputs, now: GpuSeconds) -> None:
        """Update the state for one GPU."""
        measure = state.measure = self.by(self, state, inputs)
        if measure is None:
            if state.severity < 0:
                return  # most rules of most GPUs have no inputs
            reached, kept = SEVERITY["unknown"], SEVERITY["unknown"]
        else:
            reached, kept = self.severities(state, measure)
            if reached == 0 == state.severity:
                state.is_covered = True
                state.reached_since.clear()
                return
            if self.when and (reached > 0 or state.severity > 0):  # conditions only lower the severity
                reached, kept = self._conditional(reached, kept, inputs)
        if state.is_covered and reached < 0:
            state.kept_until = self.latched_until(state, now) if state.severity > 0 else GPU_NEVER
        state.is_covered = reached >= 0
        if not state.is_covered:
            state.reached_since, state.below_since = {}, None
            if state.severity <= 0 or now >= max(state.until, state.kept_until):
                state.severity = SEVERITY["unknown"]
        else:
            entered = self._entered(state, reached, inputs, now)
            self._update_severity(state, max(entered, min(kept, state.severity)), now)

    def _conditional(self, reached: int, kept: int, inputs: GpuInputs) -> tuple[int, int]:
        """Return the severities under the conditions: ok if one is false, unknown if one is unknown."""
        for quantity, compare, threshold in self.when:
            value = inputs.value(quantity)
            if value is None:
                return SEVERITY["unknown"], SEVERITY["unknown"]
            if not compare(value, threshold):
                return 0, 0
        return reached, kept

    def _entered(self, state: RuleState, reached: int, inputs: GpuInputs, now: GpuSeconds) -> int:
        """Return the worst severity that has been reached for long enough; a repeated reading adds no time to it."""
        if not self.enter:
            return reached
        since = {severity: state.reached_since.get(severity, now) for severity in range(1, reached + 1)}
        state.reached_since = since
        return max([at for at, begin in since.items() if has_passed(self.enter, begin, inputs.measured_at)], default=0)

    def _update_severity(self, state: RuleState, target: int, now: GpuSeconds) -> None:
        """Raise the severity at once; lower it after its minimum time, and after a time without a break below it."""
        if target > state.severity:
            state.severity, state.until, state.below_since = target, GpuSeconds(now + self.hold), None
        elif target == state.severity:
            state.below_since = None
        else:
            state.below_since = now if state.below_since is None else state.below_since
            if has_passed(0.0, max(state.until, GpuSeconds(state.below_since + self.release)), now):
                state.severity, state.below_since = target, None

    def latched_until(self, state: RuleState, now: GpuSeconds) -> GpuSeconds:
        """Return until when a raised state would be kept if its inputs disappeared now."""
        return GpuSeconds(now + self.lasts) if self.lasts else GPU_NEVER

    def rests(self, state: RuleState, inputs: GpuInputs) -> bool:
        """Return whether its state stays as it is for as long as its inputs do."""
        return state.severity <= 0 and not state.reached_since and (inputs.extras is None or not self._reads_extras)

    def resolve(self, state: RuleState, moment: GpuSeconds) -> None:
        """Resolve what lasts until a reset of the GPU, which happened at a moment."""
        if self.lasts and self.ends_with_reset:
            state.kept_until = GPU_NEVER
