"""A line chart of braille dots: two columns and four rows of dots in a cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pulsed.terminal.line import Line, Segment
from pulsed.terminal.numbers import Number

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
