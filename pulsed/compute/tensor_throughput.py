"""Tensor throughput, and model FLOP utilization (MFU) estimated from it: tensor activity times SM clock over a clock.

That product is published as overall FLOP utilization (OFU, arXiv 2605.20799). It is an upper estimate of MFU: a pipe
that works on the padding of a tile, or on what is computed again, is active as well, and sparsity is not seen. The peak
of a data sheet is for a lower clock than the highest.
"""

from __future__ import annotations

from pulsed.compute.declaration import DerivedNumber, DerivedResult
from pulsed.model.computed_tick import Result
from pulsed.model.vocabulary import Reading, Value


def tensor_throughput_ratio(reading: Reading, data_sheet_clock: Value) -> Value:
    """Return the tensor throughput in 0..1 over that at the data sheet's clock, in hertz; without one (None), over that
    at the highest clock. None if an input is missing."""
    tensor, clock = reading.tensor_active_ratio, reading.sm_clock_hertz
    clock_of_peak = reading.sm_clock_max_hertz if data_sheet_clock is None else data_sheet_clock
    if tensor is None or clock is None or clock_of_peak is None or not clock_of_peak > 0.0:
        return None
    ratio = tensor * clock / clock_of_peak
    return None if ratio != ratio else min(max(ratio, 0.0), 1.0)  # NaN counts as missing


def mfu_ratio(reading: Reading, result: Result) -> Value:
    """Return the estimate of MFU in 0..1; None if an input, or the data sheet's clock of the model, is missing."""
    clock = result.saturation.tensor_clock_hertz
    return None if clock is None else tensor_throughput_ratio(reading, clock)


TENSOR_THROUGHPUT = DerivedResult(
    name="tensor_throughput_ratio",
    inputs=lambda settings: (("tensor_active_ratio",), ("sm_clock_hertz",), ("sm_clock_max_hertz",)),
    without=lambda settings: "it is absent",
    values=(
        DerivedNumber(
            name="tensor_throughput_ratio",
            help="Tensor activity times SM clock over the clock of the data sheet's peak, or over the highest clock",
            get=lambda reading, result: tensor_throughput_ratio(reading, result.saturation.tensor_clock_hertz),
            json="saturation.tensor_throughput_ratio",
            csv=False,
        ),
        DerivedNumber(
            name="mfu_ratio",
            help="Upper estimate of model FLOP utilization from tensor throughput, for products with a known data sheet"
            " clock; ignores tile quantization and sparsity",
            get=mfu_ratio,
            json="saturation.mfu_ratio",
            csv=False,
        ),
    ),
)
