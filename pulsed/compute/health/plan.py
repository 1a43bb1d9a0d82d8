"""Which rules a sample concerns: those whose inputs changed, and those that are due.

A sample with unchanged inputs and nothing due costs only comparisons. Sets of rules are bit masks, by their number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache, partial, reduce
from itertools import accumulate, compress, pairwise
from math import inf, nextafter
from operator import gt, itemgetter, ne, or_
from typing import cast

from pulsed.compute.health.check import GpuCheck
from pulsed.compute.health.clock_events import FEWEST_SAMPLES
from pulsed.compute.health.inputs import ACTIVITY, COMPARED_FACTS, IN_EXTRAS, GpuInputs
from pulsed.compute.health.restarts import RESET_SIGNS
from pulsed.compute.health.rule import NEW, OK, Rule, RuleState
from pulsed.compute.health.rule_kinds import Duty, Increase
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.health.xid_rule import XidRule
from pulsed.compute.health.xids import XIDS
from pulsed.model.vocabulary import POSITION, Reading, Value

XID, REASONS = "xid_last_code", "clocks_event_reasons"

MOVING = ("temperature_celsius", "memory_temperature_celsius", "temperature_margin_celsius")
"""Readings that change with nearly every sample, mostly alone; the first of `HealthPlan.users`."""

_IN_EXTRAS: tuple[Value, ...] = (None,) * len(IN_EXTRAS)

MOST_SELECTIONS = 1000
"""Sets of rules that are remembered: the same inputs change together again and again."""


def plan_of(settings: HealthSettings) -> HealthPlan:
    """Return the plan of these settings: the same one as before if they are equal, as of all targets of a fleet."""
    global _newest
    if _newest is None or _newest.settings != settings:
        _newest = HealthPlan(settings)
    return _newest


class HealthPlan:
    """What all GPUs of a configuration have in common.

    Attributes:
        checks: all enabled ones.
        position_of: by id of a check, its index in `checks`.
        rules: of all checks, each with the index of its check and its own number.
        rules_of: the numbers of the rules of each check.
        readings: number of readings that cause an evaluation.
        reasons: position of `clocks_event_reasons` among them.
        select: takes them from a reading.
        users: for each of them, then of `COMPARED_FACTS`, the rules to evaluate if it changes.
        selected: returns the rules of a bit mask, as `rules` has them.
        activity_levels: the activities above which a condition about it has another outcome.
        on_parts, on_gaps, on_xids, on_nvlink_xids, on_watches, on_links, on_blanks: the rules about duty, about duty or
            increases, about XIDs, those of NVLinks, `health_watches`, each NVLink, and `inputs_blank_ratio`.
        duty_bits, duty_counters, duty_seconds: of the rules about duty: the bits of `clocks_event_reasons` that they
            use, what takes their counters from a reading, and the longest window.
        on_resets: a bit of its own for the counters that show a reset.
        all_rules: all of them.
        critical_xids: codes that are counted from 0 on, in their order.
        is_critical: the same codes.
    """

    def __init__(self, settings: HealthSettings) -> None:
        self.settings = settings
        self.checks = settings.checks()
        self.position_of = {check.id: position for position, check in enumerate(self.checks)}
        ends = list(accumulate((len(check.rules) for check in self.checks), initial=0))
        self.rules_of = [slice(first, end) for first, end in pairwise(ends)]
        self.rules: list[tuple[int, int, Rule]] = [
            (position, number, rule)
            for position, (check, numbers) in enumerate(zip(self.checks, self.rules_of, strict=True))
            for number, rule in enumerate(check.rules, numbers.start)
        ]
        self.selected = lru_cache(MOST_SELECTIONS)(partial(_selected, self.rules))
        self.all_rules, self.on_resets = (1 << len(self.rules)) - 1, 1 << len(self.rules)
        self.on_parts, self.on_xids = self._of_kind(Duty), self._of_kind(XidRule)
        self.on_nvlink_xids = sum(
            1 << number
            for number, (*_, rule) in enumerate(self.rules)
            if isinstance(rule, XidRule) and rule.choose == "nvlink"
        )
        self.on_gaps = self.on_parts | self._of_kind(Increase)
        duties = [rule for *_, rule in self.rules if isinstance(rule, Duty)]
        self.duty_bits = reduce(or_, [rule.bits for rule in duties], 0)
        self.duty_seconds = max([rule.window for rule in duties], default=0.0)
        counters = [POSITION[name] for rule in duties for name in rule.inputs]
        self.duty_counters = itemgetter(*(counters or [POSITION[REASONS]]))
        users = dict.fromkeys((*MOVING, REASONS, XID), 0) | dict.fromkeys(RESET_SIGNS[1:], self.on_resets)
        for number, (position, _, rule) in enumerate(self.rules):
            for name in () if isinstance(rule, Duty) else rule.uses:
                users[name] = users.get(name, 0) | 1 << number
            for name in self.checks[position].applicability:
                users.setdefault(name, 0)
        self.on_blanks, self.on_watches = users.get("inputs_blank_ratio", 0), users.get("health_watches", 0)
        self.on_links = users.get("nvlink_states", 0) | users.get("nvlink_counters", 0)
        names = [name for name in users if name in POSITION]
        self.readings, self.reasons = len(names), names.index(REASONS)
        self.select = itemgetter(*(POSITION[name] for name in names))
        users["activity_step"] = users.get(ACTIVITY, 0)
        self.users = tuple([users.get(name, 0) for name in (*names, *COMPARED_FACTS)])
        conditions = [when for *_, rule in self.rules for when in rule.when if when.quantity == ACTIVITY]
        self.activity_levels = sorted(
            {when.value if when.compare is gt else nextafter(when.value, -inf) for when in conditions}
        )
        codes = sorted({*XIDS, *settings.xids})
        self.critical_xids = tuple([code for code in codes if settings.severity_of(code) == "crit"])
        self.is_critical = frozenset(self.critical_xids)

    def _of_kind(self, kind: type[Rule]) -> int:
        return sum(1 << number for number, (*_, rule) in enumerate(self.rules) if isinstance(rule, kind))


def _selected(all_rules: list[tuple[int, int, Rule]], rules: int) -> tuple[tuple[int, int, Rule], ...]:
    return tuple([each for number, each in enumerate(all_rules) if rules >> number & 1])


class GpuRules:
    """The rules of one GPU, with their states.

    Attributes:
        checks: all enabled checks.
        states: of the rules, by number.
        pending: the rules to evaluate with this sample although no compared input changed and they are not due.
        due: when the next rule is due, in seconds of the GPU's clock.
        blank_ratio: share of the inputs that the GPU once had and that are missing now.
    """

    def __init__(self, plan: HealthPlan) -> None:
        self.plan = plan
        self.checks = [GpuCheck(check) for check in plan.checks]
        self.states = [NEW] * len(plan.rules)
        self.pending = 0
        self.due = -inf
        self.blank_ratio = 0.0
        self._compared: tuple[Value, ...] = (None,) * len(plan.users)
        self._most_present = 1
        self._is_presence_changed = False
        self._duties_at_rest: tuple[Value, ...] | None = None
        self._rested: list[float] = []

    def severity_of(self, id_: str, inputs: GpuInputs) -> int:
        """Return the severity of a check by its id; -1 while it is unknown or disabled."""
        position = self.plan.position_of.get(id_)
        return -1 if position is None else self.checks[position].severity(self.states_of(position), inputs)

    def states_of(self, position: int) -> list[RuleState]:
        """Return the states of the rules of a check."""
        return self.states[self.plan.rules_of[position]]

    def conclude(self, position: int, inputs: GpuInputs, is_guest: bool, time: float, now: float) -> bool:
        """Update a check from its rules: see `GpuCheck.conclude`."""
        check, numbers = self.checks[position], self.plan.rules_of[position]
        states = self.states[numbers]
        self.states[numbers] = [state.settled(rule) for state, rule in zip(states, check.check.rules, strict=True)]
        return check.conclude(states, inputs, is_guest, time, now)

    def resolve(self, moment: float) -> None:
        """Take a reset of the GPU at a moment in seconds of its clock."""
        for number, ((*_, rule), state) in enumerate(zip(self.plan.rules, self.states, strict=True)):
            if state.severity > 0 and rule.resolve(state, moment):
                self.pending |= 1 << number

    def interrupt(self) -> None:
        """Take a gap: no level was reached without a break, and the source may have other fields since."""
        self.pending |= self.plan.on_gaps
        for state in self.states:
            if state.reached_since is not None:
                state.reached_since = None
        self.forget_inputs()

    def forget_inputs(self) -> None:
        """Forget inputs that are not present now: the source has other fields."""
        self._most_present = 1
        self._set_blank_ratio(0.0)

    def compare(self, values: tuple[Value, ...]) -> None:
        """Add the rules that depend on what changed, in the order of `HealthPlan.users`, to those to evaluate.

        If inputs have appeared or disappeared, those are all rules, as other checks may apply. Shares of time then
        change only if that is so for the reasons of reduced clocks themselves.
        """
        before = self._compared
        if values == before:
            return
        plan, self._compared = self.plan, values
        is_settled = values[len(MOVING) :] == before[len(MOVING) :]
        changed = list(map(ne, before[: len(MOVING)], values) if is_settled else map(ne, before, values))
        for rules in compress(plan.users, changed):
            self.pending |= rules
        del changed[plan.readings :]
        if None in compress(before, changed) or None in compress(values, changed):
            self._is_presence_changed = True
            present = plan.readings - values[: plan.readings].count(None)
            self._most_present = max(self._most_present, present)
            self.pending |= plan.all_rules & ~plan.on_parts
            self._set_blank_ratio(round(1.0 - present / self._most_present, 2))
            if (before[plan.reasons] is None) is not (values[plan.reasons] is None):
                self.pending |= plan.on_parts

    def take_part(self, reading: Reading, seen: int, now: float) -> None:
        """Add the rules about duty, unless nothing has moved since all their shares were 0; `seen` are the bits that
        were set in their windows."""
        plan, rested = self.plan, self._rested
        is_at_rest = not (self._is_presence_changed or self.pending & plan.on_parts or seen & plan.duty_bits)
        if not is_at_rest or plan.duty_counters(reading) != self._duties_at_rest:
            self.pending |= plan.on_parts
            return
        rested.append(now)
        while len(rested) > FEWEST_SAMPLES and now - rested[1] >= plan.duty_seconds:
            del rested[0]

    def evaluate(self, inputs: GpuInputs, reading: Reading, activity: Value, now: float) -> Collection[int]:
        """Evaluate the rules that are pending or due; return the positions of the checks to conclude."""
        plan = self.plan
        inputs.values = reading + self._compared[plan.readings :] + (self.blank_ratio, activity, *_IN_EXTRAS)
        rules, self.pending = self.pending & plan.all_rules, 0
        is_due = now >= self.due
        if is_due:
            for number, state in enumerate(self.states):
                if state.due <= now:
                    rules |= 1 << number
        touched: set[int] = set()
        if rules & plan.on_parts:
            self._catch_up()
        self._run(rules & ~plan.on_watches, touched, inputs, now)
        if touched or rules & plan.on_watches:  # results of DCGM's watches count where other checks have no inputs
            self._run(plan.on_watches, touched, inputs, now)
        self._is_presence_changed = False
        if rules & plan.on_parts:
            are_all = not plan.on_parts & ~rules
            is_at_rest = are_all and all(rule.rests(state, inputs) for rule, state in self._duties())
            self._duties_at_rest = plan.duty_counters(reading) if is_at_rest else None
        if is_due:
            self.due = min([state.due for state in self.states], default=inf)
        return touched

    def _run(self, rules: int, touched: set[int], inputs: GpuInputs, now: float) -> None:
        """Evaluate rules; add the checks to conclude."""
        states = self.states
        for position, number, rule in self.plan.selected(rules):
            state, is_changed = states[number], False
            if state is not OK or not rule.stays_ok(inputs):
                state = state.own()
                is_changed = rule.evaluate(state, inputs, now)
                states[number] = state
                self.due = min(self.due, state.due)
            if is_changed or (self._is_presence_changed and self.checks[position].check.applicability):
                self.checks[position].events += state.events
                touched.add(position)
            else:
                states[number] = state.settled(rule)

    def _catch_up(self) -> None:
        """Take the parts in which the rules about duty were at rest."""
        for rule, state in self._duties() if self._rested else ():
            for counter in (state.duties or {}).values():
                counter.rest(self._rested, rule.window)
        self._rested.clear()

    def _duties(self) -> Iterator[tuple[Duty, RuleState]]:
        """Yield the rules about duty with their states."""
        for _, number, rule in self.plan.selected(self.plan.on_parts):
            yield cast("Duty", rule), self.states[number]

    def _set_blank_ratio(self, ratio: float) -> None:
        if ratio != self.blank_ratio:
            self.blank_ratio = ratio
            self.pending |= self.plan.on_blanks


_newest: HealthPlan | None = None
