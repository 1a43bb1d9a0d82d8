from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.compute.derived_results import result_of
from pulsed.compute.products import TENSOR_PEAKS, tensor_peak_of
from pulsed.compute.saturation import mfu_ratio, tensor_throughput_ratio
from pulsed.compute.settings import ComputeSettings
from pulsed.model.gpu import Device, Entity
from pulsed.model.vocabulary import Reading


@pytest.mark.parametrize(
    ("tensor", "clock", "highest", "expected"),
    [
        (0.5, 1.2e9, 1.5e9, 0.4),
        (0.0, 1.2e9, 1.5e9, 0.0),
        (1.0, 1.6e9, 1.5e9, 1.0),
        (0.5, 0.4, 0.5, 0.4),  # any unit that both clocks have
        (None, 1.2e9, 1.5e9, None),
        (0.5, None, 1.5e9, None),
        (0.5, 1.2e9, None, None),
        (0.5, 1.2e9, 0.0, None),
    ],
)
def test_tensor_throughput(
    tensor: float | None, clock: float | None, highest: float | None, expected: float | None
) -> None:
    reading = Reading(tensor_active_ratio=tensor, sm_clock_hertz=clock, sm_clock_max_hertz=highest)
    assert tensor_throughput_ratio(reading, None) == (None if expected is None else pytest.approx(expected))


anything = st.none() | st.floats()


@given(anything, anything, anything, anything)
def test_any_input_gives_a_ratio_or_none(
    tensor: float | None, clock: float | None, highest: float | None, data_sheet: float | None
) -> None:
    reading = Reading(tensor_active_ratio=tensor, sm_clock_hertz=clock, sm_clock_max_hertz=highest)
    ratio = tensor_throughput_ratio(reading, data_sheet)
    assert ratio is None or 0.0 <= ratio <= 1.0


@pytest.mark.parametrize("model", ["NVIDIA H100 80GB HBM3", "NVIDIA B200", "NVIDIA GB200", "NVIDIA A10", ""])
def test_mfu_is_over_the_clock_of_the_data_sheets_peak(model: str) -> None:
    """It is unknown without one; throughput is then over the highest clock."""
    peak = tensor_peak_of(model)
    reading = Reading(tensor_active_ratio=0.5, sm_clock_hertz=1.2e9, sm_clock_max_hertz=2e9)
    result = result_of(Device(Entity("gpu", "0"), model), reading, ComputeSettings())
    expected = None if peak is None else pytest.approx(0.6e9 / peak.clock_hertz)
    assert mfu_ratio(reading, result) == expected
    assert tensor_throughput_ratio(reading, result.saturation.tensor_clock_hertz) == (
        pytest.approx(0.3) if expected is None else expected
    )


def test_each_name_has_one_row_of_peaks() -> None:
    names = (
        "A100-PCIE-40GB",
        "H100 PCIe",
        "H100 NVL",
        "H100 96GB HBM3",
        "B200",
        "L40S",
        "H200",
        "H200 NVL",
        "GH200 480GB",
    )
    found = [[row for row in TENSOR_PEAKS if re.search(row.pattern, f"NVIDIA {name}")] for name in names]
    assert {len(rows) for rows in found} == {1}
    assert [rows[0] for rows in found[:6]] == [*TENSOR_PEAKS]
