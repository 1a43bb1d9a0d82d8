from __future__ import annotations

import re

import pytest

from pulsed.compute.class_table import RULES
from pulsed.compute.workload import BOTTLENECK_STATES
from pulsed.model.counters import COUNTERS
from pulsed.model.vocabulary import WORKLOAD_CLASSES, Reading
from pulsed.present.exposition.families import COUNTER_FAMILIES, DERIVED, QUANTITY_FAMILIES, Family
from tests.present.boards import OPEN, TIME, gpu, tick
from tests.present.reference import BOTTLENECKS as CONTRACT_BOTTLENECKS
from tests.present.reference import CLASSES as CONTRACT_CLASSES

ALL: tuple[Family, ...] = (*QUANTITY_FAMILIES, *COUNTER_FAMILIES, *DERIVED)


def test_every_quantity_has_a_family_in_the_order_of_a_reading() -> None:
    assert [family.name for family in QUANTITY_FAMILIES] == [f"pulsed_gpu_{name}" for name in Reading._fields]


def test_every_counter_of_the_account_has_a_family() -> None:
    assert [family.name for family in COUNTER_FAMILIES] == [f"pulsed_gpu_{each.name}_total" for each in COUNTERS]


def test_names_are_prometheus_names_and_unique() -> None:
    names = [family.name for family in ALL]
    assert len(set(names)) == len(names)
    for family in ALL:
        assert re.fullmatch(r"pulsed_gpu_[a-z0-9_]+", family.name)
        assert family.name.endswith("_total") is (family.type == "counter")
        assert not family.name.endswith(("_count", "_sum", "_bucket", "_created"))
        assert len(family.help.split()) > 1
        assert "\n" not in family.help


def test_help_names_the_fields_that_a_quantity_comes_from() -> None:
    helps = {family.name: family.help for family in ALL}
    assert helps["pulsed_gpu_tensor_active_ratio"].endswith("; from DCGM field 1004 PROF_PIPE_TENSOR_ACTIVE")
    assert "DCGM field 250 DEV_FB_TOTAL, otherwise " in helps["pulsed_gpu_memory_bytes"]
    assert helps["pulsed_gpu_memory_bytes"].endswith("memory_reserved_bytes")


def test_the_states_are_those_of_the_contract() -> None:
    assert WORKLOAD_CLASSES == CONTRACT_CLASSES
    assert BOTTLENECK_STATES == CONTRACT_BOTTLENECKS
    assert {rule.bottleneck for rule in RULES} < set(BOTTLENECK_STATES)


@pytest.mark.parametrize("family", DERIVED, ids=lambda family: family.name)
def test_samples_have_a_value_for_every_label(family: Family) -> None:
    (derived,) = (each for each in DERIVED if each is family)
    for subject in tick([gpu(0)._replace(anomalies=("ratio_above_one",)), gpu(1, result=OPEN)]).gpus:
        labels = [own for own, _ in derived.samples(subject)]
        suffix = derived.type == "histogram"
        assert all(len(own) == len(derived.labels) + suffix for own in labels)
        assert len(set(labels)) == len(labels)


def test_a_subject_is_all_that_a_tick_says_about_a_gpu() -> None:
    first, second = gpu(0, power_watts=1.0), gpu(1)._replace(anomalies=("ratio_absurd",), result=OPEN)
    found = tick([first, second]).gpus
    assert [(subject.device, subject.reading, subject.result) for subject in found] == [first[:3], second[:3]]
    assert [subject.anomalies for subject in found] == [(), ("ratio_absurd",)]
    assert found[0].time == TIME
