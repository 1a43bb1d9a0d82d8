from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.translate import units
from pulsed.translate.units import (
    DOUBLE_BLANKS,
    INT32_BLANKS,
    INT64_BLANK,
    RATIO_ABOVE_ONE,
    RATIO_ABSURD,
    RATIO_UNIT_UNKNOWN,
    Unit,
    out_of_range_rule,
)

UNITS = sorted(
    {unit for unit in vars(units).values() if isinstance(unit, Unit)}, key=lambda unit: (unit.name, unit.high)
)
INT64_BLANKS = [9223372036854775792 + kind for kind in range(4)]


def convert(unit: Unit, value: float, whole: bool = True) -> tuple[float | None, list[str]]:
    """What the translator's loop does with one value."""
    anomalies: list[str] = []
    if unit.low <= value <= unit.certain:
        return value * unit.multiply / unit.divide, anomalies
    return out_of_range_rule(unit, whole)(value, anomalies), anomalies


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        (units.PERCENT, 55, 0.55),
        (units.PERCENT, 29, 0.29),
        (units.PERCENT, 100, 1.0),
        (units.MILLIJOULES, 319159391, 319159.391),
        (units.NANOSECONDS, 1_234_567_891, 1.234567891),
        (units.MEGAHERTZ, 1410, 1.41e9),
        (units.MEBIBYTES, 81559, 81559 * 2**20),
        (units.MB_PER_SECOND, 4068, 4.068e9),
        (units.KB_PER_SECOND, 12, 12000.0),
        (units.CELSIUS_MARGIN, -3, -3.0),
        (units.FAN_PERCENT, 104, 1.04),
    ],
)
def test_exact_conversion(unit: Unit, value: float, expected: float) -> None:
    assert convert(unit, value) == (expected, [])


@given(st.integers(0, 100))
def test_percent_are_what_a_person_would_write(percent: int) -> None:
    assert convert(units.PERCENT, float(percent))[0] == float(f"{percent}e-2")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_no_blank_is_a_number(unit: Unit) -> None:
    blanks = [*INT32_BLANKS, *DOUBLE_BLANKS, *INT64_BLANKS, *map(float, INT64_BLANKS), math.nan, math.inf, -math.inf]
    for blank in (*blanks, 2147483634):
        for whole in (True, False):
            assert convert(unit, blank, whole) == (None, []), (blank, whole)


@given(st.sampled_from(UNITS), st.floats(), st.booleans())
def test_whatever_comes_is_sane_or_missing(unit: Unit, value: float, whole: bool) -> None:
    number, _ = convert(unit, value, whole)
    if number is not None:
        assert math.isfinite(number)
        assert number >= unit.low * unit.multiply / unit.divide
        assert not unit.share or 0 <= number <= 1


def test_counters_pass_the_blanks_of_smaller_types() -> None:
    # 700 W for seven years in mJ; a day of power violation; a petabyte over NVLink.
    assert convert(units.MILLIJOULES, 1.5e14)[0] == 1.5e11
    assert convert(units.NANOSECONDS, 86400e9 * 2)[0] == 172800.0
    assert convert(units.BYTES, 2.0**50)[0] == 2.0**50
    assert convert(units.BYTES, 2147483636)[0] == 2147483636
    assert convert(units.COUNT, 140737488355332)[0] == 140737488355332


def test_doubles_end_at_their_blank() -> None:
    assert convert(units.SECONDS, 140737488355327.0)[0] == 140737488355327.0
    assert convert(units.SECONDS, 140737488355340.0)[0] is None
    assert convert(units.COUNT, INT64_BLANK) == (None, [])


@pytest.mark.parametrize(
    ("unit", "value"),
    [
        (units.WATTS, -1.0),
        (units.MB_PER_SECOND, -17.0),
        (units.CELSIUS, 201.0),
        (units.PSTATE, 32.0),
        (units.RATIO, -0.1),
        (units.WATTS.not_zero(), 0.0),
        (units.CELSIUS.not_zero(), 0.0),
        (units.BYTES.not_zero(), 0.0),
    ],
)
def test_senseless_values_are_missing(unit: Unit, value: float) -> None:
    assert convert(unit, value) == (None, [])


