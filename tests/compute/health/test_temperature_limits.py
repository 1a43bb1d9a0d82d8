from __future__ import annotations

import pytest

from pulsed.compute.products import TemperatureLimits, limits_of


@pytest.mark.parametrize("model", ["NVIDIA H200", "NVIDIA H200 141GB HBM3e"])
def test_h200(model: str) -> None:
    assert limits_of(model).max_operating == 87.0


@pytest.mark.parametrize("model", ["NVIDIA GH200 480GB", "GH200", "NVIDIA H200 NVL"])
def test_boards_with_other_limits_do_not_take_those_of_h200(model: str) -> None:
    assert limits_of(model) == TemperatureLimits()


@pytest.mark.parametrize(
    ("model", "slowdown", "max_operating", "memory"),
    [
        ("NVIDIA A100-SXM4-80GB", 89, 85, 95),
        ("NVIDIA A10G", 95, 88, None),
        ("Tesla T4", 93, 85, None),
        ("Tesla V100-SXM2-16GB", 87, 83, 85),
        ("Tesla P100-PCIE-16GB", 82, None, None),
        ("NVIDIA GeForce RTX 3080", 95, 93, None),
        ("NVIDIA GeForce RTX 3090", 95, 93, None),
        ("NVIDIA GeForce RTX 3090 Ti", None, None, None),
        ("NVIDIA GeForce RTX 2080 SUPER", 97, 89, None),
        ("NVIDIA GeForce RTX 4080 SUPER", 96, 90, None),
        ("NVIDIA H100 80GB HBM3", 89, 87, None),
        ("NVIDIA H200", 89, 87, None),
        ("NVIDIA L40S", 90, 88, None),
        ("NVIDIA RTX 4000 SFF Ada Generation", 89, 87, None),
        ("NVIDIA GeForce RTX 4090", 85, 83, None),
        ("NVIDIA GeForce RTX 5090", 92, 90, None),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 93, 93, None),
    ],
)
def test_limits_are_those_that_the_driver_reports(
    model: str, slowdown: float | None, max_operating: float | None, memory: float | None
) -> None:
    assert limits_of(model) == TemperatureLimits(slowdown, max_operating, memory)
