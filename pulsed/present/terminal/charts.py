"""Bars, trends of blocks, line charts of braille dots, and the view of nine charts over all GPUs, a line for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, zip_longest
from math import isfinite
from operator import itemgetter
from typing import NamedTuple

from rich.text import Text

from pulsed.number_text import Number, duration
from pulsed.present.terminal.model import FleetRow, Model, ratio, total
from pulsed.present.terminal.text import fitting, fixed, line
from pulsed.present.terminal.view_state import ViewState
from pulsed.printable import BRAILLE

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a braille character by row and column."""


def bar(width: int, style: str, lower: Number, upper: Number = None, mark: Number = None) -> Text:
    """Return a bar with brackets, `width` cells in all.

    It is solid up to `lower` and hatched from there to `upper`; without any number it is hatched all over. A known 0 is
    a tick at the origin. `mark` is the place of another number, which is drawn where the bar is empty.
    """
    size = max(width - 2, 1)
    if lower is None:
        return line("[", (("/ " * size)[:size], "stale"), "]")
    solid = _cells(lower, size)
    hatched = max(_cells(lower if upper is None else upper, size) - solid, 0)
    empty = ["·"] * (size - solid - hatched)
    if mark is not None and isfinite(mark) and empty:
        place = min(round(mark * size), size) - 1 - solid - hatched
        if place >= 0:
            empty[place] = "|"
    if not solid and not hatched and lower == 0 and empty[0] == "·":
        empty[0] = "▏"
    return line("[", ("█" * solid + "▒" * hatched, style), ("".join(empty), "dim"), "]")


def _cells(ratio: float, size: int) -> int:
    """Return the cells of a ratio; one at least if it is not 0."""
    if not isfinite(ratio) or ratio <= 0:
        return 0
    return min(max(round(ratio * size), 1), size)


class Curve(NamedTuple):
    """Values from the oldest to the newest, None in gaps, and the style of their line."""

    values: Sequence[Number]
    style: str


