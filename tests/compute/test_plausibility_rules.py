from __future__ import annotations

import math
from dataclasses import fields

import pytest

from pulsed.compute.plausibility_rules import ACTIVITY, RANGES, REASONS, RULES, PlausibilitySettings
from pulsed.model.vocabulary import QUANTITIES
from pulsed.translate import units


def test_the_table_names_quantities() -> None:
    for rule in RULES:
        assert rule.missing
        assert set(rule.missing) <= QUANTITIES.keys()
        needed = {name for need in rule.needs for name in ([need] if isinstance(need, str) else need)}
        assert needed <= QUANTITIES.keys()


def test_reasons_are_one_word_each_and_not_those_of_translate() -> None:
    assert len(set(REASONS)) == len(RULES)
    assert all(reason.isidentifier() and reason.islower() for reason in REASONS)
    assert not {units.RATIO_ABOVE_ONE, units.RATIO_ABSURD, units.RATIO_UNIT_UNKNOWN} & set(REASONS)


def test_every_meaning_is_one_line() -> None:
    assert [rule.meaning.count("\n") for rule in RULES if len(rule.meaning.split()) > 2] == [0] * len(RULES)


def test_every_profiled_share_is_activity() -> None:
    pipes = {name for name in QUANTITIES if name.endswith("_active_ratio") and not name.startswith("nv")}
    assert pipes | {"sm_occupancy_ratio"} == set(ACTIVITY)


def test_ranges_end_at_settings_or_numbers() -> None:
    names = {field.name for field in fields(PlausibilitySettings)}
    assert {end for limit in RANGES for end in (limit.low, limit.high) if isinstance(end, str)} <= names
    assert len({limit.quantity for limit in RANGES}) == len(RANGES)


@pytest.mark.parametrize("name", [field.name for field in fields(PlausibilitySettings) if field.name != "enabled"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -300.0])
def test_a_setting_out_of_range(name: str, value: float) -> None:
    key, message = next(iter(PlausibilitySettings(**{name: value}).problems()))  # type: ignore[arg-type]
    assert (key, message.split("; ")[0]) == (name, f"is {value:g}")
    assert message.split("; ")[1].startswith("give a number: ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("busy_utilization_ratio", 0.0),  # would accuse every idle GPU
        ("busy_utilization_ratio", 1.1),
        ("stuck_samples", 1),
        ("frozen_samples", 2),
        ("moved_ratio", 0.0),
        ("memory_excess_ratio", 0.9),
    ],
)
def test_a_setting_out_of_its_range_is_refused(name: str, value: float) -> None:
    assert [key for key, _ in PlausibilitySettings(**{name: value}).problems()] == [name]  # type: ignore[arg-type]


def test_temperatures_the_wrong_way_round() -> None:
    settings = PlausibilitySettings(temperature_min_celsius=120.0, temperature_max_celsius=100.0)
    assert dict(settings.problems()) == {
        "temperature_min_celsius": "is 120; give less than temperature_max_celsius, 100"
    }
