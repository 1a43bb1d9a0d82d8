"""Tensor throughput: tensor activity times SM clock over its maximum.

The nearest to model FLOP utilization that counters give (overall FLOP utilization, arXiv 2605.20799).
"""

from __future__ import annotations

from pulsed.compute.declaration import DerivedNumber, DerivedResult
from pulsed.model.vocabulary import Reading, Value


def tensor_throughput_ratio(reading: Reading) -> Value:
    """Return the tensor throughput in 0..1; None if an input is missing."""
    tensor, clock, highest = reading.tensor_active_ratio, reading.sm_clock_hertz, reading.sm_clock_max_hertz
    if tensor is None or clock is None or highest is None or not highest > 0.0:
        return None
    ratio = tensor * clock / highest
    return None if ratio != ratio else min(max(ratio, 0.0), 1.0)  # NaN counts as missing


TENSOR_THROUGHPUT = DerivedResult(
    name="tensor_throughput_ratio",
    inputs=lambda settings: (("tensor_active_ratio",), ("sm_clock_hertz",), ("sm_clock_max_hertz",)),
    without=lambda settings: "it is absent",
    values=(
        DerivedNumber(
            name="tensor_throughput_ratio",
            help="Tensor activity times SM clock over its maximum, the closest to model FLOP utilization that counters"
            " give",
            get=lambda reading, result: tensor_throughput_ratio(reading),
            json="saturation.tensor_throughput_ratio",
            csv=False,
            promql="clamp_max({tensor_active_ratio} * {sm_clock_hertz} / {sm_clock_max_hertz}, 1)",
        ),
    ),
)
