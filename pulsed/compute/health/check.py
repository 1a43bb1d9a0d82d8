"""A check: rules of which the worst decides, and its state for one GPU."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from math import ceil

from pulsed.compute.health.inputs import GpuInputs
from pulsed.compute.health.rule import DAY, Rule, RuleState
from pulsed.compute.health.xids import advice_on, xid_of
from pulsed.compute.products import missing_from_model
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
        title: what is wrong when it is raised.
        rules: the worst of them is the state; it is known as soon as one of them is.
        remedy: what to do. `{...}` stand for evidence.
        critical: what to do at crit, if that differs.
        recurs: what to do in addition if it was raised before within `HISTORY_SECONDS`; empty: that means nothing.
        source: where the thresholds come from.
        guest: whether it makes sense in a vGPU guest, which has a share of a board.
        unless: it does not apply to a GPU with one of these readings instead of its own inputs: another generation.
        superseded_by: it is not evaluated while this reading is present.
        optional: it applies only where its inputs are present.
        note: more about when it is raised.
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
        """The inputs that decide."""
        return tuple(dict.fromkeys(name for rule in self.rules for name in rule.uses))

    def applies_to(self, inputs: GpuInputs, is_guest: bool) -> bool:
        """Return whether it makes sense for a GPU without any of its inputs."""
        return not (
            self.optional
            or (is_guest and not self.guest)
            or all(name.startswith(missing_from_model(inputs.model)) for name in self.inputs)
            or any(inputs.value(name) is not None for name in self.unless)
        )


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
) -> Check:
    """Return a check as a row of the table: its rules follow its title."""
    return Check(id_, title, rules, remedy, critical, recurs, source, guest, unless, superseded_by, optional, note)


class GpuCheck:
    """A check of one GPU.

    Attributes:
        rules: the states of its rules, in their order.
        events: number of its events so far.
        history: when it was raised within `HISTORY_SECONDS`, in seconds of the GPU's clock, the newest last.
    """

    __slots__ = ("check", "events", "history", "rules", "state")

    def __init__(self, check: Check) -> None:
        self.check = check
        self.rules = [RuleState() for _ in check.rules]
        self.state = CheckState(check.id, "unknown")
        self.events = 0
        self.history: tuple[float, ...] = ()

    def evaluate(self, inputs: GpuInputs, is_guest: bool, time: float, now: float) -> None:
        """Update the state from its rules.

        Args:
            inputs: of the newest sample.
            is_guest: whether the GPU is a share of a board.
            time: of the sample, in Unix seconds.
            now: the same by the GPU's clock.
        """
        old, worst, worst_rule, covered = self.state, self.rules[0], self.check.rules[0], False
        for rule, rule_state in zip(self.check.rules, self.rules, strict=True):
            rule.evaluate(rule_state, inputs, now)
            self.events, rule_state.events = self.events + rule_state.events, 0
            covered = covered or rule_state.is_covered
            if rule_state.severity > worst.severity:
                worst, worst_rule = rule_state, rule
        severity = worst.severity
        applies = covered or self.check.applies_to(inputs, is_guest)
        if self.check.superseded_by and inputs.value(self.check.superseded_by) is not None:
            severity, covered, applies = SEVERITY["unknown"], False, False
        state = STATES[severity + 1]
        last_event = self._last_event(time, now)
        message = worst.ignored if severity == 0 else ""
        unchanged = (old.state, old.covered, old.applies, old.last_event, old.message)
        if severity > 0:
            if old.severity <= 0:
                self._record_raise(worst_rule, now)
            message = self._message(worst, time, now)
        elif (state, covered, applies, last_event, message) == unchanged:
            return
        evidence = worst_rule.evidence(worst, inputs) if severity >= 0 else ()
        if state == old.state and old.evidence and not (severity > 0 and covered and evidence):
            evidence = old.evidence  # of ok when it was entered, of a raised state when it was covered last
        self.state = CheckState(
            id=self.check.id,
            state=state,
            since=old.since if state == old.state else time,
            last_event=last_event,
            message=message,
            evidence=evidence,
            remedy=self._remedy(worst, state, evidence) if severity > 0 else "",
            covered=covered,
            applies=applies,
        )

    def _record_raise(self, rule: Rule, now: float) -> None:
        """Count an event, and remember that the check is raised now."""
        if not rule.counts_events:
            self.events += 1
        if self.check.recurs:
            recent = [at for at in self.history if now - at < HISTORY_SECONDS]
            self.history = (*recent[1 - MAX_REMEMBERED :], now)

    def _message(self, worst: RuleState, time: float, now: float) -> str:
        detail = worst.detail or ("" if worst.xid is None else f"XID {worst.xid}, {xid_of(worst.xid).description}")
        title = f"{self.check.title}: {detail}" if detail else self.check.title
        cause = f"; each time of {' or '.join(worst.suspects)}" if worst.suspects else ""
        return f"{title}{cause}{self._before(time, now)}"

    def _before(self, time: float, now: float) -> str:
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

    def _last_event(self, time: float, now: float) -> float | None:
        moments = [rule.event_at for rule in self.rules if rule.event_at is not None]
        return without_jitter(time - (now - max(moments)), self.state.last_event) if moments else None


def without_jitter(time: float, before: float | None) -> float:
    """Return the time of an event in Unix seconds: the one before if that is the same event."""
    return before if before is not None and abs(time - before) < JITTER else time
