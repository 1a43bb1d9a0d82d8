"""The rule behind a class, and the inputs of an unknown one."""

from __future__ import annotations

from typing import Any

from pulsed.present.terminal.class_rule import class_reasons
from tests.present.terminal.fleet_model import answers

CATALOG = answers().catalog or {}
METRICS = {
    "sm_active_ratio": 0.13,
    "tensor_active_ratio": 0.04,
    "dram_active_ratio": 0.2,
    "graphics_engine_active_ratio": 0.3,
    "fp64_active_ratio": 0.0,
    "pcie_transmit_bytes_per_second": 7e8,
    "pcie_receive_bytes_per_second": 1.88e10,
}


def gpu(
    raw: str,
    shown: str | None = None,
    candidates: tuple[str, ...] = (),
    missing: tuple[str, ...] = (),
    **metrics: float | None,
) -> Any:
    return {
        "workload": {"class": shown or raw, "raw_class": raw, "candidates": list(candidates)},
        "real_utilization": {"ratio": 0.12, "missing_inputs": []},
        "saturation": {"missing": list(missing)},
        "metrics": {**METRICS, **metrics},
    }


def test_a_class_has_its_rule_with_the_values() -> None:
    assert list(class_reasons(gpu("io_or_data_loading"), CATALOG)) == [
        "rule of io or data loading: PCIe 18.8 GB/s (>= 1.00 GB/s), SM 13 % (< 30 %)"
    ]


def test_the_link_of_a_superchip_is_named() -> None:
    loading = gpu("io_or_data_loading", c2c_receive_bytes_per_second=9e10, c2c_transmit_bytes_per_second=0.0)
    assert list(class_reasons(loading, CATALOG)) == [
        "rule of io or data loading: PCIe and C2C 90.0 GB/s (>= 1.00 GB/s), SM 13 % (< 30 %)"
    ]
    candidates = ("io_or_data_loading", "low_utilization")
    _, inputs = class_reasons(gpu("unknown", candidates=candidates, missing=("c2c",)), CATALOG)
    assert inputs == (
        "these inputs would decide it: c2c_transmit_bytes_per_second (DCGM field 1076),"
        " c2c_receive_bytes_per_second (DCGM field 1078)"
    )


def test_of_two_rules_of_a_class_the_one_that_holds_is_shown() -> None:
    (saturated,) = class_reasons(gpu("memory_bound", dram_active_ratio=0.7, sm_active_ratio=0.9), CATALOG)
    (other,) = class_reasons(gpu("memory_bound", dram_active_ratio=0.55), CATALOG)
    assert "DRAM 70 % (>= 65 %)" in saturated
    assert "DRAM 55 % (>= 50 %), SM 13 % (< 50 %)" in other


def test_a_class_that_did_not_last_is_named() -> None:
    first, _ = class_reasons(gpu("io_or_data_loading", "idle"), CATALOG)
    assert first == "the newest sample alone is io or data loading; a class changes when it lasts"


def test_a_missing_value_is_not_zero() -> None:
    missing = gpu("io_or_data_loading", sm_active_ratio=None, pcie_receive_bytes_per_second=None,
                  pcie_transmit_bytes_per_second=None)  # fmt: skip
    assert list(class_reasons(missing, CATALOG)) == [
        "rule of io or data loading: PCIe -- (>= 1.00 GB/s), SM -- (< 30 %)"
    ]


def test_an_unknown_class_has_its_candidates_and_the_inputs_that_they_need() -> None:
    candidates = ("memory_bound", "compute_active")
    allowed, inputs = class_reasons(gpu("unknown", candidates=candidates, sm_active_ratio=None), CATALOG)
    assert allowed == "unknown: the inputs allow memory bound, compute active"
    assert inputs == "these inputs would decide it: sm_active_ratio (DCGM field 1002)"


def test_a_daemon_without_rules_gives_no_reason() -> None:
    assert list(class_reasons(gpu("idle"), {})) == []