@pytest.mark.parametrize(
    ("unit", "value", "whole", "expected", "anomalies"),
    [
        (units.RATIO, 1.0, True, 1.0, []),
        (units.RATIO, 1.005, True, 1.0, []),
        (units.RATIO, 1.00501, True, 1.0, [RATIO_ABOVE_ONE]),
        (units.RATIO, 1.05, True, 1.0, [RATIO_ABOVE_ONE]),
        (units.RATIO, 1.05001, True, None, [RATIO_ABSURD]),
        (units.RATIO, 1.294, False, 1.0, [RATIO_ABOVE_ONE]),
        (units.RATIO, 1.294, True, None, [RATIO_ABSURD]),
        (units.RATIO, 1.5, False, 1.0, [RATIO_ABOVE_ONE]),
        (units.RATIO, 1.50001, False, None, [RATIO_ABSURD]),
        (units.RATIO, 4.6e6, False, None, [RATIO_ABSURD]),
        (units.PERCENT, 101, True, None, [RATIO_ABSURD]),
        (units.PERCENT_DOUBLE, 100.4, True, 1.0, []),
        (units.PERCENT_DOUBLE, 104.0, True, 1.0, [RATIO_ABOVE_ONE]),
        (units.PERCENT_DOUBLE, 129.4, True, None, [RATIO_ABSURD]),
        (units.PERCENT_DOUBLE, 129.4, False, 1.0, [RATIO_ABOVE_ONE]),
        (units.PERCENT, 4294967, False, None, [RATIO_ABSURD]),
        (units.UNDECIDED, 0, True, 0.0, []),
        (units.UNDECIDED, 0.25, True, 0.25, []),
        (units.UNDECIDED, 1, True, None, [RATIO_UNIT_UNKNOWN]),
        (units.UNDECIDED, 2, True, 0.02, []),
        (units.UNDECIDED, 100, True, 1.0, []),
        (units.UNDECIDED, 101, True, None, [RATIO_ABSURD]),
    ],
)
def test_shares_above_one(unit: Unit, value: float, whole: bool, expected: float | None, anomalies: list[str]) -> None:
    assert convert(unit, value, whole) == (expected, anomalies)


NAMED_UNITS = {name: unit for name, unit in vars(units).items() if isinstance(unit, Unit)}


def test_units_are_converted_and_limited_as_the_table_records() -> None:
    columns = ("name", "multiply", "divide", "low", "high", "share", "type")
    assert {name: tuple(getattr(unit, each) for each in columns) for name, unit in NAMED_UNITS.items()} == {
        "RATIO": ("ratio", 1, 1, 0, 1, True, "double"),
        "PERCENT": ("%", 1, 100, 0, 100, True, "int64"),
        "PERCENT_DOUBLE": ("%", 1, 100, 0, 100, True, "double"),
        "UNDECIDED": ("% or ratio", 1, 1, 0, 0, True, "int64"),
        "FAN_PERCENT": ("%", 1, 100, 0, 200, False, "int64"),
        "FAN_RATIO": ("ratio", 1, 1, 0, 2, False, "double"),
        "B_PER_SECOND": ("B/s", 1, 1, 0, 100_000_000_000_000, False, "int64"),
        "KB_PER_SECOND": ("kB/s", 1000, 1, 0, 100_000_000_000, False, "int64"),
        "MB_PER_SECOND": ("MB/s", 1_000_000, 1, 0, 100_000_000, False, "int64"),
        "BYTES": ("B", 1, 1, 0, math.inf, False, "int64"),
        "MEBIBYTES": ("MiB", 1024 * 1024, 1, 0, 1_000_000_000, False, "int64"),
        "WATTS": ("W", 1, 1, 0, 1_000_000, False, "double"),
        "JOULES": ("J", 1, 1, 0, math.inf, False, "int64"),
        "MILLIJOULES": ("mJ", 1, 1000, 0, math.inf, False, "int64"),
        "CELSIUS": ("°C", 1, 1, 0, 200, False, "int64"),
        "CELSIUS_MARGIN": ("°C", 1, 1, -200, 200, False, "int64"),
        "HERTZ": ("Hz", 1, 1, 0, 1_000_000_000_000, False, "int64"),
        "MEGAHERTZ": ("MHz", 1_000_000, 1, 0, 1_000_000, False, "int64"),
        "SECONDS": ("s", 1, 1, 0, math.inf, False, "double"),
        "NANOSECONDS": ("ns", 1, 1_000_000_000, 0, math.inf, False, "int64"),
        "COUNT": ("count", 1, 1, 0, math.inf, False, "int64"),
        "CODE": ("code", 1, 1, 0, math.inf, False, "int64"),
        "PSTATE": ("P-state", 1, 1, 0, 15, False, "int64"),
    }


@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit.high < math.inf and not unit.share])
def test_both_ends_of_a_unit_are_allowed_and_nothing_beyond(unit: Unit) -> None:
    for end, beyond in ((unit.low, unit.low - 0.001), (unit.high, unit.high * 1.001)):
        assert convert(unit, end) == (end * unit.multiply / unit.divide, [])
        assert convert(unit, beyond) == (None, [])
