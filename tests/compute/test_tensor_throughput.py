from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.compute.tensor_throughput import tensor_throughput_ratio
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
    assert tensor_throughput_ratio(reading) == (None if expected is None else pytest.approx(expected))


anything = st.none() | st.floats()


@given(anything, anything, anything)
def test_any_input_gives_a_ratio_or_none(tensor: float | None, clock: float | None, highest: float | None) -> None:
    reading = Reading(tensor_active_ratio=tensor, sm_clock_hertz=clock, sm_clock_max_hertz=highest)
    ratio = tensor_throughput_ratio(reading)
    assert ratio is None or 0.0 <= ratio <= 1.0
