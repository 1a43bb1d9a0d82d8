"""What results are made of is what Compute reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsed.apps.doctor.report import REQUIREMENTS, Requirement
from pulsed.compute.activity import bounds_of
from pulsed.compute.class_table import VARIABLES
from pulsed.compute.derived_results import result_of
from pulsed.compute.settings import PRESETS, ComputeSettings, RealUtilizationSettings, Weights, WorkloadSettings
from pulsed.compute.workload import MEASURED_BY
from pulsed.model.gpu import Device, Entity
from pulsed.model.result import Result
from pulsed.model.vocabulary import NOTHING, QUANTITIES, Reading

GPU = Device(Entity("gpu", "0"))
INSTANCE = Device(Entity("mig", "0", mig_id="1"))
EVERYTHING = Reading(**dict.fromkeys(QUANTITIES, 0.3))
BY_NAME = {each.name: each for each in REQUIREMENTS}


def result(reading: Reading, settings: ComputeSettings) -> Result:
    return result_of(GPU, reading, settings)


def names(derived: Requirement, settings: ComputeSettings) -> set[str]:
    return {quantity for choice in derived.inputs(settings) for quantity in choice}


def test_every_variable_of_the_class_table_is_measured_by_something() -> None:
    assert set(MEASURED_BY) == set(VARIABLES)
    for variable in ("sm", "tensor", "dram", "graphics_engine", "fp64"):
        (quantity,) = MEASURED_BY[variable]
        bounds = bounds_of(NOTHING._replace(**{quantity: 0.5}))
        assert getattr(bounds.low, variable) == getattr(bounds.high, variable) == 0.5


@pytest.mark.parametrize(
    "settings",
    [
        *(ComputeSettings(real_utilization=RealUtilizationSettings(preset)) for preset in PRESETS),
        ComputeSettings(real_utilization=RealUtilizationSettings("custom", Weights(1, 0, 0, 0))),
        ComputeSettings(workload=WorkloadSettings("kempnerpulse")),
    ],
    ids=[*PRESETS, "sm", "kempnerpulse"],
)
def test_nothing_else_is_read_while_the_inputs_are_there(settings: ComputeSettings) -> None:
    for name in ("real_utilization", "workload_class"):
        inputs = names(BY_NAME[name], settings)
        alone = EVERYTHING._replace(**{each: None for each in QUANTITIES if each not in inputs})
        assert getattr(result(alone, settings), name.partition("_class")[0]) == getattr(
            result(EVERYTHING, settings), name.partition("_class")[0]
        )


def test_each_input_of_the_class_can_decide_it() -> None:
    settings = ComputeSettings()
    quiet = Reading(**dict.fromkeys(QUANTITIES, 0.0))._replace(graphics_engine_active_ratio=0.3)
    busy = quiet._replace(graphics_engine_active_ratio=0.95, sm_active_ratio=0.6, fp64_active_ratio=0.1)
    for name in names(BY_NAME["workload_class"], settings):
        without = [result(reading._replace(**{name: None}), settings) for reading in (quiet, busy)]
        assert without != [result(quiet, settings), result(busy, settings)], name


def test_weights_that_are_zero_need_no_input() -> None:
    assert names(
        BY_NAME["real_utilization"],
        ComputeSettings(real_utilization=RealUtilizationSettings("custom", Weights(1, 0, 0, 0))),
    ) == {"sm_active_ratio"}


def test_one_of_two_is_enough() -> None:
    energy, settings = BY_NAME["class_energy_joules"], ComputeSettings()
    assert energy.missing(NOTHING, GPU, settings) == ("energy_joules_total",)
    assert energy.missing(NOTHING._replace(power_watts=50.0), GPU, settings) == ()


def test_below_a_board_nobody_asks_for_what_is_not_there() -> None:
    for derived in REQUIREMENTS:
        lacking = derived.missing(NOTHING, INSTANCE, ComputeSettings())
        assert not any(name.startswith(("pcie", "power", "energy")) for name in lacking)
        assert set(lacking) <= set(derived.missing(NOTHING, GPU, ComputeSettings()))
    assert "sm_active_ratio" in BY_NAME["real_utilization"].missing(NOTHING, INSTANCE, ComputeSettings())


def test_a_split_board_lacks_what_its_instances_cannot_have() -> None:
    for derived in REQUIREMENTS:
        of_board = derived.missing(NOTHING, GPU, ComputeSettings(), is_split=True)
        assert set(of_board) <= set(derived.missing(NOTHING, GPU, ComputeSettings()))
        assert set(of_board).isdisjoint(derived.missing(NOTHING, INSTANCE, ComputeSettings()))
    assert "row_remap_pending" in BY_NAME["health"].missing(NOTHING, GPU, ComputeSettings(), is_split=True)
    assert BY_NAME["real_utilization"].missing(NOTHING, GPU, ComputeSettings(), is_split=True) == ()


def test_what_is_lost_is_said() -> None:
    zero = replace(ComputeSettings(), missing="zero")
    for derived in REQUIREMENTS:
        assert derived.without(ComputeSettings())
    assert "count as 0" in BY_NAME["workload_class"].without(zero)
