"""One GPU of one tick, with everything that is said about it: what each output makes its row, or its samples, from."""

from __future__ import annotations

from typing import NamedTuple

from pulsed.compute.tick import ComputedTick, Result
from pulsed.translate.tick import Device
from pulsed.translate.vocabulary import Reading


class GpuSample(NamedTuple):
    """Everything that one tick says about one GPU."""

    device: Device
    reading: Reading
    result: Result
    anomalies: tuple[str, ...]
    time: float


def gpu_samples(tick: ComputedTick) -> list[GpuSample]:
    """Say of each device of a tick all that the tick says about it."""
    canonical, lost = tick.canonical, tick.lost
    anomalies = canonical.anomalies
    return [
        GpuSample(device, reading, result, anomalies.get(position, ()), lost.get(position, canonical.time))
        for position, (device, reading, result) in enumerate(
            zip(canonical.devices, canonical.readings, tick.results, strict=True)
        )
    ]
