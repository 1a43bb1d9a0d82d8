"""The estimate of model FLOP utilization against what is published: the clock of each data sheet's peak.

A GPU whose tensor pipes are busy in every cycle at the highest clock would be estimated above the data sheet's peak by
one over these factors.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsed.compute.products import tensor_peak_of
from tools.bench.figure import Bar, Figure

PUBLISHED = (
    ("NVIDIA H100 80GB HBM3", 1.980e9, 0.924),
    ("NVIDIA A100-SXM4-80GB", 1.410e9, 1.000),
    ("NVIDIA L40S", 2.520e9, 0.988),
    ("NVIDIA H100 PCIe", 1.755e9, 0.923),
)
"""Models, their highest SM clocks in hertz, and the clock of the peak over it, from NVIDIA's data sheets."""

NOTE = "published error of the product itself on H100 GEMMs: 1.9 points, 0.06 after tile correction (arXiv 2605.20799)"


def run() -> Iterator[Figure]:
    for model, highest, factor in PUBLISHED:
        peak = tensor_peak_of(model)
        assert peak is not None, model
        difference = abs(peak.clock_hertz / highest - factor)
        yield Figure(f"clock of the tensor peak, {model}", difference * 100, "points", bar=Bar("value", 0.1), note=NOTE)
