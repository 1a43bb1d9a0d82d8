"""What a GPU did between two evaluations of findings: means of its counters, and values of its last sample."""

from __future__ import annotations

from typing import NamedTuple

from pulsed.compute.bounds import media_of
from pulsed.compute.class_table import BOTTLENECK_OF
from pulsed.compute.products import c2c_of
from pulsed.model.counters import CounterSnapshot
from pulsed.model.vocabulary import UNKNOWN, WORKLOAD_CLASSES, Value
from pulsed.owners.accounting.accounting import OwnedGpu
from pulsed.owners.accounting.counter_vector import CounterVector, increase, observed, total, value

MAX_UNKNOWN_RATIO = 0.1
"""Share of a step in which an input may be missing."""

_PCIE = ("pcie_transmit", "pcie_receive")
_NVLINK = ("nvlink_transmit", "nvlink_receive")
_C2C = ("c2c_transmit", "c2c_receive")
_MEANS = ("real_utilization", "sm_active", "dram_active")


class GpuStep(NamedTuple):
    """What a GPU did since the step before: the bottleneck of its most frequent class, means over its observed seconds,
    and values of its last sample."""

    seconds: float
    bottleneck: str
    real_utilization: Value
    sm_active: Value
    dram_active: Value
    traffic: Value
    watts: Value
    graphics_engine: Value
    clock: Value
    media: float


def step_of(base: CounterSnapshot, held: OwnedGpu) -> GpuStep | None:
    """Return what a GPU did since `base`; None if no time was observed, or its counters began again."""
    if base.created != held.result.counters.created:
        return None
    counters = increase(base, held.result.counters)
    seconds = observed(counters)
    if seconds <= 0.0:
        return None
    utilization, sm, dram = (_mean(value(counters, f"{name}_seconds"), counters, name, seconds) for name in _MEANS)
    watts = _mean(total(counters, "class_energy_joules"), counters, "energy", seconds)
    needed = (*_PCIE, *_C2C) if c2c_of(held.device.model) else _PCIE
    flows = {
        link: _mean(value(counters, f"observed_{link}_bytes"), counters, link, seconds)
        for link in (*_PCIE, *_NVLINK, *_C2C)
    }
    is_known = all(flows[link] is not None for link in needed)
    traffic = sum(flow for flow in flows.values() if flow is not None) if is_known else None
    reading = held.reading
    gr, clock = reading.graphics_engine_active_ratio, reading.sm_clock_hertz
    gr = reading.gpu_utilization_ratio if gr is None else gr
    class_seconds = {name: value(counters, "workload_class_seconds", name) or 0.0 for name in WORKLOAD_CLASSES}
    bottleneck = BOTTLENECK_OF.get(max(class_seconds, key=class_seconds.__getitem__), UNKNOWN)
    media = media_of(reading)
    return GpuStep(seconds, bottleneck, utilization, sm, dram, traffic, watts, gr, clock, media)


def _mean(integral: Value, counters: CounterVector, word: str, seconds: float) -> Value:
    """Return the mean of a quantity over the time in which it was known; None if that is too little of the time."""
    unknown = value(counters, f"{word}_unknown_seconds") or 0.0
    return None if integral is None or unknown > MAX_UNKNOWN_RATIO * seconds else integral / (seconds - unknown)
