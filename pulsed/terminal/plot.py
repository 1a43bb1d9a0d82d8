"""Nine charts over all GPUs, a line for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pulsed.terminal.charts import Curve, chart
from pulsed.terminal.line import Item, Line, Segment, fitting, joined, left, line
from pulsed.terminal.model import GpuHistory, GpuState, Model, total
from pulsed.terminal.numbers import Number, duration
from pulsed.terminal.view_state import ViewState
from pulsed.terminal.words import gpu_label

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

PLOT_FIELDS: tuple[str, ...] = tuple(name for each in PLOTS for name in each.fields)


def plot(model: Model, view: ViewState, gpus: Sequence[GpuState], width: int, height: int) -> list[Line]:
    """Return nine charts with a shared legend."""
    chart_width, chart_height = (width - 2) // COLUMNS, max((height - 1) // COLUMNS - 1, 1)
    chosen = view.current(gpus)
    lines: list[Line] = []
    for row in range(0, len(PLOTS), COLUMNS):
        charts = [_chart(each, model, gpus, chosen, chart_width, chart_height) for each in PLOTS[row : row + COLUMNS]]
        lines += [joined(parts, " ") for parts in zip(*charts, strict=True)]
    return [*lines[: height - 1], _legend(model, gpus, chosen, view, width)]


def _chart(
    each: Plot, model: Model, gpus: Sequence[GpuState], chosen: GpuState | None, width: int, height: int
) -> list[Line]:
    known = [(gpu, _values(each, gpu, model.history.get(gpu.key))) for gpu in gpus]
    known = [(gpu, values) for gpu, values in known if any(value is not None for value in values)]
    full = f"{each.title} 0..100 %"
    title = left(full if len(full) <= width else each.short, width)
    if not known:
        nothing = line(Segment(left("no history", width), "dim"))
        return [line(Segment(title, "title")), nothing, *[line(" " * width)] * (height - 1)]
    if len(gpus) <= COLOURS:
        styles = {gpu.key: f"series{number}" for number, gpu in enumerate(gpus)}
        curves = [Curve(values, styles[gpu.key]) for gpu, values in known]
    else:
        ends = [_ends(row) for row in zip(*_aligned([values for _, values in known]), strict=True)]
        curves = [Curve([pair[at] for pair in ends], "dim") for at in (0, 1)]
        curves += [Curve(values, "select") for gpu, values in known if gpu is chosen]
    return [line(Segment(title, "title")), *chart(curves, width, height, 1.0)]


def _aligned(columns: Sequence[Sequence[Number]]) -> list[Sequence[Number]]:
    """Return the values of several GPUs with the same length; the newest are at the same place."""
    length = max(map(len, columns))
    missing: tuple[Number, ...] = (None,)
    return [(*missing * (length - len(values)), *values) for values in columns]


def _ends(row: Sequence[Number]) -> tuple[Number, Number]:
    known = [value for value in row if value is not None]
    return min(known, default=None), max(known, default=None)


def _values(each: Plot, gpu: GpuState, series: GpuHistory | None) -> list[Number]:
    if series is None:
        return []
    columns = [series.fields[name] for name in each.fields if name in series.fields]
    if len(columns) < len(each.fields):
        return []
    values = [total(parts) for parts in zip(*columns, strict=True)]
    if not each.is_link:
        return values
    capacity = gpu.link_bytes_per_second
    return [None if value is None or not capacity else value / capacity for value in values]


def _legend(model: Model, gpus: Sequence[GpuState], chosen: GpuState | None, view: ViewState, width: int) -> Line:
    several = model.has_several_nodes
    if len(gpus) <= COLOURS:
        items = [
            Item(5, line(Segment(f"━ {gpu_label(gpu, with_node=several)}", f"series{number}")))
            for number, gpu in enumerate(gpus)
        ]
    else:
        items = [Item(5, line(Segment(f"━ lowest and highest of {len(gpus)} GPUs", "dim")))]
        if chosen is not None:
            items.append(Item(6, line(Segment(f"━ GPU {gpu_label(chosen, with_node=several)}", "select"))))
    items.append(Item(9, line(f"last {duration(view.window)}")))
    return fitting(items, width)