def chart(curves: Sequence[Curve], width: int, height: int, top: float) -> list[Text]:
    """Return the curves in `width` x `height` cells, from 0 to `top`; a gap stays empty. Later curves are above."""
    bits = [[0] * width for _ in range(height)]
    styles = [[""] * width for _ in range(height)]
    for curve in curves:
        before: int | None = None
        for x, value in enumerate(_columns(curve.values, 2 * width)):
            if value is None:
                before = None
                continue
            y = round((1 - max(0.0, min(value / top, 1.0))) * (4 * height - 1)) if top > 0 else 4 * height - 1
            for dot in _between(y if before is None else before, y):
                bits[dot // 4][x // 2] |= _DOTS[dot % 4][x % 2]
                styles[dot // 4][x // 2] = curve.style
            before = y
    rows = ([*zip(*row, strict=True)] for row in zip(styles, bits, strict=True))
    return [line(*((_dots(run), style) for style, run in groupby(row, itemgetter(0)))) for row in rows]


def _dots(run: Iterable[tuple[str, int]]) -> str:
    return "".join(chr(BRAILLE + dots) if dots else " " for _, dots in run)


def _columns(values: Sequence[Number], count: int) -> list[Number]:
    """Return one value per column of dots: the largest of its values; None only if all are None."""
    size = len(values)
    begins = [column * size // count for column in range(count + 1)]
    pieces = [values[begins[at] : max(begins[at + 1], begins[at] + 1)] for at in range(count)]
    return [max((value for value in piece if value is not None), default=None) for piece in pieces]


def _between(before: int, now: int) -> range:
    """Return the rows of dots from one point to the next, without the first."""
    if before == now:
        return range(now, now + 1)
    return range(before + 1, now + 1) if before < now else range(now, before)


COLUMNS = 3

COLOURS = 8
"""GPUs with a colour of their own. Of more the range is drawn, and the selected one."""


class Plot(NamedTuple):
    """A chart: titles, and the fields whose sum is drawn; `is_link`: over the capacity of the PCIe link."""

    title: str
    short: str
    fields: tuple[str, ...]
    is_link: bool = False


PLOTS: tuple[Plot, ...] = (
    Plot("Real utilization", "Real", ("real_utilization_ratio",)),
    Plot("GPU util (driver)", "GPU util", ("gpu_utilization_ratio",)),
    Plot("Graphics engine", "GR", ("graphics_engine_active_ratio",)),
    Plot("SM active", "SM", ("sm_active_ratio",)),
    Plot("SM occupancy", "Occupancy", ("sm_occupancy_ratio",)),
    Plot("Tensor", "Tensor", ("tensor_active_ratio",)),
    Plot("DRAM", "DRAM", ("dram_active_ratio",)),
    Plot("Copy (memory util)", "Copy", ("memory_utilization_ratio",)),
    Plot("PCIe RX+TX of link", "PCIe", ("pcie_receive_bytes_per_second", "pcie_transmit_bytes_per_second"), True),
)
"""In rows of three."""

SMALL_PLOTS: tuple[Plot, ...] = tuple(PLOTS[at] for at in (0, 3, 6))
"""Real utilization, SM and DRAM."""


def plot_fields(plots: Sequence[Plot]) -> tuple[str, ...]:
    """Return the fields whose history charts need."""
    return tuple(name for each in plots for name in each.fields)


def charts(
    plots: Sequence[Plot], model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int, height: int
) -> list[Text]:
    """Return charts in `height` lines, with a time axis and a legend."""
    selected, chart_width = view.current(gpus), (width - COLUMNS + 1) // COLUMNS
    chart_height = max((height - 2) // (len(plots) // COLUMNS) - 1, 1)
    lines: list[Text] = []
    for at in range(0, len(plots), COLUMNS):
        row = [_chart(each, gpus, selected, chart_width, chart_height) for each in plots[at : at + COLUMNS]]
        lines += [line(Text(" ").join(parts)) for parts in zip(*row, strict=True)]
    begin = f"-{duration(view.window)} "  # whatever part of it has samples
    axis = fixed((f"{begin}{'─' * max(chart_width - len(begin) - 4, 0)} now", "dim"), chart_width)
    return [*lines[: height - 2], line(Text(" ").join([axis] * COLUMNS)), _legend(model, gpus, selected, width)]


def _chart(each: Plot, gpus: Sequence[FleetRow], selected: FleetRow | None, width: int, height: int) -> list[Text]:
    curves = [Curve(_values(each, gpu), f"series{number}") for number, gpu in enumerate(gpus)]
    curves = [curve for curve in curves if any(value is not None for value in curve.values)]
    full = f"{each.title} 0..100 %"
    title = fixed((full if len(full) <= width else each.short, "title"), width)
    if not curves:
        return [title, fixed(("no history", "dim"), width), *[line(" " * width)] * (height - 1)]
    if len(gpus) > COLOURS:
        chosen = [] if selected is None else [Curve(_values(each, selected), "select")]
        curves = [*_range([curve.values for curve in curves]), *chosen]
    return [title, *chart(curves, width, height, 1.0)]


def _range(columns: Sequence[Sequence[Number]]) -> list[Curve]:
    """Return the lowest and the highest value of several GPUs, whose newest values are of the same moment."""
    rows = [*zip_longest(*map(reversed, columns))][::-1]
    numbers = [[value for value in row if value is not None] for row in rows]
    return [Curve([end(row, default=None) for row in numbers], "dim") for end in (min, max)]


def _values(each: Plot, gpu: FleetRow) -> Sequence[Number]:
    if not set(each.fields) <= gpu.history.fields.keys():
        return []
    values = [total(parts) for parts in zip(*(gpu.history.fields[name] for name in each.fields), strict=True)]
    if not each.is_link:
        return values
    link = gpu.last("pcie_link_bytes_per_second")
    return [ratio(value, None if link is None else 2 * link) for value in values]


def _legend(model: Model, gpus: Sequence[FleetRow], selected: FleetRow | None, width: int) -> Text:
    if len(gpus) <= COLOURS:
        items = [(5, line((f"━ {model.label(gpu)}", f"series{number}"))) for number, gpu in enumerate(gpus)]
    else:
        items = [(5, line((f"━ lowest and highest of {len(gpus)} GPUs", "dim")))]
        if selected is not None:
            items.append((6, line((f"━ GPU {model.label(selected)}", "select"))))
    return fitting(items, width)
