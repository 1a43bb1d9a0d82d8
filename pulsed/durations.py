"""Durations as text: `100ms`, `15s`, `1h30m`. Must not import any layer."""

from __future__ import annotations

import math
import re
from typing import TypeGuard

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
"""Seconds."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?:\d{1,12}(?:\.\d+)?(?:ms|s|m|h|d))+")
_DURATION_PART = re.compile(r"(\d{1,12}(?:\.\d+)?)(ms|s|m|h|d)")


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether this is a finite number; `true` and `false`, which Python counts as numbers, are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def duration(value: object) -> float:
    """Return the seconds of a duration: a number of seconds, or `100ms`, `15s`, `1h30m`."""
    if is_number(value):
        seconds = float(value)
    elif isinstance(value, str) and _DURATION.fullmatch(value.strip()):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _DURATION_PART.findall(value))
    elif isinstance(value, str) and value.strip().startswith("-"):
        raise ValueError("is negative")
    else:
        raise ValueError("is not a duration")
    if seconds < 0:
        raise ValueError("is negative")
    if seconds == 0:
        raise ValueError("is not a positive duration")
    return seconds


def duration_or_none(value: object) -> float:
    """Return the seconds of a duration, or 0."""
    return 0.0 if value in (0, "0", "0s") and not isinstance(value, bool) else duration(value)


def in_words(seconds: float) -> str:
    """Return a duration for a sentence, such as `5 min`."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds > unit:
            return f"{seconds / unit:g} {name}"
    return f"{seconds:g} s"
