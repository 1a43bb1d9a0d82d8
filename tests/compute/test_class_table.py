from __future__ import annotations

import math
from dataclasses import fields

import pytest
from pydantic import TypeAdapter, ValidationError

from pulsed.compute.class_table import BOTTLENECKS, RULES, VARIABLES, ClassThresholds, rules_of
from pulsed.model.result import Inputs
from pulsed.model.vocabulary import CLASSES


def test_the_twelve_classes_in_their_order() -> None:
    kempnerpulse = rules_of("kempnerpulse")
    assert [(rule.name, rule.bottleneck) for rule in kempnerpulse] == [
        ("idle", "idle"),
        ("tensor_heavy_compute", "compute"),
        ("tensor_compute", "compute"),
        ("fp64_hpc_compute", "compute"),
        ("io_or_data_loading", "io"),
        ("memory_bound", "memory"),
        ("compute_heavy", "compute"),
        ("compute_active", "compute"),
        ("memory_active", "memory"),
        ("busy_low_sm_use", "mixed"),
        ("low_utilization", "mixed"),
        ("mixed_or_moderate", "mixed"),
    ]
    assert tuple(rule.name for rule in kempnerpulse) == CLASSES
    assert BOTTLENECKS == ("idle", "compute", "io", "memory", "mixed")


def test_saturated_memory_and_media_are_no_rules_of_kempnerpulse() -> None:
    rules = list(rules_of("pulsed"))
    added = rules.pop(2)
    assert (added.name, added.bottleneck) == ("memory_bound", "memory")
    idle = rules[0]
    assert [condition.variable for condition in idle.conditions if condition.only] == ["media"]
    rules[0] = idle._replace(conditions=idle.conditions[:-1])
    assert tuple(rules) == rules_of("kempnerpulse")


def test_the_last_rule_always_matches() -> None:
    assert RULES[-1].conditions == ()


def test_every_threshold_is_used_and_exists() -> None:
    used = {condition.threshold for rule in RULES for condition in rule.conditions}
    assert used | {"io_memory_utilization_ratio"} == {field.name for field in fields(ClassThresholds)}


def test_inputs_come_first_among_the_variables() -> None:
    assert (*Inputs._fields, "real_utilization", "io", "media") == VARIABLES


@pytest.mark.parametrize("value", [-0.01, math.nan, math.inf])
def test_a_threshold_must_be_a_number(value: float) -> None:
    with pytest.raises(ValidationError, match="memory_bound_dram_ratio"):
        TypeAdapter(ClassThresholds).validate_python({"memory_bound_dram_ratio": value})
