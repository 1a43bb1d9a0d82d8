"""Probes that look at one sample: levels, codes, bit masks, comparisons with another reading."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import inf
from typing import TypeVar

from pulsed.compute.health.limits import is_data_centre, limits_of
from pulsed.compute.health.model import SEVERITY, State
from pulsed.compute.health.probe import Probe, View
from pulsed.compute.health.rule import Codes, Comparison, Level, Mask

_ROUNDING = 1e-6
"""So much before a threshold nothing is taken for granted: measures are sums of floats."""

_R = TypeVar("_R", Level, Comparison)


class _CalmProbe(Probe[_R]):
    """A measure that follows from this sample alone, so that it can be said up to where its input tells nothing new."""

    __slots__ = ()

    def ask(self, view: View, now: float) -> int:
        """Work out the severity now; -1 for unknown."""
        severity = super().ask(view, now)
        self.calm = -inf
        if severity == 0 and self.measure is not None:
            threshold = min([threshold for _, threshold in self._keep])
            if self.measure * self.rule.sign < threshold:
                self.calm = self._first_input_at(threshold, view) - _ROUNDING
        elif severity < 0 and self.measure is None and view.value(self.rule.inputs[0]) is not None:
            self.calm = inf  # what is missing is another input
        return severity

    def evidence(self, view: View) -> tuple[tuple[str, float], ...]:
        """Give the numbers that decide: those of now, for which it may not have been asked."""
        self.measure = self._measure(view, 0.0)
        return super().evidence(view)

    def _first_input_at(self, threshold: float, view: View) -> float:
        """Give the first input, times the sign, with which the measure times the sign is at a threshold."""
        raise NotImplementedError


class LevelProbe(_CalmProbe[Level]):
    """The sum of the inputs."""

    __slots__ = ()

    def _first_input_at(self, threshold: float, view: View) -> float:
        return threshold if len(self.rule.inputs) == 1 else -inf

    def _measure(self, view: View, now: float) -> float | None:
        if self.rule.data_centre and not is_data_centre(view.model):
            return None
        total = 0.0
        for name in self.rule.inputs:
            value = view.value(name)
            if value is None:
                return None
            total += value
        return total


class CodesProbe(Probe[Codes]):
    """A code that stands for a state."""

    __slots__ = ("_newest", "_states")

    def __init__(self, rule: Codes) -> None:
        super().__init__(rule)
        self._states = _severities(rule.codes)
        self._newest = max((*self._states, *rule.good))

    def ask(self, view: View, now: float) -> int:
        """Work out the severity now; -1 for unknown."""
        self.measure = value = view.value(self.rule.inputs[0])
        self.is_covered = value is not None
        raw = -1
        if value is not None:
            raw = self._states.get(int(value), 0)
            if self.rule.beyond and value > self._newest:
                raw = SEVERITY[self.rule.beyond]
        severity = self.gate.follow(raw, raw, now)
        self.due = self.gate.due
        return severity


@cache
def _severities(codes: tuple[tuple[int, State], ...]) -> Mapping[int, int]:
    """Give the severity by code; the same object for all GPUs."""
    return {code: SEVERITY[state] for code, state in codes}


class MaskProbe(Probe[Mask]):
    """Small numbers in a bit mask."""

    __slots__ = ()

    def _measure(self, view: View, now: float) -> float | None:
        value = view.value(self.rule.inputs[0])
        if value is None:
            return None
        mask = int(value)
        return float(sum(low <= mask >> shift & (1 << bits) - 1 <= high for shift, bits, low, high in self.rule.faults))


class ComparisonProbe(_CalmProbe[Comparison]):
    """A reading against another one."""

    __slots__ = ()

    def _measure(self, view: View, now: float) -> float | None:
        rule = self.rule
        first, second = view.value(rule.inputs[0]), self._second(view)
        if first is None or second is None:
            return None
        if rule.share:
            return first / second if second else None
        return abs(first - second) if rule.apart else first - second

    def _second(self, view: View) -> float | None:
        rule = self.rule
        if rule.inputs[1] == "pcie_link_width_max" and view.pcie_width_max:
            return float(view.pcie_width_max)
        second = view.value(rule.inputs[1])
        return getattr(limits_of(view.model), rule.fallback) if second is None and rule.fallback else second

    def _first_input_at(self, threshold: float, view: View) -> float:
        rule, second = self.rule, self._second(view)
        if second is None or rule.apart:
            return -inf
        return second * threshold if rule.share else second * rule.sign + threshold

    def evidence(self, view: View) -> tuple[tuple[str, float], ...]:
        """Give the numbers that decide; `limit_from_table` where the limit is not the device's own."""
        found = super().evidence(view)
        rule = self.rule
        if rule.fallback and view.value(rule.inputs[1]) is None:
            limit = getattr(limits_of(view.model), rule.fallback)
            if limit is not None:
                found = (*found, (rule.inputs[1], limit), ("limit_from_table", 1.0))
        return found
