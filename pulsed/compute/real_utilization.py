"""Real utilization: how much of a GPU does real work, as one weighted number with its bounds.

`RU = w_sm*SM + w_tensor*TENSOR + w_dram*DRAM + w_gr*GR`, all ratios. This module must not depend on classes.
"""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter

from pulsed.compute.activity import INPUT_QUANTITIES, PERCENT_ROUNDING
from pulsed.compute.declaration import Alternatives, DerivedDetail, DerivedNumber, DerivedResult, DerivedVector
from pulsed.compute.settings import ComputeSettings, Weights
from pulsed.model.interval import Interval, exactly
from pulsed.model.result import Bounds, Inputs, RealUtilization
from pulsed.model.vocabulary import Reading

COVERAGE_DIGITS = 12
"""Decimals of the coverage: sums of weights must compare with 0.5 as they do on paper (.45 + .05)."""

SETTLED = PERCENT_ROUNDING + 1e-6
"""Bounds that differ by no more than this are one number, the lower: utilizations of the driver are whole percents, and
sums of floats differ in the last bits."""

FULL = 1.0 - 1e-15
"""From here on a weighted sum is 1: scaled weights sum to 1 only within the last bits of a float."""


_WEIGHTED = tuple(field.name for field in fields(Weights))  # the first of `Inputs`
_QUANTITIES = tuple(INPUT_QUANTITIES[name] for name in _WEIGHTED)
_weights = attrgetter(*_WEIGHTED)
_values = attrgetter(*_QUANTITIES)


def real_utilization(reading: Reading, bounds: Bounds, weights: Weights, settings: ComputeSettings) -> RealUtilization:
    """Return the real utilization of one reading, given the bounds of its inputs and weights that sum to 1.

    The point value is the weighted mean over the present inputs, kept inside the bounds. A missing
    `graphics_engine_active_ratio` is replaced by `gpu_utilization_ratio` there, which then counts as present in the
    coverage, as in the formula, though it is named in `missing` and only a ceiling in the bounds. Bounds that are
    one number are the point value whatever the coverage is. Where missing inputs are 0 as a fact (`zero_filled`), all
    three are one number.
    """
    lower = _weighted(weights, bounds.low)
    if (
        reading.sm_active_ratio is not None
        and reading.tensor_active_ratio is not None
        and reading.dram_active_ratio is not None
        and reading.graphics_engine_active_ratio is not None
    ):
        return RealUtilization(exactly(lower), 1.0)
    upper = _weighted(weights, bounds.high)
    ratio, coverage, missing = _mean_of_present(reading, bounds, weights)
    if settings.missing == "zero":
        ratio = lower
    elif ratio is not None and coverage >= settings.real_utilization.min_coverage:
        ratio = min(max(ratio, lower), upper)
    else:
        ratio = lower if upper - lower <= SETTLED else None
    return RealUtilization(Interval(lower, ratio, upper, missing), coverage)


def _weighted(weights: Weights, inputs: Inputs) -> float:
    total = (
        weights.sm * inputs.sm
        + weights.tensor * inputs.tensor
        + weights.dram * inputs.dram
        + weights.graphics_engine * inputs.graphics_engine
    )
    return 1.0 if total > FULL else total


def _mean_of_present(reading: Reading, bounds: Bounds, weights: Weights) -> tuple[float | None, float, tuple[str, ...]]:
    """Return the weighted mean over the present inputs (None without any), the share of weight that they have, and the
    missing inputs that have a weight."""
    total = coverage = 0.0
    missing = []
    for quantity, value, weight, low in zip(_QUANTITIES, _values(reading), _weights(weights), bounds.low, strict=False):
        if value is not None:  # then it is both bounds, except for clamping
            coverage += weight
            total += weight * low
        elif weight > 0:
            missing.append(quantity)
    if reading.graphics_engine_active_ratio is None and reading.gpu_utilization_ratio is not None:
        coverage += weights.graphics_engine
        total += weights.graphics_engine * min(max(reading.gpu_utilization_ratio, 0.0), 1.0)
    rounded = round(coverage, COVERAGE_DIGITS)
    return total / coverage if rounded > 0 else None, rounded, tuple(missing)


def weighted_inputs(settings: ComputeSettings) -> tuple[Alternatives, ...]:
    """Return the quantities whose weight is above 0."""
    weights = zip(_QUANTITIES, _weights(settings.real_utilization.chosen_weights()), strict=True)
    return tuple((quantity,) for quantity, weight in weights if weight > 0)


REAL_UTILIZATION = DerivedResult(
    name="real_utilization",
    inputs=weighted_inputs,
    without=lambda settings: (
        f"its bounds are wider, and below a coverage of {settings.real_utilization.min_coverage:g} only they are"
        " published, unless they are equal"
    ),
    values=(
        DerivedNumber(
            name="real_utilization_ratio",
            help="Share of the GPU that does real work: weighted mean of SM, tensor, DRAM and graphics engine activity;"
            " absent while too few of them are known and the bounds differ",
            get=lambda reading, result: result.real_utilization.ratio.value,
            json="real_utilization.ratio",
        ),
        DerivedVector(
            name="real_utilization_bound_ratio",
            help="Bounds of real utilization, given the missing inputs",
            label="bound",
            keys=("lower", "upper"),
            get=lambda reading, result: (result.real_utilization.ratio.low, result.real_utilization.ratio.high),
            json="real_utilization.{}",
            csv="real_utilization_{}_ratio",
            always=True,
        ),
        DerivedNumber(
            name="real_utilization_coverage_ratio",
            help="Share of the weights of real utilization with known inputs",
            get=lambda reading, result: result.real_utilization.coverage,
            json="real_utilization.coverage",
            always=True,
        ),
        DerivedDetail(
            json="real_utilization.preset",
            help="Name of the weights",
            kind="setting",
            get=lambda reading, result: None,
        ),
        DerivedDetail(
            json="real_utilization.missing_inputs",
            help="Inputs that have a weight and no value",
            kind="names",
            get=lambda reading, result: result.real_utilization.ratio.missing,
        ),
        DerivedNumber(
            name="mig_unpartitioned_ratio",
            help="Share of the compute slices of a board outside all MIG instances; counted as inactive in its bounds",
            get=lambda reading, result: result.mig_unpartitioned,
            json="real_utilization.mig_unpartitioned_ratio",
            csv=False,
        ),
    ),
)
