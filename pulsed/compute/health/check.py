"""A check and its state for one GPU. The worst of its rules decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from math import ceil

from pulsed.compute.health.inputs import INPUT_POSITION, GpuInputs
from pulsed.compute.health.rule import Rule, RuleState
from pulsed.compute.health.xids import advice_on, xid_of
from pulsed.compute.product_parts import missing_from_model
from pulsed.durations import DAY
from pulsed.model.clocks import GpuSeconds, Unix
from pulsed.model.health import SEVERITY, STATES, CheckState, State

JITTER = 0.5
"""Tolerance in seconds of the wall clock time of the same event."""

HISTORY_SECONDS = 30 * DAY
"""Seconds for which it is remembered that a check was raised."""

MAX_REMEMBERED = 8


@dataclass(frozen=True)
class Check:
    """A check of a GPU.

    Attributes:
        id: its name in metrics, in JSON and in the configuration.
        title: the problem when it is raised.
        rules: the worst of them is the state. It is ok only if all rules have all of their inputs, including the inputs
            of their conditions.
        remedy: what to do. `{...}` stand for evidence.
        critical: what to do at crit, if that differs.
        recurs: what to do in addition if it was raised before within `HISTORY_SECONDS`; empty: that means nothing.
        source: where the thresholds come from.
        guest: whether it makes sense in a vGPU guest, which has a share of a board.
        unless: it does not apply to a GPU with one of these readings instead of its own inputs: another generation.
        superseded_by: it is not evaluated while this reading is present.
        optional: it applies only where its inputs are present.
        note: more about when it is raised.
        cause: what GPUs of one node have in common where it is raised, such as `cooling`: they share one alert.
        required: at least one of these inputs must be present for ok; empty: any input will do.
    """

    id: str
    title: str
    rules: tuple[Rule, ...]
    remedy: str
    critical: str
    recurs: str
    source: str
    guest: bool
    unless: tuple[str, ...]
    superseded_by: str
    optional: bool
    note: str
    cause: str
    required: tuple[str, ...]

    @property
    def rule(self) -> str:
        """When it is raised, in words, from the thresholds of its rules."""
        return "; ".join([rule.sentence for rule in self.rules] + ([self.note] if self.note else []))

    def remedy_at(self, state: State) -> str:
        """Return what to do in a state that it can raise."""
        return (state == "crit" and self.critical) or self.remedy

    @property
    def states(self) -> tuple[State, ...]:
        """The states that it can raise."""
        return tuple(dict.fromkeys(state for rule in self.rules for state in rule.states))

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The inputs of its rules."""
        return tuple(dict.fromkeys(name for rule in self.rules for name in rule.uses))

    @cached_property
    def _own_positions(self) -> Mapping[str, tuple[int, ...]]:
        """By rule that needs all of its inputs, where those are that no other rule has."""
        uses = Counter(name for rule in self.rules for name in rule.inputs)
        return {
            rule.name: tuple([INPUT_POSITION[name] for name in rule.inputs if uses[name] == 1])
            for rule in self.rules
            if rule.needs_all and len(rule.inputs) > 1
        }

    def has_part(self, rule: Rule, inputs: GpuInputs) -> bool:
        """Return whether a rule that is unknown has some of its inputs, which no other rule has."""
        return any(inputs.values[position] is not None for position in self._own_positions.get(rule.name, ()))

    @property
    def depends_on(self) -> tuple[str, ...]:
        """All inputs that its state depends on."""
        superseded_by = (self.superseded_by,) if self.superseded_by else ()
        return (*chain(*[rule.depends_on for rule in self.rules]), *self.unless, *superseded_by)

    def suits(self, model: str, is_guest: bool) -> bool:
        """Return whether it makes sense for a product, and for a share of a board, without any of its inputs."""
        if self.optional or (is_guest and not self.guest):
            return False
        return not all(name.startswith(missing_from_model(model)) for name in self.inputs)


def check(
    id_: str,
    title: str,
    *rules: Rule,
    remedy: str,
    source: str,
    critical: str = "",
    recurs: str = "",
    guest: bool = False,
    unless: tuple[str, ...] = (),
    superseded_by: str = "",
    optional: bool = False,
    note: str = "",
    cause: str = "",
    required: tuple[str, ...] = (),
) -> Check:
    """Return a check as a row of the table: its rules follow its title."""
    return Check(
        id_,
        title,
        rules,
        remedy,
        critical,
        recurs,
        source,
        guest,
        unless,
        superseded_by,
        optional,
        note,
        cause,
        required,
    )


