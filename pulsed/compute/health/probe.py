"""What all probes have: a rule for one GPU, from its measure to its state.

A probe is asked again only when one of its inputs has changed, or when it said that it would be due.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import inf
from typing import ClassVar, Generic, Protocol, TypeVar

from pulsed.compute.health.clock_events import ClockEvents
from pulsed.compute.health.gate import Gate
from pulsed.compute.health.model import SEVERITY
from pulsed.compute.health.rule import ACTIVITY, Levels, Rule, When
from pulsed.compute.health.xid_log import XidLog
from pulsed.translate.tick import Extras

Thresholds = list[tuple[int, float]]

SOON = 1.0
"""Seconds after which a rule that depends on activity, which always moves, is looked at again."""


class View(Protocol):
    """What a probe sees of its GPU."""

    model: str
    extras: Extras | None
    clock_events: ClockEvents
    xids: XidLog
    severities: Mapping[int, str]
    pcie_width_max: int

    def value(self, name: str) -> float | None:
        """Give a reading, or another input, by name."""

    def is_covered(self, check: str) -> bool:
        """Tell whether a check of this GPU has its inputs."""


_R = TypeVar("_R", bound=Rule)


class Probe(Generic[_R]):
    """A rule at work.

    Attributes:
        rule: which.
        gate: its state.
        due: when to ask again although nothing changed.
        measure: the newest measure; None while unknown.
        events: how many events it has seen; 0 for rules that know none.
        event_at: when the last one was, by the clock; None for none, and where it is not known.
        is_covered: whether its inputs are there.
        may_change_quietly: whether what decides can change while the severity stays.
        rests: whether nothing comes of it until something is seen that was not there; see the kinds that do.
        calm: nothing comes of it while its first input, times the sign of `Rule.sign`, stays below this and its other
            inputs stay as they are; -inf if that cannot be said.
    """

    __slots__ = ("_keep", "_levels", "calm", "due", "event_at", "events", "gate", "is_covered", "measure", "rule")

    may_change_quietly: ClassVar[bool] = False
    rests: bool = False

    def __init__(self, rule: _R) -> None:
        self.rule = rule
        self.gate = Gate(rule.enter, rule.hold, rule.release)
        self.due = inf
        self.measure: float | None = None
        self.events = 0
        self.event_at: float | None = None
        self.is_covered = False
        self.calm = -inf
        self._levels, self._keep = _thresholds(rule.levels, rule.sign, rule.clear, rule.clear_share)

    @property
    def counts_events(self) -> bool:
        """Whether it counts events one by one; of others it counts how often they were raised."""
        return False

    def ask(self, view: View, now: float) -> int:
        """Work out the severity now; -1 for unknown."""
        self.due = inf
        self.measure = measure = self._measure(view, now)
        self.is_covered = measure is not None
        if measure is not None and self.rule.when:
            measure = self._conditional(measure, view, now)
        if measure is None:
            severity = self.gate.follow(-1, -1, now)
        else:
            signed = measure * self.rule.sign
            severity = self.gate.follow(reached(self._levels, signed), reached(self._keep, signed), now)
        self.due = min(self.due, self.gate.due)
        return severity

    def evidence(self, view: View) -> tuple[tuple[str, float], ...]:
        """Give the numbers that decide."""
        found = {} if self.measure is None else {self.rule.name: self.measure}
        for name in self.rule.uses:
            value = view.value(name)
            if value is not None:
                found.setdefault(name, value)
        return tuple(found.items())

    def _measure(self, view: View, now: float) -> float | None:
        raise NotImplementedError

    def _conditional(self, measure: float, view: View, now: float) -> float | None:
        """Give the measure if the conditions hold; one that reaches nothing if not, None if that is not known."""
        if reached(self._levels, measure * self.rule.sign) == 0 and self.gate.held <= 0:
            # Conditions only take away: no need to know them.
            known = [when for when in self.rule.when if when.sign == "absent"]
        else:
            known = list(self.rule.when)
        for when in known:
            value = view.value(when.quantity)
            if when.sign == "absent":
                if value is not None:
                    self.is_covered = False
                    return None
                continue
            if when.quantity == ACTIVITY:
                self.due = now + SOON
            if value is None:
                self.is_covered = False
                return None
            if not _holds(when, value):
                return -inf * self.rule.sign
        return measure


@cache
def _thresholds(levels: Levels, sign: float, clear: float, clear_share: bool) -> tuple[Thresholds, Thresholds]:
    """Give what to reach, by severity, and what to keep; the same objects for all GPUs."""
    reach = [(SEVERITY[state], sign * threshold) for state, threshold in levels]
    keep = [(severity, one - (abs(one) * clear if clear_share else clear)) for severity, one in reach]
    return reach, keep


def _holds(when: When, value: float) -> bool:
    if when.sign == "==":
        return value == when.value
    return value > when.value if when.sign == ">" else value < when.value


def reached(levels: Thresholds, measure: float) -> int:
    """Give the worst severity whose threshold a measure reaches; 0 for none."""
    worst = 0
    for severity, threshold in levels:
        if measure >= threshold and severity > worst:
            worst = severity
    return worst
