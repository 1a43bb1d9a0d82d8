"""What the GPUs of an owner did between two evaluations of findings, and which of them is slower than its peers.

A straggler does the same work as its peers, and takes more time for it. GPUs that work in step do the same tensor and
memory work per step, whichever of them the others wait for. So a GPU with less work is not slow, it has a lighter part,
as stages of a pipeline have; and of GPUs with different work counters do not show which one is slow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from pulsed.compute.activity import media_of
from pulsed.compute.products import c2c_of
from pulsed.model.counters import CounterSnapshot
from pulsed.model.vocabulary import Reading, Value
from pulsed.owners.accounting import OwnedGpu
from pulsed.owners.accounting.counter_vector import CounterVector, increase, observed, total, value

MAX_UNKNOWN_RATIO = 0.1
"""Share of a step in which an input may be missing."""

_PCIE = ("pcie_transmit", "pcie_receive")
_NVLINK = ("nvlink_transmit", "nvlink_receive")
_C2C = ("c2c_transmit", "c2c_receive")
_MEANS = ("sm_active", "tensor_active", "dram_active")


class GpuStep(NamedTuple):
    """Activity of a GPU since the step before: means over its observed seconds, and values of its last sample.

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
    """Return whether a reading has no value of the GPU's activity, as of a lost GPU or frozen readings."""
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


PEERS = 2
"""Minimum number of peers that a straggler is compared with."""

SAME_WORK_RATIO = 0.15
SAME_WORK_DIFFERENCE = 0.02
"""Work is the same if it differs by no more than this, of the median or in itself."""

CLOCK_RATIO = 0.1
TIME_DIFFERENCE = 0.15
SPREADS = 3.0
"""A straggler differs from all its peers by this much, and by a multiple of their spread."""

IDLE_RATIO = 0.02
"""With less tensor and memory work there is nothing to compare."""


def straggler(steps: Sequence[GpuStep], names: Sequence[str]) -> tuple[frozenset[int], str] | str:
    """Return the positions of the GPUs that are slower than most, with the difference in words, or why that cannot be
    judged; empty if none is slower.
    """
    tensor = [step.tensor_active for step in steps]
    dram = [step.dram_active for step in steps]
    if None in tensor or None in dram:
        return "no " + ("PIPE_TENSOR_ACTIVE" if None in tensor else "DRAM_ACTIVE")
    works = [value for value in tensor if value is not None], [value for value in dram if value is not None]
    if max(*works[0], *works[1]) <= IDLE_RATIO:
        return "its GPUs do no tensor or memory work"
    clocks = [step.clock or 0.0 for step in steps]
    cycles = [ratio * clock / max(*clocks, 1.0) for ratio, clock in zip(works[0], clocks, strict=True)]
    if not (_is_same(works[0]) or _is_same(cycles)) or not _is_same(works[1]):
        return f"its GPUs do different work: {_range('tensor', works[0], names)}, {_range('DRAM', works[1], names)}"
    return _slower(steps, clocks) or ""


def _slower(steps: Sequence[GpuStep], clocks: Sequence[float]) -> tuple[frozenset[int], str] | str | None:
    """Return the GPUs that take longer than most for the same work; why it is not judged if half of them do."""
    if min(clocks) > 0.0 and (slow := _lowest(clocks, lambda usual: CLOCK_RATIO * usual)):
        return _found(slow, len(steps), f"SM clock {_both(slow, [f'{clock / 1e6:.0f} MHz' for clock in clocks])}")
    active = [-step.sm_active for step in steps if step.sm_active is not None]
    busy = [step.graphics_engine for step in steps if step.graphics_engine is not None]
    for name, values in (("SMs active", active), ("graphics engine busy", busy)):
        if len(values) == len(steps) and (slow := _lowest(values, lambda usual: TIME_DIFFERENCE)):
            shares = [f"{abs(value):.0%}" for value in values]
            return _found(slow, len(steps), f"{name} {_both(slow, shares)}")
    return None


def _found(slow: Sequence[int], count: int, text: str) -> tuple[frozenset[int], str] | str:
    at = frozenset(slow[: slow.index(-1)])
    return (at, text) if 2 * len(at) < count else f"half of its GPUs are slower than the others: {text}"


def _lowest(values: Sequence[float], difference: Callable[[float], float]) -> Sequence[int]:
    """Return the positions of the fewest values that are lower than all others by a difference, which depends on the
    median of these, and by a multiple of their spread; then -1, and the positions of the others by their values. Empty
    if there are none, or they are more than half.
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    by_size = [values[at] for at in order]
    for count in range(1, len(values) // 2 + 1):
        usual = by_size[(count + len(values)) // 2]
        gap = max(difference(usual), SPREADS * (by_size[-1] - by_size[count]))
        if by_size[count - 1] <= by_size[count] - gap:
            return [*order[:count], -1, *order[count:]]
    return ()


def _both(order: Sequence[int], texts: Sequence[str]) -> str:
    """Return the texts of the lowest values, and of the others."""
    at = order.index(-1)
    low, high = ([texts[place] for place in places] for places in (order[:at], order[at + 1 :]))
    return f"{_span(low)}, theirs {_span(high)}"


def _span(texts: Sequence[str]) -> str:
    first, last = sorted((texts[0], texts[-1]), key=lambda text: float(text.split()[0].rstrip("%")))
    return first if first == last else f"{first} to {last}"


def _is_same(values: Sequence[float]) -> bool:
    return _spread(values) <= max(SAME_WORK_RATIO * median(values), SAME_WORK_DIFFERENCE)


def _spread(values: Sequence[float]) -> float:
    return max(values) - min(values)


def _range(name: str, values: Sequence[float], gpus: Sequence[str]) -> str:
    """Return the least and the most of a kind of work, with their GPUs."""
    least, most = (pick(range(len(values)), key=values.__getitem__) for pick in (min, max))
    return f"{name} {values[least]:.0%} (GPU {gpus[least]}) to {values[most]:.0%} (GPU {gpus[most]})"
