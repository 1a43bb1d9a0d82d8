"""What all kinds of rules have in common: a measure, compared with thresholds, and the times to raise and to leave a
state. The kinds are in `rule_kinds` and `xid_rule`.

All rules are evaluated on the newest sample, at most once a second. Those that count observe every sample.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from math import inf
from typing import ClassVar, NamedTuple

from pulsed.compute.health.device_counters import CounterIncrease, DutyCounter
from pulsed.compute.health.inputs import INPUT_POSITION, GpuInputs
from pulsed.compute.sample import has_passed
from pulsed.model.health import RAISED_STATES, SEVERITY, State

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0

_RAISED = tuple(SEVERITY[state] for state in RAISED_STATES)
"""Severities of the raised states."""


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
        measure: the newest measure; None while unknown.
        is_covered: whether the inputs are present.
        events: number of events since the evaluation before, of rules that count them.
        event_at: time of the last event; None for none or an unknown time.
        xid: the code that decides, of rules about XIDs.
        detail: what the message names in addition to the title; empty for nothing.
        ignored: what is known to be a false alarm, and why.
        advice: replaces `{advice}` in the remedy; empty: it has no own one.
        suspects: programs that explain the state instead of the GPU.
        kept_until: until when a raised severity is kept while its inputs are absent.
        increases: by input, of rules about increases; None before the first, as most rules have none.
        duties: by counter, of rules about duty.
        share: of the bits of a rule about duty, as of the last complete part of the window.
        reached_since: by severity, since when it is reached without a break.
        below_since: since when the raised severity is not reached; None while it is.
    """

    severity: int = -1
    until: float = -inf
    measure: float | None = None
    is_covered: bool = False
    events: int = 0
    event_at: float | None = None
    xid: int | None = None
    detail: str = ""
    ignored: str = ""
    advice: str = ""
    suspects: tuple[str, ...] = ()
    kept_until: float = -inf
    increases: list[CounterIncrease | None] | None = None
    duties: dict[str, DutyCounter] | None = None
    share: float | None = None
    reached_since: dict[int, float] | None = None
    below_since: float | None = None

    def update(self, rule: Rule, reached: int, kept: int, now: float, measured_at: float) -> None:
        """Update the severity, with hysteresis.

        Args:
            rule: its times.
            reached: the severity reached; 0 for none, -1 when the inputs are missing.
            kept: the severity still reached with the thresholds moved back by the margin to leave.
            now: seconds.
            measured_at: when the newest reading was first seen: one that is repeated does not reach a level for longer.
        """
        if reached < 0:
            self.reached_since = self.below_since = None
            if self.severity <= 0 or now >= max(self.until, self.kept_until):
                self.severity = -1
            return
        if reached == 0 == self.severity:
            self.reached_since = None
            return
        target = max(self._entered(rule.enter, reached, now, measured_at), min(kept, self.severity), 0)
        if target > self.severity:
            self.severity, self.until, self.below_since = target, now + rule.hold, None
        elif target == self.severity:
            self.below_since = None
        else:
            self._leave(rule.release, target, now)

    def _entered(self, enter: float, reached: int, now: float, measured_at: float) -> int:
        """Return the worst severity that has been reached for long enough."""
        if not enter:
            return reached
        since = self.reached_since = {} if self.reached_since is None else self.reached_since
        entered = 0
        for severity in _RAISED:
            if severity > reached:
                since.pop(severity, None)
            elif has_passed(enter, since.setdefault(severity, now), measured_at):
                entered = severity
        return entered

    def _leave(self, release: float, target: int, now: float) -> None:
        if self.below_since is None:
            self.below_since = now
        if has_passed(0.0, max(self.until, self.below_since + release), now):
            self.severity, self.below_since = target, None


