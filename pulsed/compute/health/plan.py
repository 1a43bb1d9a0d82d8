"""The checks of a configuration, indexed by input: which rules a change of an input concerns."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nextafter
from operator import gt, itemgetter

from pulsed.compute.health.duty import Duty
from pulsed.compute.health.inputs import ACTIVITY, EXPORTER_FACTS, SAMPLE_FACTS
from pulsed.compute.health.resets import RESET_SIGNS
from pulsed.compute.health.rule import Rule
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.health.xid_rule import XidRule
from pulsed.compute.health.xids import XIDS
from pulsed.translate.vocabulary import POSITION

XID, REASONS = "xid_last_code", "clocks_event_reasons"

MOVING = ("temperature_celsius", "memory_temperature_celsius", "temperature_margin_celsius")
"""Readings that change with nearly every sample, mostly alone; the first of `HealthPlan.users`."""

MOST_SELECTIONS = 1000
"""Sets of rules that are remembered: the same inputs change together again and again."""


class HealthPlan:
    """What all GPUs of a configuration have in common. Sets of rules are bit masks, by their number.

    Attributes:
        checks: all enabled ones.
        position_of: index of a check by its id.
        rules: of all checks, each with the index of its check.
        readings: number of readings that cause an evaluation.
        reasons: position of `clocks_event_reasons` among them.
        select: takes them from a reading.
        users: for each of them, then of `SAMPLE_FACTS` and `EXPORTER_FACTS`, the rules to evaluate if it changes.
        activity_levels: the activities above which a condition about it has another outcome.
        on_blanks, on_watches, on_parts, on_xids, on_resets: the rules that depend on `inputs_blank_ratio`, on
            `health_watches`, on duty, on XIDs, and a bit of its own for the counters that show a reset.
        all_rules: all of them.
        critical_xids: codes that are counted from 0 on.
    """

    def __init__(self, settings: HealthSettings) -> None:
        self.settings = settings
        self.checks = settings.checks()
        self.position_of: Mapping[str, int] = {check.id: position for position, check in enumerate(self.checks)}
        self.rules: list[tuple[int, Rule]] = [
            (position, rule) for position, check in enumerate(self.checks) for rule in check.rules
        ]
        self._selected: dict[int, tuple[tuple[int, int, Rule], ...]] = {}
        self.on_parts = self.on_xids = 0
        self.all_rules, self.on_resets = (1 << len(self.rules)) - 1, 1 << len(self.rules)
        users = dict.fromkeys((*MOVING, REASONS, XID), 0) | dict.fromkeys(RESET_SIGNS[1:], self.on_resets)
        for number, (position, rule) in enumerate(self.rules):
            bit = 1 << number
            if isinstance(rule, Duty):
                self.on_parts |= bit
            if isinstance(rule, XidRule):
                self.on_xids |= bit
            for name in () if isinstance(rule, Duty) else rule.uses:
                users[name] = users.get(name, 0) | bit
            for name in self.checks[position].applicability:
                users.setdefault(name, 0)
        self.on_blanks, self.on_watches = users.get("inputs_blank_ratio", 0), users.get("health_watches", 0)
        names = [name for name in users if name in POSITION]
        self.readings, self.reasons = len(names), names.index(REASONS)
        self.select = itemgetter(*(POSITION[name] for name in names))
        users["activity_step"] = users.get(ACTIVITY, 0)
        self.users = tuple([users.get(name, 0) for name in (*names, *SAMPLE_FACTS, *EXPORTER_FACTS)])
        conditions = [when for _, rule in self.rules for when in rule.when if when.quantity == ACTIVITY]
        self.activity_levels = sorted(
            {when.value if when.compare is gt else nextafter(when.value, -inf) for when in conditions}
        )
        severities: Mapping[int, str] = {code: xid.severity for code, xid in XIDS.items()} | dict(settings.xids)
        self.critical_xids = tuple(sorted(code for code, severity in severities.items() if severity == "crit"))

    def selected(self, rules: int) -> tuple[tuple[int, int, Rule], ...]:
        """Return the rules of a bit mask: number, index of the check, and rule."""
        if (found := self._selected.get(rules)) is None:
            if len(self._selected) >= MOST_SELECTIONS:
                self._selected.clear()
            numbered = enumerate(self.rules)
            found = tuple([(number, position, rule) for number, (position, rule) in numbered if rules >> number & 1])
            self._selected[rules] = found
        return found
