"""The history of all GPUs, in rows of blocks: nine charts, a row for each GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.text import Text

from pulsed.number_text import Number, duration, trend
from pulsed.present.terminal.model import FleetRow, Model, ratio, total
from pulsed.present.terminal.text import Drawn, distinguished, fixed, line
from pulsed.present.terminal.view_state import ViewState
from pulsed.present.terminal.words import title_of

COLUMNS = 3

LABEL_CELLS = 8
"""Most cells of the name of a row."""


PCIE = "pcie_receive_bytes_per_second", "pcie_transmit_bytes_per_second"

PLOTS: tuple[tuple[str, ...], ...] = (
    ("real_utilization_ratio",),
    ("gpu_utilization_ratio",),
    ("graphics_engine_active_ratio",),
    ("sm_active_ratio",),
    ("sm_occupancy_ratio",),
    ("tensor_active_ratio",),
    ("dram_active_ratio",),
    ("memory_utilization_ratio",),
    PCIE,
)
"""Fields by chart, in rows of three charts. Several fields are added; PCIe is a share of the link's capacity."""

SMALL_PLOTS = (PLOTS[0], PLOTS[3], PLOTS[6])


def plot(model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int, height: int) -> Drawn:
    """Return the view of all charts."""
    return Drawn(charts(PLOTS, model, view, gpus, width, height))


def charts(
    plots: Sequence[tuple[str, ...]], model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int, height: int
) -> list[Text]:
    """Return charts in at most `height` lines, with a time axis: of the range and the selected GPU if not all fit."""
    rows, chart_width = (height - 1) // (len(plots) // COLUMNS) - 1, (width - COLUMNS + 1) // COLUMNS
    selected, label = view.current(gpus), distinguished(map(model.label, gpus), LABEL_CELLS)
    lines: list[Text] = []
    for at in range(0, len(plots), COLUMNS):
        parts: list[list[Text]] = []
        for each in plots[at : at + COLUMNS]:
            curves = [(label[model.label(gpu)], _values(each, gpu), gpu is selected) for gpu in gpus]
            if len(gpus) > rows:
                curves = [*_range([values for _, values, _ in curves]), *(each for each in curves if each[2])]
            parts.append([*_chart(each, curves, chart_width)])
        lines += [line(Text(" ").join(row)) for row in zip(*parts, strict=True)]
    begin = f"-{duration(view.window)} "  # whatever part of it has samples
    axis = fixed((f"{begin}{'─' * max(chart_width - len(begin) - 4, 0)} now", "dim"), chart_width)
    return [*lines, line(Text(" ").join([axis] * COLUMNS))]


def _chart(fields: tuple[str, ...], curves: Sequence[tuple[str, Sequence[Number], bool]], width: int) -> Iterator[Text]:
    title = "PCIe RX+TX of link" if fields == PCIE else title_of(fields[0])
    yield fixed((f"{title} 0..100 %", "title"), width)
    cells = max((len(label) for label, _, _ in curves), default=0) + 1
    for label, values, is_selected in curves:
        shown = trend(values, width - cells, 1.0) if any(one is not None for one in values) else "no history"
        yield fixed((f"{label:>{cells - 1}} {shown}", "key" if is_selected else ""), width)


def _range(columns: Sequence[Sequence[Number]]) -> list[tuple[str, Sequence[Number], bool]]:
    """Return the lowest and the highest value of several GPUs, whose newest values are of the same moment."""
    rows = [*zip_longest(*map(reversed, columns))][::-1]
    numbers = [[value for value in row if value is not None] for row in rows]
    ends = (("lowest", min), ("highest", max))
    return [(name, [end(row, default=None) for row in numbers], False) for name, end in ends]


def _values(fields: tuple[str, ...], gpu: FleetRow) -> Sequence[Number]:
    values = [total(parts) for parts in zip(*(gpu.history.get(name, ()) for name in fields), strict=False)]
    link = gpu.last("pcie_link_bytes_per_second")
    return values if fields != PCIE else [ratio(value, None if link is None else 2 * link) for value in values]
