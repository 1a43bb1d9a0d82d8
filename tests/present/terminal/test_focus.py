"""The rule behind a class, and the inputs of an unknown one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pulsed.compute.derived_results import result_of
from pulsed.compute.settings import DEFAULT_SETTINGS
from pulsed.model.result import ShownClass
from pulsed.present.api.gpu_matches import Match
from pulsed.present.api.routes.gpus import class_document
from pulsed.present.terminal.focus import class_reasons
from tests.present.boards import gpu, target, tick

METRICS = {
    "sm_active_ratio": 0.13,
    "tensor_active_ratio": 0.04,
    "dram_active_ratio": 0.2,
    "graphics_engine_active_ratio": 0.3,
    "fp64_active_ratio": 0.0,
    "pcie_transmit_bytes_per_second": 7e8,
    "pcie_receive_bytes_per_second": 1.88e10,
}


def reasons(held: str | None = None, model: str = "NVIDIA H100 80GB HBM3", **metrics: Any) -> Sequence[str]:
    """The sentences about a GPU with these readings."""
    values: dict[str, Any] = {**METRICS, **metrics}
    made = gpu(0, **values)
    made = made._replace(device=replace(made.device, model=model))
    result = result_of(made.device, made.reading, DEFAULT_SETTINGS)
    shown = ShownClass(held or result.workload.raw_class, "", None)
    made_tick = tick([made._replace(result=result._replace(shown_class=shown))])
    match = Match(target("a", made_tick), made_tick.gpus[0], "here")
    document: Any = class_document(match, DEFAULT_SETTINGS)
    return list(class_reasons(document))


STILL: dict[str, Any] = {"pcie_receive_bytes_per_second": 0.0}
GH200: dict[str, Any] = {"model": "NVIDIA GH200 480GB"}
C2C = {"c2c_receive_bytes_per_second": 9e10, "c2c_transmit_bytes_per_second": 0.0}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "rule of io or data loading: PCIe 18.8 GB/s (>= 1.00 GB/s), SM 13 % (< 30 %)"),
        (
            {**GH200, **C2C},
            "rule of io or data loading: PCIe and C2C 90.0 GB/s (>= 1.00 GB/s), SM 13 % (< 30 %)",
        ),
        (
            {**GH200, **STILL},
            "these inputs would decide it: c2c_transmit_bytes_per_second (DCGM field 1076),"
            " c2c_receive_bytes_per_second (DCGM field 1078)",
        ),
        ({**STILL, "dram_active_ratio": 0.7, "sm_active_ratio": 0.9}, "rule of memory bound: DRAM 70 % (>= 65 %)"),
        ({**STILL, "dram_active_ratio": 0.55}, "rule of memory bound: DRAM 55 % (>= 50 %), SM 13 % (< 50 %)"),
        (
            {"pcie_transmit_bytes_per_second": None},
            "rule of io or data loading: PCIe -- (>= 1.00 GB/s), SM 13 % (< 30 %)",
        ),
    ],
    ids=["values", "superchip", "inputs of a superchip", "first of two rules", "second of two rules", "missing value"],
)
def test_a_class_has_the_rule_that_holds_with_its_values(given: dict[str, Any], sentence: str) -> None:
    assert reasons(**given)[-1] == sentence


def test_a_class_that_did_not_last_is_named() -> None:
    first, _ = reasons("idle")
    assert first == "the newest sample alone is io or data loading; a class changes when it lasts"


def test_an_unknown_class_has_its_candidates_and_the_inputs_that_they_need() -> None:
    readings: dict[str, Any] = {"graphics_engine_active_ratio": 0.9, "dram_active_ratio": 0.55}
    allowed, inputs = reasons(sm_active_ratio=None, pcie_receive_bytes_per_second=0.0, **readings)
    assert allowed.startswith("unknown: the inputs allow ")
    assert "memory bound" in allowed
    assert inputs == "these inputs would decide it: sm_active_ratio (DCGM field 1002)"


def test_a_daemon_without_reasons_gives_none() -> None:
    assert list(class_reasons({})) == []
