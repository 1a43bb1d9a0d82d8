"""Why a GPU has its class: the rules lead to the class that was computed, with exactly its bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.compute.class_table import ClassThresholds
from pulsed.compute.derived_results import result_of
from pulsed.compute.settings import DEFAULT_SETTINGS, ComputeSettings, WorkloadSettings
from pulsed.compute.workload import MEASURED_BY
from pulsed.model.result import Bounds, Inputs
from pulsed.model.vocabulary import NOTHING, Reading
from pulsed.present.api.gpu_matches import Match
from pulsed.present.api.routes.gpus import ClassReasonShape, class_document
from tests.present.api.test_application import Known
from tests.present.boards import Gpu, gpu, mig, target, tick
from tests.support.documents import has_shape

SETTINGS = (
    DEFAULT_SETTINGS,
    ComputeSettings(missing="zero"),
    ComputeSettings(workload=WorkloadSettings("kempnerpulse")),
    ComputeSettings(workload=WorkloadSettings(thresholds=ClassThresholds(memory_bound_saturated_dram_ratio=0.9))),
)

RATIOS = ("sm", "tensor", "dram", "graphics_engine", "fp64")
INPUTS = (*(f"{name}_active_ratio" for name in RATIOS), "gpu_utilization_ratio", "memory_utilization_ratio")
values = st.none() | st.sampled_from((0.0, 0.05, 0.15, 0.3, 0.5, 0.65, 1.0)) | st.floats(0, 1)
rates = st.none() | st.sampled_from((0.0, 1e9, 2e9))
readings = st.builds(
    lambda ratios, rates: NOTHING._replace(**ratios, **rates),
    st.fixed_dictionaries(dict.fromkeys(INPUTS, values)),
    st.fixed_dictionaries(dict.fromkeys(MEASURED_BY["io"], rates)),
)

SUPERCHIP = gpu(0)._replace(device=replace(gpu(0).device, model="NVIDIA GH200 480GB"))


def explained(made: Gpu, reading: Reading, settings: ComputeSettings = DEFAULT_SETTINGS, **changes: Any) -> Any:
    """The document of a GPU with this reading, as the layer computes it."""
    result = result_of(made.device, reading, settings)._replace(**changes)
    made_tick = tick([made._replace(reading=reading, result=result)])
    match = Match(target("a", made_tick), made_tick.gpus[0], "here")
    document = class_document(match, settings)
    assert has_shape(ClassReasonShape, document)
    return document


@given(readings, st.sampled_from(SETTINGS), st.sampled_from((gpu(0), SUPERCHIP, mig(0, 7))))
def test_the_rules_lead_to_the_class(reading: Reading, settings: ComputeSettings, made: Gpu) -> None:
    document = explained(made, reading, settings)
    classes = dict.fromkeys(rule["class"] for rule in document["rules"] if rule["holds"] is not False)
    assert sorted(classes) == sorted(document["candidates"] or [document["raw_class"]])
    assert document["rules"][-1]["holds"] is not False
    for rule in document["rules"]:
        states = [condition["holds"] for condition in rule["conditions"]]
        assert False not in states or rule["holds"] is False
    assert not document["deciding_inputs"] or document["candidates"]
    assert all(getattr(reading, name) is None for name in document["deciding_inputs"])


def test_an_open_condition_has_bounds_and_the_input_that_decides() -> None:
    reading = NOTHING._replace(
        tensor_active_ratio=0.1, dram_active_ratio=0.3, graphics_engine_active_ratio=0.9, fp64_active_ratio=0.0,
        pcie_transmit_bytes_per_second=0.0, pcie_receive_bytes_per_second=0.0,
    )  # fmt: skip
    document = explained(gpu(0), reading)
    heavy = next(rule for rule in document["rules"] if rule["class"] == "compute_heavy")
    assert heavy["holds"] is None
    assert heavy["conditions"] == [
        {
            "variable": "sm",
            "inputs": ["sm_active_ratio"],
            "comparison": ">=",
            "threshold": 0.8,
            "low": 0.1,
            "high": 0.9,
            "holds": None,
        }
    ]
    assert list(document["deciding_inputs"]) == ["sm_active_ratio"]
    assert document["deciding_inputs"]["sm_active_ratio"]["fields"][0]["id"] == 1002
    assert document["rules"][0]["conditions"][3]["high"] == 0.0


def test_traffic_without_a_limit_is_null() -> None:
    busy = NOTHING._replace(graphics_engine_active_ratio=0.5)
    (io,) = [each for each in explained(gpu(0), busy)["rules"][0]["conditions"] if each["variable"] == "io"]
    assert (io["low"], io["high"], io["holds"]) == (0.0, None, None)


def test_the_instances_of_a_board_narrow_its_bounds() -> None:
    idle = Bounds(Inputs(0.0, 0.0, 0.0, 0.0, 0.0), Inputs(0.1, 0.1, 0.1, 0.1, 0.1))
    document = explained(gpu(0), NOTHING, rollup_bounds=idle)
    assert [each["high"] for each in document["rules"][0]["conditions"] if each["variable"] == "dram"] == [0.1]


@pytest.mark.parametrize(("name", "status"), [("0", 200), ("9", 404)])
async def test_the_route(name: str, status: int) -> None:
    found, document, _ = await Known([gpu(0)]).get(f"/gpus/{name}/class")
    assert found == status
    if status == 200:
        assert has_shape(ClassReasonShape, document)
