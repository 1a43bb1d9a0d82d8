"""What a GPU did between two evaluations of findings: means of its counters, and values of its last sample."""

from __future__ import annotations

from typing import NamedTuple

from pulsed.compute.activity import media_of
from pulsed.compute.products import c2c_of
from pulsed.model.counters import CounterSnapshot
from pulsed.model.vocabulary import Reading, Value
from pulsed.owners.accounting.accounting import OwnedGpu
from pulsed.owners.accounting.counter_vector import CounterVector, increase, observed, total, value

MAX_UNKNOWN_RATIO = 0.1
"""Share of a step in which an input may be missing."""

_PCIE = ("pcie_transmit", "pcie_receive")
_NVLINK = ("nvlink_transmit", "nvlink_receive")
_C2C = ("c2c_transmit", "c2c_receive")
_MEANS = ("sm_active", "tensor_active", "dram_active")


class GpuStep(NamedTuple):
    """What a GPU did since the step before: means over its observed seconds, and values of its last sample.

    Attributes:
        traffic: bytes per second over all links that are measured.
        unmeasured_link: a link whose traffic is needed but unknown, as DCGM's fields name it; otherwise empty.
        arithmetic: activity of the busiest floating-point pipe; 0 if none is measured.
        media: activity of the busiest media engine.
    """

    seconds: float
    sm_active: Value
    tensor_active: Value
    dram_active: Value
    traffic: float
    unmeasured_link: str
    watts: Value
    limit_watts: Value
    graphics_engine: Value
    clock: Value
    arithmetic: float
    media: float


def is_blank(reading: Reading) -> bool:
    """Return whether a reading has nothing of what a GPU does, as one that is lost or whose readings are frozen."""
    return (
        reading.graphics_engine_active_ratio is None
        and reading.gpu_utilization_ratio is None
        and reading.dram_active_ratio is None
        and reading.power_watts is None
    )


def step_of(base: CounterSnapshot, held: OwnedGpu) -> GpuStep | None:
    """Return what a GPU did since `base`; None if no time was observed."""
    counters = increase(base, held.result.counters)
    seconds = observed(counters)
    if seconds <= 0.0:
        return None
    sm, tensor, dram = (_mean(value(counters, f"{name}_seconds"), counters, name, seconds) for name in _MEANS)
    flows = {
        link: _mean(value(counters, f"observed_{link}_bytes"), counters, link, seconds)
        for link in (*_PCIE, *_NVLINK, *_C2C)
    }
    needed = {"PCIE_RX_BYTES": _PCIE} | ({"C2C_RX_ALL_BYTES": _C2C} if c2c_of(held.device.model) else {})
    reading = held.reading
    gr = reading.graphics_engine_active_ratio
    pipes = (reading.fp64_active_ratio, reading.fp32_active_ratio, reading.fp16_active_ratio)
    return GpuStep(
        seconds=seconds,
        sm_active=sm,
        tensor_active=tensor,
        dram_active=dram,
        traffic=sum(flow for flow in flows.values() if flow is not None),
        unmeasured_link=next((name for name, ways in needed.items() if None in [flows[way] for way in ways]), ""),
        watts=_mean(total(counters, "class_energy_joules"), counters, "energy", seconds),
        limit_watts=reading.power_limit_watts,
        graphics_engine=reading.gpu_utilization_ratio if gr is None else gr,
        clock=reading.sm_clock_hertz,
        arithmetic=max((pipe for pipe in pipes if pipe is not None), default=0.0),
        media=media_of(reading),
    )


def _mean(integral: Value, counters: CounterVector, word: str, seconds: float) -> Value:
    """Return the mean of a quantity over the time in which it was known; None if that is too little of the time."""
    unknown = value(counters, f"{word}_unknown_seconds") or 0.0
    return None if integral is None or unknown > MAX_UNKNOWN_RATIO * seconds else integral / (seconds - unknown)
