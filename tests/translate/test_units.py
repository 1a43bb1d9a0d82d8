from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.translate.units import (
    DOUBLE_BLANKS,
    INT32_BLANKS,
    INT64_BLANK,
    RATIO_ABOVE_ONE,
    RATIO_ABSURD,
    RATIO_UNIT_UNKNOWN,
    UNDECIDED,
    UNITS,
    Unit,
    out_of_range_rule,
)

ALL_UNITS = [*UNITS.values(), UNDECIDED]
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
        (UNITS["%"], 55, 0.55),
        (UNITS["%"], 29, 0.29),
        (UNITS["%"], 100, 1.0),
        (UNITS["mJ"], 319159391, 319159.391),
        (UNITS["ns"], 1_234_567_891, 1.234567891),
        (UNITS["MHz"], 1410, 1.41e9),
        (UNITS["MiB"], 81559, 81559 * 2**20),
        (UNITS["MB/s"], 4068, 4.068e9),
        (UNITS["kB/s"], 12, 12000.0),
        (UNITS["±°C"], -3, -3.0),
        (UNITS["% fan"], 104, 1.04),
    ],
)
def test_exact_conversion(unit: Unit, value: float, expected: float) -> None:
    assert convert(unit, value) == (expected, [])


@given(st.integers(0, 100))
def test_percent_are_what_a_person_would_write(percent: int) -> None:
    assert convert(UNITS["%"], float(percent))[0] == float(f"{percent}e-2")


@pytest.mark.parametrize("unit", ALL_UNITS, ids=lambda unit: unit.name)
def test_no_blank_is_a_number(unit: Unit) -> None:
    blanks = [
        *INT32_BLANKS,
        *DOUBLE_BLANKS,
        *INT64_BLANKS,
        INT64_BLANK,
        *map(float, INT64_BLANKS),
        math.nan,
        math.inf,
        -math.inf,
    ]
    for blank in (*blanks, 2147483634):
        for whole in (True, False):
            assert convert(unit, blank, whole) == (None, []), (blank, whole)


@given(st.sampled_from(ALL_UNITS), st.floats(), st.booleans())
def test_whatever_comes_is_sane_or_missing(unit: Unit, value: float, whole: bool) -> None:
    number, _ = convert(unit, value, whole)
    if number is not None:
        assert math.isfinite(number)
        of_another_unit = unit.lowest * unit.otherwise if unit.otherwise else math.inf
        assert number >= min(unit.low * unit.multiply / unit.divide, of_another_unit)
        assert not unit.share or 0 <= number <= 1


def test_counters_pass_the_blanks_of_smaller_types() -> None:
    # 700 W for seven years in mJ; a day of power violation; a petabyte over NVLink.
    assert convert(UNITS["mJ"], 1.5e14)[0] == 1.5e11
    assert convert(UNITS["ns"], 86400e9 * 2)[0] == 172800.0
    assert convert(UNITS["B"], 2.0**50)[0] == 2.0**50
    assert convert(UNITS["B"], 2147483636)[0] == 2147483636
    assert convert(UNITS["count"], 140737488355332)[0] == 140737488355332


def test_doubles_end_at_their_blank() -> None:
    assert convert(UNITS["s"], 140737488355327.0)[0] == 140737488355327.0
    assert convert(UNITS["s"], 140737488355340.0)[0] is None
    assert convert(UNITS["count"], INT64_BLANK) == (None, [])


@pytest.mark.parametrize(
    ("unit", "value"),
    [
        (UNITS["W"], -1.0),
        (UNITS["MB/s"], -17.0),
        (UNITS["°C"], 201.0),
        (UNITS["P-state"], 32.0),
        (UNITS["ratio"], -0.1),
        (UNITS["W"].not_zero(), 0.0),
        (UNITS["°C"].not_zero(), 0.0),
        (UNITS["B"].not_zero(), 0.0),
    ],
)
def test_senseless_values_are_missing(unit: Unit, value: float) -> None:
    assert convert(unit, value) == (None, [])