class GpuCheck:
    """A check of one GPU.

    Attributes:
        rules: its rules with their states, in their order.
        suits: whether it makes sense for this GPU without any of its inputs.
        rests: whether its state stays as it is for as long as its inputs do.
        events: number of its events so far.
        history: when it was raised within `HISTORY_SECONDS`, in seconds of the GPU's clock, the newest last.
    """

    __slots__ = ("_counting", "check", "events", "history", "rests", "rules", "state", "suits")

    def __init__(self, check: Check) -> None:
        self.check = check
        self.rules = [(rule, RuleState()) for rule in check.rules]
        self._counting = [state for rule, state in self.rules if rule.has_events]
        self.suits = True
        self.rests = False
        self.state = CheckState(check.id, "unknown")
        self.events = 0
        self.history: tuple[GpuSeconds, ...] = ()

    def evaluate(self, inputs: GpuInputs, time: Unix, now: GpuSeconds) -> CheckState | None:
        """Update the state from its rules.

        Args:
            inputs: of the newest sample.
            time: of the sample, in Unix seconds.
            now: the same by the GPU's clock.

        Returns:
            The state before, if it is another one.
        """
        check, old, covered, is_complete = self.check, self.state, False, True
        worst_rule, worst = self.rules[0]
        for rule, rule_state in self.rules:
            rule.evaluate(rule_state, inputs, now)
            if rule_state.is_covered:
                covered = True
            elif rule_state.measure is not None or check.has_part(rule, inputs):
                is_complete = False
            if rule_state.severity > worst.severity:
                worst_rule, worst = rule, rule_state
        severity, unless = worst.severity, check.unless
        if severity == 0 and not is_complete:
            severity, covered = SEVERITY["unknown"], False
        if severity == 0 and check.required and all(inputs.value(name) is None for name in check.required):
            severity, covered = SEVERITY["unknown"], False
        is_other_kind = unless and any(inputs.value(name) is not None for name in unless)
        applies = covered or (self.suits and not is_other_kind)
        if check.superseded_by and inputs.value(check.superseded_by) is not None:
            severity, covered, applies = SEVERITY["unknown"], False, False
        state = STATES[severity + 1]
        last_event = self._count_events(time, now) if self._counting else None
        if severity > 0:
            if old.severity <= 0:
                self._record_raise(worst_rule, now)
            message = self._message(worst_rule, worst, time, now)
        else:
            message = worst.ignored if severity == 0 else ""
            is_same = state == old.state and covered is old.covered and applies is old.applies
            if is_same and message == old.message and last_event == old.last_event:
                self.rests = all(rule.rests(rule_state, inputs) for rule, rule_state in self.rules)
                return None
        self.rests = False
        evidence = worst_rule.evidence(worst, inputs) if severity >= 0 else ()
        if state == old.state and old.evidence and not (severity > 0 and covered and evidence):
            evidence = old.evidence  # of ok when it was entered, of a raised state when it was covered last
        self.state = CheckState(
            id=check.id,
            state=state,
            since=old.since if state == old.state else time,
            last_event=last_event,
            message=message,
            evidence=evidence,
            remedy=worst_rule.remedy or self._remedy(worst, state, evidence) if severity > 0 else "",
            covered=covered,
            applies=applies,
        )
        return old

    def _count_events(self, time: Unix, now: GpuSeconds) -> Unix | None:
        """Count the events of the rules; return when the last one was, in Unix seconds."""
        last: GpuSeconds | None = None
        for state in self._counting:
            self.events, state.events = self.events + state.events, 0
            if state.event_at is not None and (last is None or state.event_at > last):
                last = state.event_at
        return None if last is None else without_jitter(Unix(time - (now - last)), self.state.last_event)

    def _record_raise(self, rule: Rule, now: GpuSeconds) -> None:
        """Count an event, and remember that the check is raised now."""
        if not rule.counts_events:
            self.events += 1
        if self.check.recurs:
            recent = [at for at in self.history if now - at < HISTORY_SECONDS]
            self.history = (*recent[1 - MAX_REMEMBERED :], now)

    def _message(self, rule: Rule, worst: RuleState, time: Unix, now: GpuSeconds) -> str:
        detail = (
            worst.detail
            or rule.detail
            or ("" if worst.xid is None else f"XID {worst.xid}, {xid_of(worst.xid).description}")
        )
        title = f"{self.check.title}: {detail}" if detail else self.check.title
        cause = f"; each time of {' or '.join(worst.suspects)}" if worst.suspects else ""
        return f"{title}{cause}{self._before(time, now)}"

    def _before(self, time: Unix, now: GpuSeconds) -> str:
        """Return in words when it was raised before, at a moment in Unix seconds and by the GPU's clock."""
        if len(self.history) < 2:
            return ""
        days = (now - self.history[0]) / DAY
        date = datetime.fromtimestamp(time - (now - self.history[-2]), UTC)
        return f" (raised {len(self.history)} times within {max(1, ceil(days))} d, before on {date:%Y-%m-%d})"

    def _remedy(self, worst: RuleState, state: State, evidence: tuple[tuple[str, float], ...]) -> str:
        if worst.suspects:
            programs = " or ".join(worst.suspects)
            return f"XID {worst.xid} repeats with one program: look for its error in the log of {programs}."
        advice = worst.advice or (advice_on(worst.xid, state) if worst.xid is not None else "")
        numbers: dict[str, float | str] = {**dict(evidence), **({"advice": advice} if advice else {})}
        recurs = f" {self.check.recurs}" if len(self.history) > 1 else ""
        try:
            return self.check.remedy_at(state).format_map(numbers) + recurs
        except KeyError:  # held after its inputs have disappeared
            return f"{self.check.title}: check the GPU again, its readings are gone."


def without_jitter(time: Unix, before: Unix | None) -> Unix:
    """Return the time of an event in Unix seconds: the one before if that is the same event."""
    return before if before is not None and abs(time - before) < JITTER else time
