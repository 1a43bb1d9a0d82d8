"""Bars and trends."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple, TypeVar

from pulsed.terminal.line import Line, Segment
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


_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a braille character by row and column."""

_BRAILLE = 0x2800


class Curve(NamedTuple):
    """Values from the oldest to the newest, None in gaps, and the style of their line."""

    values: Sequence[Number]
    style: str


def chart(curves: Sequence[Curve], width: int, height: int, top: float) -> list[Line]:
    """Return the curves in `width` x `height` cells, from 0 to `top`; a gap stays empty. Later curves are above."""
    bits = [[0] * width for _ in range(height)]
    styles = [[""] * width for _ in range(height)]
    for curve in curves:
        before: tuple[int, int] | None = None
        for x, value in enumerate(_columns(curve.values, 2 * width)):
            if value is None:
                before = None
                continue
            y = round((1 - max(0.0, min(value / top, 1.0))) * (4 * height - 1)) if top > 0 else 4 * height - 1
            for dot in _between(before[1] if before is not None else y, y):
                bits[dot // 4][x // 2] |= _DOTS[dot % 4][x % 2]
                styles[dot // 4][x // 2] = curve.style
            before = (x, y)
    return [_line(row, row_styles) for row, row_styles in zip(bits, styles, strict=True)]


def _columns(values: Sequence[Number], count: int) -> list[Number]:
    """Return one value per column of dots: the largest of its values, which is None only if all are."""
    if not values:
        return [None] * count
    found: list[Number] = []
    for column in range(count):
        begin, end = column * len(values) // count, (column + 1) * len(values) // count
        part = [value for value in values[begin : max(end, begin + 1)] if value is not None]
        found.append(max(part, default=None))
    return found


def _between(before: int, now: int) -> range:
    """Return the rows of dots from one point to the next, without the first."""
    if before == now:
        return range(now, now + 1)
    return range(before + 1, now + 1) if before < now else range(now, before)


def _line(row: Sequence[int], styles: Sequence[str]) -> Line:
    segments: list[Segment] = []
    begin = 0
    for at in range(1, len(row) + 1):
        if at == len(row) or styles[at] != styles[begin]:
            text = "".join(chr(_BRAILLE + bits) if bits else " " for bits in row[begin:at])
            segments.append(Segment(text, styles[begin]))
            begin = at
    return Line(segments)
