"""History that is read whole once, and then only its newest points: those of two requests coincide."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

Document = Mapping[str, Any]

NEWEST = 6
"""Points that are read again: those that were not complete, and some that came in late."""

COVERED_INTERVALS = 3
"""Intervals that a sample covers at most: what the first points of a request lack of their past."""


def newest_points(history: Document) -> tuple[float, int]:
    """Return length in seconds and number of points of the request for the newest points of a history."""
    count = NEWEST + _margin(history)
    return count * history["step_seconds"], count


def with_newest(history: Document, newest: Document) -> Document | None:
    """Return a history moved on to its newest points; None if they do not follow it, or are of other GPUs."""
    step, times, margin = history["step_seconds"], history["time"], _margin(history)
    new_times = newest["time"][margin:]
    begin = new_times[0]
    kept = sum(time < begin - step / 2 for time in times)
    is_next = newest["step_seconds"] == step and kept > 0 and begin - times[kept - 1] < 1.5 * step
    if not is_next or _names(history) != _names(newest):
        return None
    size = len(times)

    def moved(old: Any, new: Any) -> Any:
        """Return a column, or each of the columns of a number, with the new points at its end."""
        if isinstance(new, dict):
            return {name: moved(old[name], values) for name, values in new.items()}
        return [*old[:kept], *new[margin:]][-size:]

    gpus = [
        {**new, "fields": {name: moved(old["fields"][name], values) for name, values in new["fields"].items()}}
        for old, new in zip(history["gpus"], newest["gpus"], strict=True)
    ]
    return {**history, "time": [*times[:kept], *new_times][-size:], "gpus": gpus}


def _margin(history: Document) -> int:
    """Return how many of the first points of a request may be incomplete."""
    interval: float = max((gpu["interval_seconds"] for gpu in history["gpus"]), default=0.0)
    step: float = history["step_seconds"]
    return ceil(COVERED_INTERVALS * interval / step) + 1


def _names(history: Document) -> list[tuple[str, str, str | None, tuple[str, ...]]]:
    return [(gpu["node"], gpu["gpu"], gpu["mig_id"], tuple(gpu["fields"])) for gpu in history["gpus"]]
