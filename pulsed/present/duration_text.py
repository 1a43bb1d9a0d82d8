"""Durations for people."""

from __future__ import annotations


def duration_text(seconds: float) -> str:
    """Return a duration as its two largest units: `45 s`, `12 min 30 s`, `4 h`, `3 d 04 h`."""
    whole = round(seconds)
    for size, name, part, part_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {name}" + (f" {rest:02d} {part_name}" if rest else "")
    return f"{whole} s"
