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
from pulsed.model.health import STATES, CheckState, State

JITTER = 0.5
"""Tolerance in seconds of the wall clock time of the same event."""

HISTORY_SECONDS = 30 * DAY
"""For so long it is remembered that a check was raised."""

MOST_REMEMBERED = 8


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

    @property
    def applicability(self) -> tuple[str, ...]:
        """The readings whose presence decides whether it applies."""
        return (*self.unless, *((self.superseded_by,) if self.superseded_by else ()))


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

    def severity(self, inputs: GpuInputs) -> int:
        """Return the severity that its rules have now; -1 for unknown."""
        return -1 if self._is_superseded(inputs) else max([rule.severity for rule in self.rules])

    def evaluate(self, inputs: GpuInputs, now: float) -> None:
        """Evaluate its rules, at a moment of the GPU's clock."""
        for rule, state in zip(self.check.rules, self.rules, strict=True):
            rule.evaluate(state, inputs, now)
            if state.events:
                self.events, state.events = self.events + state.events, 0

    def conclude(self, inputs: GpuInputs, is_guest: bool, time: float, now: float) -> None:
        """Update the state from its rules.

        A guest is a GPU that is a share of a board. The time of the sample is in Unix seconds, and by the GPU's clock.
        """
        check, old = self.check, self.state
        covered = True in [rule.is_covered for rule in self.rules]
        severities = [rule.severity for rule in self.rules]
        severity = max(severities)
        worst = severities.index(severity)
        applies = covered or not (
            check.optional
            or (is_guest and not check.guest)
            or all(name.startswith(missing_from_model(inputs.model)) for name in check.inputs)
            or any(inputs.value(name) is not None for name in check.unless)
        )
        if self._is_superseded(inputs):
            severity, covered, applies = -1, False, False
        rule, state = self.rules[worst], STATES[severity + 1]
        last_event = self._last_event(time, now)
        ignored = rule.ignored if severity == 0 else ""
        is_same = state == old.state
        if severity > 0:
            self._count(worst, now)
        elif is_same and (covered, applies, last_event, ignored) == (
            old.covered,
            old.applies,
            old.last_event,
            old.message,
        ):
            return
        evidence = check.rules[worst].evidence(rule, inputs) if severity >= 0 else ()
        if is_same and old.evidence and not (severity > 0 and covered and evidence):
            evidence = old.evidence  # of ok when it was entered, of a raised state when it was covered last
        self.state = CheckState(
            id=check.id,
            state=state,
            since=old.since if is_same else time,
            last_event=last_event,
            message=self._message(rule, time, now) if severity > 0 else ignored,
            evidence=evidence,
            remedy=_remedy(check, worst, state, rule, evidence, len(self.history) > 1) if severity > 0 else "",
            covered=covered,
            applies=applies,
        )

    def _count(self, worst: int, now: float) -> None:
        """Count an event and remember it, if the check is raised only now."""
        if self.state.severity > 0:
            return
        if not self.check.rules[worst].counts_events:
            self.events += 1
        if self.check.recurs:
            known = [at for at in self.history if now - at < HISTORY_SECONDS]
            self.history = (*known[1 - MOST_REMEMBERED :], now)

    def _message(self, rule: RuleState, time: float, now: float) -> str:
        detail = rule.detail or ("" if rule.xid is None else f"XID {rule.xid}, {xid_of(rule.xid).description}")
        title = f"{self.check.title}: {detail}" if detail else self.check.title
        cause = f"; each time of {_either(rule.suspects)}" if rule.suspects else ""
        return f"{title}{cause}{self._before(time, now)}"

    def _before(self, time: float, now: float) -> str:
        """Return in words when it was raised before, at a moment in Unix seconds and by the GPU's clock."""
        if len(self.history) < 2:
            return ""
        days = (now - self.history[0]) / DAY
        date = datetime.fromtimestamp(time - (now - self.history[-2]), UTC)
        return f" (raised {len(self.history)} times within {max(1, ceil(days))} d, before on {date:%Y-%m-%d})"

    def _is_superseded(self, inputs: GpuInputs) -> bool:
        return bool(self.check.superseded_by) and inputs.value(self.check.superseded_by) is not None

    def _last_event(self, time: float, now: float) -> float | None:
        moments = [rule.event_at for rule in self.rules if rule.event_at is not None]
        if not moments:
            return None
        return without_jitter(time - (now - max(moments)), self.state.last_event)


def without_jitter(time: float, before: float | None) -> float:
    """Return the time of an event in Unix seconds: the one before if that is the same event."""
    return before if before is not None and abs(time - before) < JITTER else time


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(names)


def _remedy(
    check: Check, worst: int, state: State, rule: RuleState, evidence: tuple[tuple[str, float], ...], recurs: bool
) -> str:
    if rule.suspects:
        return f"XID {rule.xid} repeats with one program: look for its error in the log of {_either(rule.suspects)}."
    advice = check.rules[worst].advice(rule, dict(evidence))
    numbers: dict[str, float | str] = dict(evidence) | ({"advice": advice} if advice else {})
    if rule.xid is not None:
        numbers["advice"] = advice or advice_on(rule.xid, state)
    try:
        return check.remedy_at(state).format_map(numbers) + (f" {check.recurs}" if recurs else "")
    except KeyError:  # held after its inputs have disappeared
        return f"{check.title}: check the GPU again, its readings are gone."
