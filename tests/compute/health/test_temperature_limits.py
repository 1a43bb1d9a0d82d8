from __future__ import annotations

import pytest

from pulsed.compute.health.temperature_limits import TemperatureLimits, limits_of


@pytest.mark.parametrize("model", ["NVIDIA H200", "NVIDIA H200 141GB HBM3e"])
def test_h200(model: str) -> None:
    assert limits_of(model).max_operating == 87.0


@pytest.mark.parametrize("model", ["NVIDIA GH200 480GB", "GH200", "NVIDIA H200 NVL"])
def test_boards_with_other_limits_do_not_take_those_of_h200(model: str) -> None:
    assert limits_of(model) == TemperatureLimits()
