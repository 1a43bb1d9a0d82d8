"""Level rules: the measure follows from the inputs of one sample. With the measures other than a single input."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pulsed.compute.health.inputs import INPUT_POSITION, GpuInputs
from pulsed.compute.health.model import SEVERITY, State, has_passed
from pulsed.compute.health.rule import Rule, RuleState
from pulsed.compute.health.temperature_limits import is_data_centre, limits_of
from pulsed.model.vocabulary import Value

# Replays per minute and lane that a bit error rate of 1e-12 explains, by generation (DCGM's PCIe watch). 4 and newer
# would do with less, as links correct more; DCGM scales them all alike.
_REPLAYS_PER_LANE: Mapping[int, float] = {1: 0.15, 2: 0.3, 3: 0.48, 4: 0.96, 5: 1.92, 6: 3.84}
_UNKNOWN_LINK = (5, 16)

_FAILURE = 20.0
"""Result of a failure of a DCGM watch."""

_MILD = 5.0
"""Result of a warning of a DCGM watch whose warnings are noise."""


@dataclass(frozen=True, kw_only=True)
class Level(Rule):
    """The measure follows from the inputs of one sample.

    Attributes:
        by: returns the measure from the inputs; the one input by default.
        fallback: attribute of `TemperatureLimits` that replaces a missing second input.
    """

    by: Callable[[Level, GpuInputs], float | None] | None = None
    fallback: str = ""

    def measure(self, state: RuleState, inputs: GpuInputs, now: float) -> float | None:
        """Return the measure; None while inputs are missing."""
        return self.by(self, inputs) if self.by else inputs.values[self.positions[0]]

    def evidence(self, state: RuleState, inputs: GpuInputs) -> tuple[tuple[str, float], ...]:
        """Return the numbers that decide; `limit_from_table` where the limit is not the device's own."""
        found = Rule.evidence(self, state, inputs)
        if self.fallback and inputs.value(self.inputs[1]) is None:
            limit = getattr(limits_of(inputs.model), self.fallback)
            if limit is not None:
                found = (*found, (self.inputs[1], limit), ("limit_from_table", 1.0))
        return found


@dataclass(frozen=True, kw_only=True)
class Codes(Level):
    """The measure is a code.

    Attributes:
        codes: by code, the state that it means; others up to the largest code are ok.
        beyond: the state of codes above all of these: they are newer than the table.
    """

    codes: Mapping[State, tuple[int, ...]]
    beyond: State | None = None

    @property
    def states(self) -> tuple[State, ...]:
        """The states that it can raise."""
        beyond = (self.beyond,) if self.beyond else ()
        return tuple(dict.fromkeys((*self.codes, *beyond)))

    def grade(self, measure: float) -> tuple[int, int]:
        """Return the severity of a code, twice: it has no margin."""
        severity = next((SEVERITY[state] for state, codes in self.codes.items() if int(measure) in codes), 0)
        if self.beyond and measure > max(map(max, self.codes.values())):
            severity = SEVERITY[self.beyond]
        return severity, severity

    def _condition(self) -> str:
        states = [f"{state} at {self.text} {', '.join(map(str, codes))}" for state, codes in self.codes.items()]
        return ", ".join([*states, f"{self.beyond} at newer ones"] if self.beyond else states)


def total(rule: Level, inputs: GpuInputs) -> float | None:
    """Return the sum of the inputs."""
    found = [inputs.values[position] for position in rule.positions]
    return None if None in found else sum(filter(None, found))


def ratio(rule: Level, inputs: GpuInputs) -> float | None:
    """Return the ratio of the first input to the second."""
    first, second = rule.positions
    return _ratio(inputs.values[first], inputs.values[second])


def pcie_width_ratio(rule: Level, inputs: GpuInputs) -> float | None:
    """Return the ratio of the first input to the second; `HealthSettings.pcie_width_max` replaces the second."""
    first, second = rule.positions
    return _ratio(inputs.values[first], inputs.settings.pcie_width_max or inputs.values[second])


def difference(rule: Level, inputs: GpuInputs) -> float | None:
    """Return the first input less the second, or less the model's limit where the second is missing."""
    first, second = rule.positions
    value, other = inputs.values[first], inputs.values[second]
    if other is None and rule.fallback:
        other = getattr(limits_of(inputs.model), rule.fallback)
    return None if value is None or other is None else value - other


def distance(rule: Level, inputs: GpuInputs) -> float | None:
    """Return the absolute difference of two inputs."""
    signed = difference(rule, inputs)
    return None if signed is None else abs(signed)


def of_data_centre(rule: Level, inputs: GpuInputs) -> float | None:
    """Return the one input, for data-centre GPUs only."""
    return inputs.values[rule.positions[0]] if is_data_centre(inputs.model) else None


def gap_of(seconds: float) -> Callable[[Level, GpuInputs], float | None]:
    """Return a measure: the one input, intervals between two samples, if that is a gap of at least so many seconds."""

    def measure(rule: Level, inputs: GpuInputs) -> float | None:
        return inputs.values[rule.positions[0]] if has_passed(seconds, 0.0, inputs.gap_seconds) else 0.0

    return measure


def faults(fields: tuple[tuple[int, int, int, int], ...]) -> Callable[[Level, GpuInputs], float | None]:
    """Return a measure: how many fields of a bit mask report a fault.

    Args:
        fields: shift, number of bits, smallest and largest value that is a fault.
    """

    def measure(rule: Level, inputs: GpuInputs) -> float | None:
        value = inputs.values[rule.positions[0]]
        if value is None:
            return None
        return float(sum(low <= int(value) >> shift & (1 << bits) - 1 <= high for shift, bits, low, high in fields))

    return measure


def watches(
    own_checks: Mapping[str, tuple[str, ...]], mild: frozenset[str]
) -> Callable[[Level, GpuInputs], float | None]:
    """Return a measure: the worst result of DCGM's health watches for which no own check is raised.

    A check that is ok does not refute DCGM, which has other inputs. A check that is less severe has another cause.

    Args:
        own_checks: by watch, the checks of the same part.
        mild: watches whose warnings are noise.
    """

    def measure(rule: Level, inputs: GpuInputs) -> float | None:
        if inputs.extras is None or inputs.extras.health_watches is None:
            return None
        worst = 0.0
        for watch, result in inputs.extras.health_watches:
            if watch.upper() in mild and result < _FAILURE:
                result = min(result, _MILD)
            severity, _ = rule.grade(result)
            if not any(inputs.severity_of(check) >= severity for check in own_checks.get(watch.upper(), ())):
                worst = max(worst, result)
        return worst

    return measure


PCIE_LIMIT_INPUTS = ("pcie_link_generation_max", "pcie_link_width", "pcie_link_width_max")
_GENERATION, _WIDTH, _WIDTH_MAX = (INPUT_POSITION[name] for name in PCIE_LIMIT_INPUTS)


def pcie_replay_limit(inputs: GpuInputs) -> float:
    """Return the replays per minute that are no fault at the link's best generation: an idle link runs slower."""
    generation = int(inputs.values[_GENERATION] or _UNKNOWN_LINK[0])
    width = inputs.values[_WIDTH] or inputs.values[_WIDTH_MAX] or _UNKNOWN_LINK[1]
    per_lane = _REPLAYS_PER_LANE.get(generation, _REPLAYS_PER_LANE[6])
    return float(max(1, math.ceil(per_lane * width)))


def _ratio(first: Value, second: Value) -> float | None:
    return None if first is None or not second else first / second
