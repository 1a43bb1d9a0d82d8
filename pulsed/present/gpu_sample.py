"""One GPU of one tick: the input of every output."""

from __future__ import annotations

from typing import NamedTuple

from pulsed.model.computed_tick import ComputedTick, Result
from pulsed.model.gpu import Device
from pulsed.model.vocabulary import Reading


class GpuSample(NamedTuple):
    """The data of one GPU in one tick."""

    device: Device
    reading: Reading
    result: Result
    anomalies: tuple[str, ...]
    time: float


def gpu_samples(tick: ComputedTick) -> list[GpuSample]:
    """Return the samples of all devices of a tick."""
    lost = tick.lost
    anomalies = tick.anomalies
    return [
        GpuSample(device, reading, result, anomalies.get(position, ()), lost.get(position, tick.time))
        for position, (device, reading, result) in enumerate(
            zip(tick.devices, tick.readings, tick.results, strict=True)
        )
    ]
