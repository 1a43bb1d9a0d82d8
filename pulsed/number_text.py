"""Numbers as short texts, many as blocks, and texts of a width in cells. A missing number is `--`, never 0.

Must not import more of rich than its width of characters, as the daemon renders texts too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import isfinite
from typing import TypeVar

from rich.cells import cell_len, set_cell_size

Number = float | int | None
T = TypeVar("T")

MISSING, ELLIPSIS = "--", "…"

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (0.0, ""))
_PERIODS = ((86400, "d"), (3600, "h"), (60, "min"))
_LEVELS = "▁▂▃▄▅▆▇█"


def _known(show: Callable[[float], str]) -> Callable[[Number], str]:
    return lambda value: MISSING if value is None or not isfinite(value) else show(value)


percent = _known(lambda value: f"{100 * value:.0f}")
"""A ratio in percent, without the sign."""

whole = _known(lambda value: f"{value:.0f}")
gibibytes = _known(lambda value: f"{value / 2**30:.1f}")
rate = _known(lambda value: f"{value:.1f}" if 0 < value < 10 else f"{value:.0f}")


def metric(value: Number, unit: str) -> str:
    """Return a number with three digits and a decimal prefix: `1.25 GB/s`."""
    if value is None or not isfinite(value):
        return MISSING
    size, prefix = next(each for each in _PREFIXES if abs(value) >= 0.9995 * each[0])
    number = value / (size or 1.0)
    digits = 0 if number == 0 or abs(number) >= 99.95 else 1 if abs(number) >= 9.995 else 2
    return f"{number:.{digits}f} {prefix}{unit}"


def duration(seconds: Number) -> str:
    """Return a time as its largest unit: `42 s`, `14 min`, `3 h`, `2 d`."""
    if seconds is None or not isfinite(seconds):
        return MISSING
    return next(
        (f"{int(seconds // size)} {unit}" for size, unit in _PERIODS if seconds >= size), f"{max(seconds, 0):.0f} s"
    )


def span(lower: Number, upper: Number) -> str:
    """Return bounds of a ratio in percent: `38..61`; one number if they round to the same."""
    low, high = percent(lower), percent(upper)
    return low if low == high else f"{low}..{high}"


_UNITS: Mapping[str, tuple[Callable[[Number], str], str]] = {
    "_ratio": (percent, " %"),
    "_bytes": (gibibytes, " GiB"),
    "_hertz": (_known(lambda value: f"{value / 1e6:.0f}"), " MHz"),
    "_watts": (whole, " W"),
    "_celsius": (whole, " C"),
    "_bytes_per_second": (lambda value: metric(value, "B").replace(" ", ""), "/s"),
    "_joules_total": (lambda value: metric(value, "J"), ""),
}
"""How the fields of the API are shown, and the unit behind it, by the ends of their names."""


def field_text(field: str, value: Number) -> str:
    """Return the value of a field without its unit: `62`, `61.0`, `1.20GB`."""
    return _shown(field)[0](value)


def field_text_with_unit(field: str, value: Number) -> str:
    """Return the value of a field with its unit: `62 %`, `61.0 GiB`, `1.20 GB/s`."""
    show, unit = _shown(field)
    if field.endswith("_bytes_per_second"):
        return metric(value, "B/s")
    return show(value) + (unit if value is not None else "")


@cache
def _shown(field: str) -> tuple[Callable[[Number], str], str]:
    return next(shown for end, shown in _UNITS.items() if field.endswith(end))


def parts(values: Sequence[T], count: int) -> list[Sequence[T]]:
    """Return the values in at most `count` parts of about the same length, in their order."""
    size = min(len(values), max(count, 0))
    return [values[at * len(values) // size : (at + 1) * len(values) // size] for at in range(size)]


def trend(values: Sequence[Number], width: int, top: float | None = None) -> str:
    """Return values as blocks of eight heights, aligned to the right. A gap is a space, 0 the lowest block.

    More values than `width` are means of several. The full height is `top`, otherwise the largest of the values.
    """
    numbers = [[value for value in part if value is not None] for part in parts(values, width)]
    means = [sum(part) / len(part) if part else None for part in numbers]
    full = top if top is not None else max((value for value in means if value is not None), default=0.0)
    return "".join(" " if value is None else _block(value, full) for value in means).rjust(max(width, 0))


def _block(value: float, full: float) -> str:
    level = int(value / full * len(_LEVELS)) if full > 0 else 0
    return _LEVELS[max(0, min(level, len(_LEVELS) - 1))]


def left(text: str, width: int) -> str:
    """Return a text of exactly `width` cells, aligned to the left; an ellipsis marks what was left out."""
    if cell_len(text) > width > 0:
        text = set_cell_size(text, width - 1) + ELLIPSIS
    return set_cell_size(text, width)


def right(text: str, width: int) -> str:
    """Return a text of exactly `width` cells, aligned to the right."""
    return " " * (width - cell_len(text)) + text if cell_len(text) <= width else left(text, width)
