"""Measures of level rules other than the sum of their inputs; each is compiled from the positions of the inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from pulsed.compute.health.inputs import INPUT_POSITION, GpuInputs
from pulsed.compute.health.rule import Measure, total
from pulsed.compute.health.temperature_limits import is_data_centre, limits_of
from pulsed.translate.vocabulary import Value

# Replays per minute and lane that a bit error rate of 1e-12 explains, by generation (DCGM's PCIe watch). 4 and newer
# would do with less, as links correct more; DCGM scales them all alike.
_REPLAYS_PER_LANE: Mapping[int, float] = {1: 0.15, 2: 0.3, 3: 0.48, 4: 0.96, 5: 1.92, 6: 3.84}
_UNKNOWN_LINK = (5, 16)

_MILD = 5.0
"""Result of a warning of a DCGM watch whose warnings are noise."""


def ratio(positions: tuple[int, ...], _: str) -> Measure:
    """Compile the ratio of the first input to the second."""
    first, second = positions
    return lambda inputs: _ratio(inputs.values[first], inputs.values[second])


def pcie_width_ratio(positions: tuple[int, ...], _: str) -> Measure:
    """Compile the ratio of the first input to the second; `HealthSettings.pcie_width_max` replaces the second."""
    first, second = positions
    return lambda inputs: _ratio(inputs.values[first], inputs.settings.pcie_width_max or inputs.values[second])


def difference(positions: tuple[int, ...], fallback: str) -> Measure:
    """Compile the first input less the second, or less the model's limit where the second is missing."""
    first, second = positions

    def measure(inputs: GpuInputs) -> float | None:
        value, other = inputs.values[first], inputs.values[second]
        if other is None and fallback:
            other = getattr(limits_of(inputs.model), fallback)
        return None if value is None or other is None else value - other

    return measure


def distance(positions: tuple[int, ...], fallback: str) -> Measure:
    """Compile the absolute difference of two inputs."""
    signed = difference(positions, fallback)
    return lambda inputs: None if (value := signed(inputs)) is None else abs(value)


def of_data_centre(positions: tuple[int, ...], fallback: str) -> Measure:
    """Compile the sum of the inputs, for data-centre GPUs only."""
    measure = total(positions, fallback)
    return lambda inputs: measure(inputs) if is_data_centre(inputs.model) else None


def faults(fields: tuple[tuple[int, int, int, int], ...]) -> Callable[[tuple[int, ...], str], Measure]:
    """Return a measure: how many fields of a bit mask report a fault.

    Args:
        fields: shift, number of bits, smallest and largest value that is a fault.
    """

    def compiled(positions: tuple[int, ...], _: str) -> Measure:
        def measure(inputs: GpuInputs) -> float | None:
            value = inputs.values[positions[0]]
            if value is None:
                return None
            return float(sum(low <= int(value) >> shift & (1 << bits) - 1 <= high for shift, bits, low, high in fields))

        return measure

    return compiled


def watches(
    own_checks: Mapping[str, tuple[str, ...]], mild: frozenset[str]
) -> Callable[[tuple[int, ...], str], Measure]:
    """Return a measure: the worst result of DCGM's health watches that no check with inputs covers.

    Args:
        own_checks: by watch, the checks of the same part.
        mild: watches whose warnings are noise.
    """

    def measure(inputs: GpuInputs) -> float | None:
        if inputs.extras is None or inputs.extras.health_watches is None:
            return None
        worst = 0.0
        for watch, result in inputs.extras.health_watches:
            if not any(map(inputs.is_covered, own_checks.get(watch.upper(), ()))):
                worst = max(worst, min(result, _MILD) if watch.upper() in mild and result < 20 else result)
        return worst

    return lambda positions, _: measure


PCIE_LIMIT_INPUTS = ("pcie_link_generation_max", "pcie_link_width", "pcie_link_width_max")
_GENERATION, _WIDTH, _WIDTH_MAX = (INPUT_POSITION[name] for name in PCIE_LIMIT_INPUTS)


def pcie_replay_limit(inputs: GpuInputs) -> float:
    """Return the replays per minute that are no fault at the link's best generation: an idle link runs slower."""
    generation = int(inputs.values[_GENERATION] or _UNKNOWN_LINK[0])
    width = inputs.values[_WIDTH] or inputs.values[_WIDTH_MAX] or _UNKNOWN_LINK[1]
    per_lane = _REPLAYS_PER_LANE.get(generation, _REPLAYS_PER_LANE[6])
    return float(max(1, math.ceil(per_lane * width - 1e-9)))


def _ratio(first: Value, second: Value) -> float | None:
    return None if first is None or not second else first / second