@dataclass(frozen=True)
class Rule(ABC):
    """Common parts of all kinds.

    Attributes:
        name: of the measure, with its unit; the name in evidence and of its thresholds in the configuration.
        levels: by state, the mildest first, the measure from which on it is reached.
        text: the condition in words, to follow the thresholds.
        inputs: names of the inputs that it needs: all of them, or one if the kind allows it; by default the measure.
        number: how a threshold is written in that sentence; `at 5 or more` by default.
        below: whether small measures are the bad ones.
        when: conditions.
        other_inputs: inputs that the measure depends on where they are present.
        enter: seconds for which a level must be reached without a break before it is raised.
        hold: minimum seconds for which a raised state is kept.
        release: seconds for which a raised state must not be reached before it is left.
        lasts: seconds for which a raised state is kept while its inputs are absent: it does not pass by itself.
        ends_with_reset: whether a reset of the GPU resolves such a state.
        clear: how far a temperature must be behind the threshold to leave a state, in degrees.
        clear_share: how far a measure must be behind it, as a share of the threshold.
    """

    reads_checks: ClassVar[bool] = False
    """Whether the measure depends on the severity of other checks."""

    name: str
    levels: Mapping[State, float] = field(default_factory=dict)
    text: str = ""
    inputs: tuple[str, ...] = ()
    _: KW_ONLY
    number: str | None = None
    below: bool = False
    when: tuple[When, ...] = ()
    other_inputs: tuple[str, ...] = ()
    enter: float = 0.0
    hold: float = 0.0
    release: float = 0.0
    lasts: float = 0.0
    ends_with_reset: bool = True
    clear: float = 0.0
    clear_share: float = 0.0

    def __post_init__(self) -> None:
        """Take the measure for the one input, unless others are given."""
        if not self.inputs and self.name in INPUT_POSITION:
            object.__setattr__(self, "inputs", (self.name,))

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """The positions of the inputs in `GpuInputs.values`."""
        return tuple([INPUT_POSITION[name] for name in self.inputs])

    @cached_property
    def _reach(self) -> tuple[tuple[int, float, float], ...]:
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
        """All inputs that its state depends on."""
        return (*self.inputs, *self.other_inputs, *(when.quantity for when in self.when))

    @property
    def counts_events(self) -> bool:
        """Whether it counts events itself; for others each time that they are raised is one."""
        return False

    @property
    def sentence(self) -> str:
        """When it is raised, in words."""
        enter = f", for {duration(self.enter)}" if self.enter else ""
        clear = f", cleared {self.clear:g} °C cooler" if self.clear else ""
        kept = f" (kept for {duration(self.hold)})" if self.hold else ""
        return self._condition() + enter + kept + clear

    def observe(self, state: RuleState, inputs: GpuInputs, now: float) -> None:  # noqa: B027  # most have no events
        """Take what happened and what lasted since the sample before."""

    @abstractmethod
    def measure(self, state: RuleState, inputs: GpuInputs, now: float) -> float | None:
        """Return the measure; None while inputs are missing."""

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

    def severities(self, state: RuleState, measure: float) -> tuple[int, int]:
        """Return the severity that a measure of one GPU reaches, and the one that it keeps."""
        return self.grade(measure)

    def evaluate(self, state: RuleState, inputs: GpuInputs, now: float) -> None:
        """Update the state for one GPU."""
        measure = state.measure = self.measure(state, inputs, now)
        if measure is None and state.severity < 0:
            return  # most rules of most GPUs have no inputs
        reached = kept = SEVERITY["unknown"]
        if measure is not None:
            reached, kept = self.severities(state, measure)
            if self.when and (reached > 0 or state.severity > 0):  # conditions only lower the severity
                reached, kept = self._conditional(reached, kept, inputs)
        was_covered, state.is_covered = state.is_covered, reached >= 0
        if was_covered and not state.is_covered:
            state.kept_until = self.latched_until(state, now) if state.severity > 0 else -inf
        state.update(self, reached, kept, now, inputs.measured_at)

    def latched_until(self, state: RuleState, now: float) -> float:
        """Return until when a raised state would be kept if its inputs disappeared now."""
        return now + self.lasts if self.lasts else -inf

    def resolve(self, state: RuleState, moment: float) -> None:
        """Take a reset of the GPU at a moment, which resolves what lasts until then."""
        if self.lasts and self.ends_with_reset:
            state.kept_until = -inf

    def evidence(self, state: RuleState, inputs: GpuInputs) -> tuple[tuple[str, float], ...]:
        """Return the numbers that decide, by name."""
        found = {} if state.measure is None else {self.name: state.measure}
        for name in self.uses:
            value = inputs.value(name)
            if value is not None:
                found.setdefault(name, value)
        return tuple(found.items())

    def advice(self, state: RuleState, evidence: Mapping[str, float]) -> str:
        """Return what replaces `{advice}` in the remedy; empty for nothing."""
        return state.advice

    def _conditional(self, reached: int, kept: int, inputs: GpuInputs) -> tuple[int, int]:
        """Return the severities under the conditions: ok if one is false, unknown if one is unknown."""
        for quantity, compare, threshold in self.when:
            value = inputs.value(quantity)
            if value is None:
                return SEVERITY["unknown"], SEVERITY["unknown"]
            if not compare(value, threshold):
                return 0, 0
        return reached, kept

    def _condition(self) -> str:
        """Return the sentence without its times."""
        return f"{self._thresholds()} {self.text}"

    def _thresholds(self) -> str:
        number = self.number if self.number is not None else "at {:g} or " + ("less" if self.below else "more")
        return ", ".join(f"{state} {number.format(at)}".rstrip() for state, at in self.levels.items())


def duration(seconds: float) -> str:
    """Render a duration, such as `5 min`."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds > unit:
            return f"{seconds / unit:g} {name}"
    return f"{seconds:g} s"
