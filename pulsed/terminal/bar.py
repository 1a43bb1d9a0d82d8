"""Bars and trends."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TypeVar

from pulsed.terminal.line import Segment
from pulsed.terminal.numbers import Number

_T = TypeVar("_T")

_LEVELS = "▁▂▃▄▅▆▇█"


def bar(width: int, style: str, lower: Number, upper: Number = None, mark: Number = None) -> list[Segment]:
    """Return a bar with brackets, `width` cells in all.

    It is solid up to `lower` and hatched from there to `upper`; without any number it is hatched all over. A known 0 is
    a tick at the origin. `mark` is the place of another number, which is drawn where the bar is empty.
    """
    size = max(width - 2, 1)
    if lower is None:
        return [Segment("["), Segment(("/ " * size)[:size], "stale"), Segment("]")]
    solid = _cells(lower, size)
    hatched = max(_cells(lower if upper is None else upper, size) - solid, 0)
    empty = ["·"] * (size - solid - hatched)
    if mark is not None and isfinite(mark) and empty:
        place = min(round(mark * size), size) - 1 - solid - hatched
        if place >= 0:
            empty[place] = "|"
    if not solid and not hatched and lower == 0 and empty[0] == "·":
        empty[0] = "▏"
    return [
        Segment("["),
        Segment("█" * solid, style),
        Segment("▒" * hatched, style),
        Segment("".join(empty), "dim"),
        Segment("]"),
    ]


def _mean(values: Sequence[Number]) -> Number:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _cells(ratio: float, size: int) -> int:
    """Return the cells of a ratio; one at least if it is not 0."""
    if not isfinite(ratio) or ratio <= 0:
        return 0
    return min(max(round(ratio * size), 1), size)


def parts(values: Sequence[_T], count: int) -> list[Sequence[_T]]:
    """Return the values in at most `count` parts of about the same length, in their order."""
    size = min(len(values), max(count, 0))
    return [values[at * len(values) // size : (at + 1) * len(values) // size] for at in range(size)]


def trend(values: Sequence[Number], width: int, top: float | None = None) -> str:
    """Return values as blocks of eight heights, aligned to the right. A gap is a space, 0 the lowest block.

    More values than `width` are means of several.

    Args:
        top: value of full height; None: the largest of the values.
    """
    shown = [_mean(part) for part in parts(values, width)]
    known = [value for value in shown if value is not None]
    full = top if top is not None else max(known, default=0.0)
    blocks = []
    for value in shown:
        if value is None:
            blocks.append(" ")
        else:
            level = int(value / full * len(_LEVELS)) if full > 0 else 0
            blocks.append(_LEVELS[max(0, min(level, len(_LEVELS) - 1))])
    return "".join(blocks).rjust(max(width, 0))
