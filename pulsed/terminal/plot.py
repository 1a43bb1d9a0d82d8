"""Nine charts over all GPUs, a line for each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from pulsed.terminal.charts import Curve, chart
from pulsed.terminal.line import Line, fitting, joined, left, line, styled
from pulsed.terminal.model import GpuState, Model, ratio, total
from pulsed.terminal.numbers import Number, duration
from pulsed.terminal.view_state import ViewState

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
    selected = view.current(gpus)
    lines: list[Line] = []
    for row in range(0, len(PLOTS), COLUMNS):
        charts = [_chart(each, gpus, selected, chart_width, chart_height) for each in PLOTS[row : row + COLUMNS]]
        lines += [joined(parts, " ") for parts in zip(*charts, strict=True)]
    return [*lines[: height - 1], _legend(model, gpus, selected, view, width)]


def _chart(each: Plot, gpus: Sequence[GpuState], selected: GpuState | None, width: int, height: int) -> list[Line]:
    curves = [Curve(_values(each, gpu), f"series{number}") for number, gpu in enumerate(gpus)]
    curves = [curve for curve in curves if any(value is not None for value in curve.values)]
    full = f"{each.title} 0..100 %"
    title = styled(left(full if len(full) <= width else each.short, width), "title")
    if not curves:
        return [title, styled(left("no history", width), "dim"), *[line(" " * width)] * (height - 1)]
    if len(gpus) > COLOURS:
        chosen = [] if selected is None else [Curve(_values(each, selected), "select")]
        curves = [*_range([curve.values for curve in curves]), *chosen]
    return [title, *chart(curves, width, height, 1.0)]


def _range(columns: Sequence[Sequence[Number]]) -> list[Curve]:
    """Return the lowest and the highest value of several GPUs, whose newest values are of the same moment."""
    rows = [*zip_longest(*map(reversed, columns))][::-1]
    known = [[value for value in row if value is not None] for row in rows]
    return [Curve([end(row, default=None) for row in known], "dim") for end in (min, max)]


def _values(each: Plot, gpu: GpuState) -> Sequence[Number]:
    if not set(each.fields) <= gpu.history.fields.keys():
        return []
    values = [total(parts) for parts in zip(*(gpu.history.fields[name] for name in each.fields), strict=True)]
    if not each.is_link:
        return values
    link = gpu.last("pcie_link_bytes_per_second")
    return [ratio(value, None if link is None else 2 * link) for value in values]


def _legend(model: Model, gpus: Sequence[GpuState], selected: GpuState | None, view: ViewState, width: int) -> Line:
    if len(gpus) <= COLOURS:
        items = [(5, styled(f"━ {model.label(gpu)}", f"series{number}")) for number, gpu in enumerate(gpus)]
    else:
        items = [(5, styled(f"━ lowest and highest of {len(gpus)} GPUs", "dim"))]
        if selected is not None:
            items.append((6, styled(f"━ GPU {model.label(selected)}", "select")))
    return fitting([*items, (9, line(f"last {duration(view.window)}"))], width)
