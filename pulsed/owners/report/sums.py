"""The arithmetic of counters by name: one sum, and the means that follow from it. A value that is None is not known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def added(values: Iterable[Any]) -> Any:
    """Return the sum of numbers, or of mappings by name, at any depth; None is left out, and None the sum of nothing.

    >>> added([{"gpu_seconds": 2.0, "idle_seconds": {"held": 1.0}}, {"gpu_seconds": 3.0, "idle_seconds": None}])
    {'gpu_seconds': 5.0, 'idle_seconds': {'held': 1.0}}
    """
    known = [value for value in values if value is not None]
    if not known:
        return None
    if isinstance(known[0], Mapping):
        names = dict.fromkeys(name for value in known for name in value)
        return {name: added(value.get(name) for value in known) for name in names}
    return sum(known)


def mean_of(word: str, counters: Mapping[str, Any], gpu_seconds: float) -> float | None:
    """Return the mean over the observed time in which a quantity was known; None without any.

    Args:
        word: `real_utilization`, `sm_active`, `tensor_active` or `dram_active`.
        counters: with its integral and its unknown time.
        gpu_seconds: observed time.
    """
    integral = counters.get(f"{word}_seconds")
    known_seconds = gpu_seconds - (counters.get(f"{word}_unknown_seconds") or 0.0)
    return None if integral is None or known_seconds <= 0.0 else float(integral / known_seconds)


def ratio_of(part: float, whole: float) -> float | None:
    """Return a share, at most 1; None without a whole."""
    return min(part / whole, 1.0) if whole > 0.0 else None
