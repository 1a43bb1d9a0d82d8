"""The checks of a configuration, indexed by input: which rules a change of an input concerns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import NamedTuple

from pulsed.compute.health.duty import Duty
from pulsed.compute.health.inputs import ACTIVITY, FACTS
from pulsed.compute.health.resets import RESET_SIGNS
from pulsed.compute.health.rule import Rule
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.health.xid_rule import XidRule
from pulsed.compute.health.xids import XIDS
from pulsed.translate.vocabulary import POSITION, Reading, Value

_MOVING = ("temperature_celsius", "memory_temperature_celsius", "temperature_margin_celsius")
"""Readings that change with nearly every sample."""

REASONS = "clocks_event_reasons"


class InputGroup(NamedTuple):
    """Readings that are compared at once with those of the sample before.

    Attributes:
        get: takes them from a reading.
        users: for each, the rules that depend on its value, as a bit mask.
        witnesses: for each, the rules of checks that depend on its presence, as a bit mask.
    """

    get: Callable[[Reading], tuple[Value, ...]]
    users: tuple[int, ...]
    witnesses: tuple[int, ...]


class HealthPlan:
    """What all GPUs of a configuration have in common.

    Attributes:
        checks: all enabled ones.
        position_of: index of a check by its id.
        rules: of all checks, each with the index of its check.
        moving: the temperatures.
        settled: all other inputs that cause an evaluation.
        fact_users, on_parts, on_xids: the rules that depend on a fact, on duty and on XIDs, as bit masks.
        critical_xids: codes that are counted from 0 on.
    """

    def __init__(self, settings: HealthSettings) -> None:
        self.settings = settings
        self.checks = settings.checks()
        self.position_of: Mapping[str, int] = {check.id: position for position, check in enumerate(self.checks)}
        self.rules: list[tuple[int, Rule]] = [
            (position, rule) for position, check in enumerate(self.checks) for rule in check.rules
        ]
        users = dict.fromkeys((*_MOVING, REASONS, "xid_last_code", *RESET_SIGNS[1:], *FACTS), 0)
        witnesses: dict[str, int] = {}
        self.on_parts = self.on_xids = 0
        for number, (position, rule) in enumerate(self.rules):
            bit = 1 << number
            if isinstance(rule, Duty):
                self.on_parts |= bit
            else:
                for name in rule.uses:
                    users[name] = users.get(name, 0) | bit
            if isinstance(rule, XidRule):
                self.on_xids |= bit
            for name in self.checks[position].applicability:
                if name not in _MOVING:
                    users[name] = users.get(name, 0) | bit
                witnesses[name] = witnesses.get(name, 0) | bit
        witnesses[REASONS] = witnesses.get(REASONS, 0) | self.on_parts
        users.pop(ACTIVITY)
        self.fact_users = {name: users.pop(name) for name in FACTS if name in users}
        self.moving = _group(_MOVING, users, witnesses)
        self.settled = _group(tuple(name for name in users if name not in _MOVING), users, witnesses)
        severities: Mapping[int, str] = {code: xid.severity for code, xid in XIDS.items()} | dict(settings.xids)
        self.critical_xids = tuple(sorted(code for code, severity in severities.items() if severity == "crit"))


def _group(names: tuple[str, ...], users: Mapping[str, int], witnesses: Mapping[str, int]) -> InputGroup:
    get = itemgetter(*(POSITION[name] for name in names))
    return InputGroup(get, tuple(users[name] for name in names), tuple(witnesses.get(name, 0) for name in names))
