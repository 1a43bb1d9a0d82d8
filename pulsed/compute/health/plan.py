"""The checks of a configuration, laid out so that a sample costs little: which rule depends on which reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from pulsed.compute.health.resets import RESET_SIGNS
from pulsed.compute.health.rule import ACTIVITY, Comparison, Duty, Events, Level, Rule
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.health.xids import XIDS
from pulsed.translate.vocabulary import POSITION, Value

MOVING = ("temperature_celsius", "memory_temperature_celsius", "temperature_margin_celsius")
"""Readings that are hardly ever as they were, and mostly far from where anything comes of it."""


class Moving(NamedTuple):
    """A moving reading.

    Attributes:
        followers: the rules that say themselves up to where nothing comes of it (`Probe.calm`), each with its sign.
        others: all other rules that depend on its value, as a bit mask.
        witnesses: those for which it only counts whether it is there.
    """

    followers: tuple[tuple[int, float], ...]
    others: int
    witnesses: int


class DutyRule(NamedTuple):
    """A rule that looks at shares of time.

    Attributes:
        number: which.
        bits: the clock events that it looks at.
        counters: positions in `Reading` of the counters of seconds that go before them.
    """

    number: int
    bits: int
    counters: tuple[int, ...]


class HealthPlan:
    """What all GPUs of a configuration have in common.

    Attributes:
        settings: the configuration.
        checks: those that are not disabled.
        position_of: by id, where a check is among them.
        rules: of all checks, each with the position of its check.
        get: takes from a `Reading` all inputs, but for those that move with every sample: the temperatures, activity,
            energy and the counters of seconds.
        get_moving: takes the temperatures.
        moving: by position in what `get_moving` gives, who follows it.
        users: by position in what `get` gives, the rules that depend on it, as a bit mask.
        fact_users: the same by name of an input that is no reading.
        duties: the rules that look at shares of time.
        on_parts: the same as a bit mask.
        on_xids: the rules that look at XIDs.
        conditional: the checks that apply or not depending on readings.
        critical_xids: codes to count from 0 on.
    """

    def __init__(self, settings: HealthSettings) -> None:
        self.settings = settings
        self.checks = settings.checks()
        self.position_of: Mapping[str, int] = {check.id: position for position, check in enumerate(self.checks)}
        self.rules: list[tuple[int, Rule]] = [
            (position, rule) for position, check in enumerate(self.checks) for rule in check.rules
        ]
        of_readings: dict[str, int] = dict.fromkeys((*RESET_SIGNS[1:], "xid_last_code"), 0)
        followers: dict[str, tuple[tuple[int, float], ...]] = dict.fromkeys(MOVING, ())
        witnesses = dict.fromkeys(MOVING, 0)
        self.fact_users: dict[str, int] = {}
        self.duties: list[DutyRule] = []
        self.on_parts = self.on_xids = 0
        for number, (position, rule) in enumerate(self.rules):
            bit = 1 << number
            if isinstance(rule, Duty):
                self.on_parts |= bit
                self.duties.append(DutyRule(number, rule.bits, tuple([POSITION[name] for name in rule.inputs])))
            if isinstance(rule, Events):
                self.on_xids |= bit
            check = self.checks[position]
            names = list(rule.uses)
            for name in (*check.unless, *([check.superseded_by] if check.superseded_by else [])):
                if name in witnesses:
                    witnesses[name] |= bit
                else:
                    names.append(name)
            if isinstance(rule, (Level, Comparison)) and rule.inputs[0] in followers:
                first = rule.inputs[0]
                followers[first] = (*followers[first], (number, rule.sign))
                names.remove(first)
            for name in names:
                users = of_readings if name in POSITION else self.fact_users
                if name != ACTIVITY and not isinstance(rule, Duty):
                    users[name] = users.get(name, 0) | bit
        self.moving = tuple([Moving(followers[name], of_readings.pop(name, 0), witnesses[name]) for name in MOVING])
        self.get_moving = _getter(MOVING)
        names_read = list(of_readings)
        self.get = _getter(names_read)
        self.users = [of_readings[name] for name in names_read]
        self.size = len(names_read)
        self.conditional = frozenset(
            position for position, check in enumerate(self.checks) if check.unless or check.superseded_by
        )
        severities: Mapping[int, str] = {code: xid.severity for code, xid in XIDS.items()} | dict(settings.xids)
        self.critical_xids = tuple(sorted(code for code, severity in severities.items() if severity == "crit"))


def _getter(names: Sequence[str]) -> Callable[[tuple[Value, ...]], tuple[Value, ...]]:
    return itemgetter(*(POSITION[name] for name in names))
