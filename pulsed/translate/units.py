"""DCGM's units: conversion to base units, and detection of values that are not numbers.

A value inside its unit's certain range is converted directly. A value outside it goes to the unit's out-of-range rule,
which is slower and distinguishes blanks, rounding, excess and garbage. This module must not depend on field names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

FieldType = Literal["int64", "double"]

OutOfRangeRule = Callable[[float, list[str]], float | None]
"""Function of a value outside its unit's certain range and the list of anomalies to append to; returns base units or
None."""

RATIO_ABOVE_ONE, RATIO_ABSURD, RATIO_UNIT_UNKNOWN = "ratio_above_one", "ratio_absurd", "ratio_unit_unknown"

ANOMALIES: Mapping[str, str] = {
    RATIO_ABOVE_ONE: "A share was above 1 by an excess that DCGM is known for on MIG instances, and was cut to 1",
    RATIO_ABSURD: "A share was far above 1",
    RATIO_UNIT_UNKNOWN: "A share of 1, or of less under a name with percentages, may be a ratio or percent",
}
"""Anomalies of shares, with their meaning; all except the first count as missing."""

# Blanks (dcgm_structs.h): DCGM's own test is `>= base`, but counters pass the double's base legally, and energy and
# bytes pass the int32 ones, so those are detected by equality. All are exact as floats, except the int64 ones,
# which round to 2**63.
INT32_BLANKS = frozenset(2147483632.0 + kind for kind in range(4))
DOUBLE_BLANKS = frozenset(140737488355328.0 + kind for kind in range(4))
INT64_BLANK = 9223372036854774784.0
"""The last double below 2**63: from here on, an int64 is blank."""

_BLANKS = INT32_BLANKS | DOUBLE_BLANKS
_BLANK_BASE = {"int64": INT64_BLANK, "double": min(DOUBLE_BLANKS)}

BLANK_TEXTS = frozenset(
    {
        "",
        "<<<NULL>>>",
        "<<<NOT_FOUND>>>",
        "<<<NOT_SUPPORTED>>>",
        "<<<NOT_PERM>>>",
        "SKIPPING DCGM VALUE",  # dcgm-exporter's label value for a blank on switches, links and CPUs
        "ERROR - FAILED TO CONVERT TO STRING",
        "N/A",
    }
)
"""Texts that mean a blank."""

CERTAIN = min(INT32_BLANKS) - 1
"""Up to here a value cannot be a blank."""

ROUNDING = 1.005
"""A share up to here is 1 with a rounding error."""

WHOLE_EXCESS = 1.05
"""Tolerance for sampling on whole GPUs, which have not been seen above 1."""

SHARED_EXCESS = 1.5
"""MIG instances have been seen at 1.294 (DCGM#138, #152, #248)."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A DCGM unit and its conversion to a base unit: value times `multiply` over `divide`; one of these is 1.

    Two steps rather than one factor, because 0.01 and 1e-9 are not exact: 55 % is to be 0.55. A share is a part of a
    whole, which cannot be above 1. DCGM's type of the fields decides which blanks there are.

    Attributes:
        otherwise: factor for values outside `low` to `high`, which are in another unit; 0: they are not valid.
        lowest: of those values.
    """

    name: str
    multiply: float = 1.0
    divide: float = 1.0
    low: float = 0.0
    high: float = math.inf
    share: bool = False
    type: FieldType = "int64"
    otherwise: float = 0.0
    lowest: float = 0.0

    @property
    def certain(self) -> float:
        """Values from `low` up to here need no out-of-range rule."""
        return min(self.high, CERTAIN)

    def not_zero(self) -> Unit:
        """Return the unit for a quantity that cannot be 0, where DCGM's 0 means that the feature does not exist."""
        return replace(self, low=max(self.low, math.ulp(0.0)), lowest=math.ulp(0.0))


def is_blank(value: float, type_: FieldType) -> bool:
    """Return whether a value of a field of this type is a DCGM blank, NaN or infinite, even after `float()`."""
    return not value < _BLANK_BASE[type_] or value in _BLANKS


@cache
def out_of_range_rule(unit: Unit, whole: bool) -> OutOfRangeRule:
    """Return the rule for values of a unit outside its `low` to `certain`.

    On a whole GPU less excess is credible than on a part of one.
    """
    if unit == UNDECIDED:
        return _undecided_rule
    if unit == PERCENT_OR_RATIO:
        return _percent_or_ratio_rule
    return _share_rule(unit, whole) if unit.share else _number_rule(unit)


def _number_rule(unit: Unit) -> OutOfRangeRule:
    # Large counters and rates come here on every tick: the unit is taken apart beforehand.
    low, high, multiply, divide = unit.low, unit.high, unit.multiply, unit.divide
    base, otherwise, lowest = _BLANK_BASE[unit.type], unit.otherwise, unit.lowest

    def rule(value: float, _: list[str]) -> float | None:
        if low <= value <= high and value < base and value not in _BLANKS:
            return value * multiply / divide
        if otherwise and value >= lowest and not is_blank(value, unit.type):
            return value * otherwise
        return None

    return rule


def _share_rule(unit: Unit, whole: bool) -> OutOfRangeRule:
    # Integer percentages have no excess: above 100 is garbage (203, go-dcgm#75).
    most = ROUNDING if unit.type == "int64" else WHOLE_EXCESS if whole else SHARED_EXCESS

    def rule(value: float, anomalies: list[str]) -> float | None:
        if not value >= unit.low or is_blank(value, unit.type):
            return None
        ratio = value / unit.divide
        if ratio <= ROUNDING:
            return 1.0
        if ratio <= most:
            anomalies.append(RATIO_ABOVE_ONE)
            return 1.0
        anomalies.append(RATIO_ABSURD)
        return None

    return rule


def _undecided_rule(value: float, anomalies: list[str]) -> float | None:
    """Distinguish percent (integers) from ratios (at most 1); exactly 1 is ambiguous."""
    if not value >= 0 or is_blank(value, "int64"):
        return None
    if value < 1:
        return value
    if value == 1:
        anomalies.append(RATIO_UNIT_UNKNOWN)
        return None
    if value <= 100:
        return value / 100
    anomalies.append(RATIO_ABSURD)
    return None


def _percent_or_ratio_rule(value: float, anomalies: list[str]) -> float | None:
    """Convert percentages under the name of a ratio; a value that a ratio may have is ambiguous, except 0."""
    if not value >= 0 or is_blank(value, "double"):
        return None
    if 0 < value <= SHARED_EXCESS:
        anomalies.append(RATIO_UNIT_UNKNOWN)
        return None
    if value <= 100 * ROUNDING:
        return min(value / 100, 1.0)
    anomalies.append(RATIO_ABSURD)
    return None


RATIO = Unit("ratio", high=1.0, share=True, type="double")
PERCENT = Unit("%", divide=100.0, high=100.0, share=True)
UNDECIDED = Unit("% or ratio", high=0.0, share=True)
"""For a name that means percent in one DCGM and a ratio in the next, on a page that does not state which."""

HUNDREDTHS = Unit("0.01 %", divide=10000.0, high=10000.0, share=True)
"""Of a relay that takes a percentage for a ratio."""

PERCENT_OR_RATIO = Unit("percent or ratio", low=0.0, high=0.0, share=True, type="double")
"""For a ratio that has had percentages."""

MIB = 1048576.0

CODE = Unit("code")
COUNT = Unit("count")
PSTATE = Unit("P-state", high=15.0)
"""NVML reports 32 for an unknown state."""

UNITS: Mapping[str, Unit] = {
    "ratio": RATIO,
    "%": PERCENT,
    "% double": replace(PERCENT, type="double"),
    # NVML lets the intended fan speed pass 100 %.
    "% fan": Unit("%", divide=100.0, high=200.0),
    "ratio fan": Unit("ratio", high=2.0, type="double"),
    # No link carries 100 TB/s; it is also below the blank of doubles. DCGM derives some rates from counters: negative
    # after the counter was reset, which is not a reading.
    "cycles": Unit("cycles"),
    "B/s": Unit("B/s", high=1e14),
    "kB/s": Unit("kB/s", multiply=1e3, high=1e11),
    "MB/s": Unit("MB/s", multiply=1e6, high=1e8),
    "B": Unit("B"),
    # DCGM counts memory in MiB, even where it prints bytes, and no board has a TiB: a relay that converts one to the
    # other under the same name is seen by each value.
    "MiB": Unit("MiB", multiply=MIB, high=MIB - 1.0, otherwise=1.0),
    "MiB in B": Unit("B", low=MIB, otherwise=MIB),
    "W": Unit("W", high=1e6, type="double"),
    "J": Unit("J"),
    "mJ": Unit("mJ", divide=1e3),
    # DCGM itself drops temperatures above 200; no GPU is as hot as 125 °C (`page_units`).
    "°C": Unit("°C", high=125.0),
    "±°C": Unit("°C", low=-200.0, high=200.0),  # a margin is below 0 when the limit is passed
    "Hz": Unit("Hz", high=1e12),
    "MHz": Unit("MHz", multiply=1e6, high=1e6),
    "s": Unit("s", type="double"),
    "ns": Unit("ns", divide=1e9),
    "count": COUNT,
    "code": CODE,
    "P-state": PSTATE,
}
"""The units of `fields.tsv`, by their names there."""
