"""When a GPU is slower than its peers: it does the same work as they do, and takes more time for it.

GPUs that work in step do the same tensor and memory work per step, whichever of them the others wait for. So a GPU with
less work is not slow, it has a lighter part, as stages of a pipeline have; and of GPUs with different work counters do
not show which one is slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from pulsed.owners.findings.steps import GpuStep

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


def straggler(steps: Sequence[GpuStep], names: Sequence[str]) -> tuple[int, str] | str:
    """Return the position of the GPU that is slower than its peers, with the difference in words, or why that cannot be
    judged; empty if none is slower.
    """
    tensor = [step.tensor_active for step in steps]
    dram = [step.dram_active for step in steps]
    if None in tensor or None in dram:
        return "no " + ("PIPE_TENSOR_ACTIVE" if None in tensor else "DRAM_ACTIVE")
    works = [value for value in tensor if value is not None], [value for value in dram if value is not None]
    if max(*works[0], *works[1]) <= IDLE_RATIO:
        return ""
    clocks = [step.clock or 0.0 for step in steps]
    cycles = [ratio * clock / max(*clocks, 1.0) for ratio, clock in zip(works[0], clocks, strict=True)]
    if not (_is_same(works[0]) or _is_same(cycles)) or not _is_same(works[1]):
        return f"its GPUs do different work: {_range('tensor', works[0], names)}, {_range('DRAM', works[1], names)}"
    return _slower(steps, clocks) or ""


def _slower(steps: Sequence[GpuStep], clocks: Sequence[float]) -> tuple[int, str] | None:
    """Return the GPU that takes longer than its peers for the same work."""
    at, others = _lowest(clocks)
    if 0.0 < clocks[at] <= min(others) - max(CLOCK_RATIO * median(others), SPREADS * _spread(others)):
        low, high = min(others) / 1e6, max(others) / 1e6
        return at, f"SM clock {clocks[at] / 1e6:.0f} MHz, theirs {low:.0f} to {high:.0f} MHz"
    active = [-step.sm_active for step in steps if step.sm_active is not None]
    busy = [step.graphics_engine for step in steps if step.graphics_engine is not None]
    for name, values in (("SMs active", active), ("graphics engine busy", busy)):
        if len(values) < len(steps):
            continue
        at, others = _lowest(values)
        if values[at] <= min(others) - max(TIME_DIFFERENCE, SPREADS * _spread(others)):
            shares = sorted(abs(value) for value in others)
            return at, f"{name} {abs(values[at]):.0%}, theirs {shares[0]:.0%} to {shares[-1]:.0%}"
    return None


def _lowest(values: Sequence[float]) -> tuple[int, Sequence[float]]:
    """Return the position of the lowest value, and the others."""
    at = min(range(len(values)), key=values.__getitem__)
    return at, [*values[:at], *values[at + 1 :]]


def _is_same(values: Sequence[float]) -> bool:
    return _spread(values) <= max(SAME_WORK_RATIO * median(values), SAME_WORK_DIFFERENCE)


def _spread(values: Sequence[float]) -> float:
    return max(values) - min(values)


def _range(name: str, values: Sequence[float], gpus: Sequence[str]) -> str:
    """Return the least and the most of a kind of work, with their GPUs."""
    least, most = (pick(range(len(values)), key=values.__getitem__) for pick in (min, max))
    return f"{name} {values[least]:.0%} (GPU {gpus[least]}) to {values[most]:.0%} (GPU {gpus[most]})"
