"""All GPUs in rows, with the cells of a narrow terminal below them if they fit."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from pulsed.number_text import MISSING, rate
from pulsed.present.terminal.charts import SMALL_PLOTS, charts
from pulsed.present.terminal.model import FleetRow, Model
from pulsed.present.terminal.text import (
    NO_BREAK,
    Drawn,
    Part,
    TableColumn,
    bar,
    fitting_columns,
    fixed,
    line,
    table,
    wrapped,
)
from pulsed.present.terminal.view_state import ViewState
from pulsed.present.terminal.words import (
    ABBREVIATIONS,
    bottleneck_style,
    class_words,
    health_words,
    owner_words,
    real_words,
)

MIN_CHART_LINES = 5
"""Title, three rows and time axis."""

FULL_LINES = 4
"""Lines of a GPU, at least, for its cells that do not fit into its row to be below it."""

DRIVER = "gpu_utilization_ratio"
"""What the driver calls GPU utilization."""


def fleet(model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int, height: int) -> Drawn:
    """Return the view of all GPUs, with charts and the meanings of abbreviations below them as far as they fit."""
    if not gpus:
        return Drawn(_without_gpus(model, width))
    is_full = view.layout == "cards" or (view.layout == "auto" and FULL_LINES * len(gpus) < height)
    drawn = gpu_table(model, view, gpus, width, is_full=is_full)
    if view.layout == "auto" and is_full and len(drawn.lines) > height:
        drawn = gpu_table(model, view, gpus, width)
    room = height - len(drawn.lines) - 1
    has_charts = room >= MIN_CHART_LINES and any(gpu.history for gpu in gpus)
    below = charts(SMALL_PLOTS, model, view, gpus, width, room) if has_charts else []
    legend = [line((f"? help  {ABBREVIATIONS}", "dim"))] if room >= 0 else []
    return drawn._replace(lines=[*drawn.lines, *below, *legend])


def gpu_table(model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int, *, is_full: bool = False) -> Drawn:
    """Return a row for each GPU; `is_full`: with the cells that do not fit below it.

    Names are shortened alike whichever GPUs are shown.
    """
    known = [each for each in COLUMNS if model.has_several_nodes or each.title != "NODE"]
    columns = fitting_columns([each for each in known if each.importance], width)
    others = [each for each in known if each not in columns]
    titles, *rows = table(columns, gpus, width, among=model.gpus)
    lines, selected, place = [titles], range(0), view.place(gpus)
    for at, (gpu, row) in enumerate(zip(gpus, rows, strict=True)):
        own = [fixed((row.plain, "select"), width) if at == place else row]
        if is_full:
            cells = "  ".join(f"{each.title} {line(each.cell(gpu)).plain}".replace(" ", NO_BREAK) for each in others)
            own += [*wrapped(gpu.problem, width, "      ", "warn"), *wrapped(cells, width, "      ", "dim")]
        for each in own:
            each.apply_meta({"@click": f"app.do('click', {gpu.key!r})"})  # as Textual runs it
        selected = range(len(lines), len(lines) + len(own)) if at == place else selected
        lines += own
    return Drawn(lines, 1, selected)


def _without_gpus(model: Model, width: int) -> list[Text]:
    if model.gpus:
        return [line(("no GPU passes the filter", "dim"))]
    errors = [*(source["error"] for source in model.sources), *(daemon.error for daemon in model.daemons)]
    return [line(("no GPUs", "dim")), *(row for error in errors for row in wrapped(error, width))]


def real_bar(gpu: FleetRow, width: int) -> Text:
    """Return a bar of real utilization with its bounds, and a mark at the driver's GPU utilization."""
    return bar(width, bottleneck_style(gpu), *gpu.bounds, gpu.number(DRIVER))


def _pair(gpu: FleetRow, first: str, second: str, separator: str = "/") -> str:
    texts = gpu.text(first), gpu.text(second)
    return MISSING if texts == (MISSING, MISSING) else separator.join(texts)


def _watts(gpu: FleetRow) -> str:
    return MISSING if gpu.number("power_watts") is None else _pair(gpu, "power_watts", "power_limit_watts")


def _limit(gpu: FleetRow) -> str:
    limit = gpu.state("limiting_resource")
    return MISSING if gpu.stale or limit == "unknown" else limit


def _owner(gpu: FleetRow) -> Part:
    words = owner_words(gpu) or MISSING
    if gpu.use == "held":
        return words + ("" if gpu.class_age is None else " idle"), "warn"
    return words, "dim" if words in ("free", "no owner", MISSING) else ""


def _field(title: str, width: int, importance: int, name: str) -> TableColumn[FleetRow]:
    return TableColumn(title, width, importance, lambda gpu: gpu.text(name))


def _fields(
    title: str, width: int, importance: int, first: str, second: str, separator: str = "/"
) -> TableColumn[FleetRow]:
    return TableColumn(title, width, importance, lambda gpu: _pair(gpu, first, second, separator))


COLUMNS: tuple[TableColumn[FleetRow], ...] = (
    TableColumn("GPU", 5, 100, lambda gpu: gpu.name),
    TableColumn("NODE", 8, 90, lambda gpu: gpu.node, "left", 20, is_name=True),
    TableColumn("MODEL", 14, 30, lambda gpu: gpu.mig_profile or gpu.model, "left"),
    TableColumn("HEALTH", 10, 95, health_words, "left"),
    TableColumn("REAL UTIL", 16, 73, lambda gpu: real_bar(gpu, 16), "left"),
    TableColumn("RU %", 9, 99, lambda gpu: real_words(gpu).replace(" %", "")),
    TableColumn("CLASS", 13, 98, class_words, "left", 40),
    _field("SM", 3, 70, "sm_active_ratio"),
    _field("OCC", 3, 28, "sm_occupancy_ratio"),
    _field("TC", 3, 69, "tensor_active_ratio"),
    _field("DRAM", 4, 68, "dram_active_ratio"),
    _field("GR", 3, 27, "graphics_engine_active_ratio"),
    _field("UTIL", 4, 65, DRIVER),
    _field("COPY", 4, 20, "memory_utilization_ratio"),
    _fields("MEM GiB", 10, 80, "memory_used_bytes", "memory_bytes"),
    TableColumn("WATTS", 8, 75, _watts),
    _fields("C", 5, 72, "temperature_celsius", "memory_temperature_celsius", "|"),
    TableColumn("LIMIT", 8, 40, _limit, "left"),
    _fields("PCIe", 13, 26, "pcie_receive_bytes_per_second", "pcie_transmit_bytes_per_second"),
    _field("NVLINK", 8, 25, "nvlink_bytes_per_second"),
    _fields("MHz", 9, 24, "sm_clock_hertz", "memory_clock_hertz", "|"),
    _field("MEM %", 5, 0, "memory_ratio"),
    _field("ENERGY", 8, 0, "energy_joules_total"),
    TableColumn("REPLAY/s", 8, 0, lambda gpu: rate(gpu.number("pcie_replays_per_second"))),
    TableColumn("OWNER", 10, 78, _owner, "left", 40, is_name=True),
)
"""Those without importance are only below a row."""