@pytest.mark.parametrize(
    ("unit", "value", "whole", "expected", "anomalies"),
    [
        (UNITS["ratio"], 1.0, True, 1.0, []),
        (UNITS["ratio"], 1.005, True, 1.0, []),
        (UNITS["ratio"], 1.00501, True, 1.0, [RATIO_ABOVE_ONE]),
        (UNITS["ratio"], 1.05, True, 1.0, [RATIO_ABOVE_ONE]),
        (UNITS["ratio"], 1.05001, True, None, [RATIO_ABSURD]),
        (UNITS["ratio"], 1.294, False, 1.0, [RATIO_ABOVE_ONE]),
        (UNITS["ratio"], 1.294, True, None, [RATIO_ABSURD]),
        (UNITS["ratio"], 1.5, False, 1.0, [RATIO_ABOVE_ONE]),
        (UNITS["ratio"], 1.50001, False, None, [RATIO_ABSURD]),
        (UNITS["ratio"], 4.6e6, False, None, [RATIO_ABSURD]),
        (UNITS["%"], 101, True, None, [RATIO_ABSURD]),
        (UNITS["% double"], 100.4, True, 1.0, []),
        (UNITS["% double"], 104.0, True, 1.0, [RATIO_ABOVE_ONE]),
        (UNITS["% double"], 129.4, True, None, [RATIO_ABSURD]),
        (UNITS["% double"], 129.4, False, 1.0, [RATIO_ABOVE_ONE]),
        (UNITS["%"], 4294967, False, None, [RATIO_ABSURD]),
        (UNDECIDED, 0, True, 0.0, []),
        (UNDECIDED, 0.25, True, 0.25, []),
        (UNDECIDED, 1, True, None, [RATIO_UNIT_UNKNOWN]),
        (UNDECIDED, 2, True, 0.02, []),
        (UNDECIDED, 100, True, 1.0, []),
        (UNDECIDED, 101, True, None, [RATIO_ABSURD]),
    ],
)
def test_shares_above_one(unit: Unit, value: float, whole: bool, expected: float | None, anomalies: list[str]) -> None:
    assert convert(unit, value, whole) == (expected, anomalies)


NAMED_UNITS = {**UNITS, "undecided": UNDECIDED}


def test_units_are_converted_and_limited_as_the_table_records() -> None:
    columns = ("name", "multiply", "divide", "low", "high", "share", "type")
    assert {name: tuple(getattr(unit, each) for each in columns) for name, unit in NAMED_UNITS.items()} == {
        "ratio": ("ratio", 1, 1, 0, 1, True, "double"),
        "%": ("%", 1, 100, 0, 100, True, "int64"),
        "% double": ("%", 1, 100, 0, 100, True, "double"),
        "undecided": ("% or ratio", 1, 1, 0, 0, True, "int64"),
        "% fan": ("%", 1, 100, 0, 200, False, "int64"),
        "ratio fan": ("ratio", 1, 1, 0, 2, False, "double"),
        "B/s": ("B/s", 1, 1, 0, 100_000_000_000_000, False, "int64"),
        "kB/s": ("kB/s", 1000, 1, 0, 100_000_000_000, False, "int64"),
        "MB/s": ("MB/s", 1_000_000, 1, 0, 100_000_000, False, "int64"),
        "B": ("B", 1, 1, 0, math.inf, False, "int64"),
        "MiB": ("MiB", 1024 * 1024, 1, 0, 1024 * 1024 - 1, False, "int64"),
        "MiB in B": ("B", 1, 1, 1024 * 1024, math.inf, False, "int64"),
        "W": ("W", 1, 1, 0, 1_000_000, False, "double"),
        "J": ("J", 1, 1, 0, math.inf, False, "int64"),
        "mJ": ("mJ", 1, 1000, 0, math.inf, False, "int64"),
        "°C": ("°C", 1, 1, 0, 125, False, "int64"),
        "±°C": ("°C", 1, 1, -200, 200, False, "int64"),
        "Hz": ("Hz", 1, 1, 0, 1_000_000_000_000, False, "int64"),
        "MHz": ("MHz", 1_000_000, 1, 0, 1_000_000, False, "int64"),
        "s": ("s", 1, 1, 0, math.inf, False, "double"),
        "ns": ("ns", 1, 1_000_000_000, 0, math.inf, False, "int64"),
        "count": ("count", 1, 1, 0, math.inf, False, "int64"),
        "cycles": ("cycles", 1, 1, 0, math.inf, False, "int64"),
        "code": ("code", 1, 1, 0, math.inf, False, "int64"),
        "P-state": ("P-state", 1, 1, 0, 15, False, "int64"),
    }


@pytest.mark.parametrize(
    "unit", [unit for unit in ALL_UNITS if unit.high < math.inf and not unit.share and not unit.otherwise]
)
def test_both_ends_of_a_unit_are_allowed_and_nothing_beyond(unit: Unit) -> None:
    for end, beyond in ((unit.low, unit.low - 0.001), (unit.high, unit.high * 1.001)):
        assert convert(unit, end) == (end * unit.multiply / unit.divide, [])
        assert convert(unit, beyond) == (None, [])
