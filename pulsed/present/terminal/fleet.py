"""All GPUs: cards if they fit, otherwise rows. Both have the cells of one table of columns."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from pulsed.number_text import MISSING, rate, right
from pulsed.present.terminal.charts import SMALL_PLOTS, charts
from pulsed.present.terminal.model import FleetRow, Model
from pulsed.present.terminal.text import Drawn, Part, TableColumn, bar, fixed, line, table, wrapped
from pulsed.present.terminal.view_state import ViewState
from pulsed.present.terminal.words import (
    ABBREVIATIONS,
    bottleneck_style,
    class_words,
    health_words,
    owner_words,
    real_words,
)

CARD_WIDTH, CARD_HEIGHT = 38, 12
WIDEST_CARD = 60

MIN_CHART_LINES = 5
"""Title, three rows and time axis."""

DRIVER = "gpu_utilization_ratio"
"""What the driver calls GPU utilization."""

_BESIDE_BAR = 15
"""Cells of the numbers next to a bar."""


def fleet(model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int, height: int) -> Drawn:
    """Return the view of all GPUs, with charts and the meanings of abbreviations below them as far as they fit."""
    if not gpus:
        return Drawn(_without_gpus(model, width))
    columns, place = max(min(width // CARD_WIDTH, len(gpus)), 1), view.place(gpus)
    fits = columns * max(height // CARD_HEIGHT, 1) >= len(gpus) and height >= CARD_HEIGHT
    if view.layout == "cards" or (view.layout == "auto" and fits):
        lines, first = _cards(model, gpus, place, width, columns), place // columns * CARD_HEIGHT
        drawn = Drawn(lines, 0, range(first, first + CARD_HEIGHT))
    else:
        drawn = Drawn(gpu_table(model, view, gpus, width), 1, range(place + 1, place + 2))
    room = height - len(drawn.lines) - 1
    has_charts = room >= MIN_CHART_LINES and any(gpu.history.times for gpu in gpus)
    below = charts(SMALL_PLOTS, model, view, gpus, width, room) if has_charts else []
    legend = [line((f"? help  {ABBREVIATIONS}", "dim"))] if room >= 0 else []
    return drawn._replace(lines=[*drawn.lines, *below, *legend])


def gpu_table(model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int) -> list[Text]:
    """Return the titles of columns and a row for each GPU. Names are shortened alike whichever GPUs are shown."""
    columns = [each for each in COLUMNS if each.importance and (model.has_several_nodes or each.title != "NODE")]
    lines = table(columns, gpus, width, among=model.gpus)
    selected = view.place(gpus) + 1
    lines[selected] = fixed((lines[selected].plain, "select"), width)
    for gpu, row in zip(gpus, lines[1:], strict=True):
        row.apply_meta(_click(gpu))
    return lines


def _click(gpu: FleetRow) -> dict[str, str]:
    """Return what a click does, as Textual runs it."""
    return {"@click": f"app.click({gpu.key!r})"}


def _without_gpus(model: Model, width: int) -> list[Text]:
    if model.gpus:
        return [line(("no GPU passes the filter", "dim"))]
    errors = [*(source["error"] for source in model.sources), *(daemon.error for daemon in model.daemons)]
    return [line(("no GPUs", "dim")), *(row for error in errors for row in wrapped(error, width))]


def _cards(model: Model, gpus: Sequence[FleetRow], place: int, width: int, columns: int) -> list[Text]:
    card_width = min(width // columns, WIDEST_CARD)
    cards = [_card(gpu, card_width, model, is_selected=at == place) for at, gpu in enumerate(gpus)]
    rows = [cards[at : at + columns] for at in range(0, len(cards), columns)]
    return [line(*parts) for row in rows for parts in zip(*row, strict=True)]


def _card(gpu: FleetRow, width: int, model: Model, *, is_selected: bool) -> list[Text]:
    """Return a card of `CARD_HEIGHT` lines."""
    inner, (health, style) = width - 4, health_words(gpu)
    edge = "key" if is_selected else style if style != "ok" else "dim"
    title = line((f" GPU {model.label(gpu)} {gpu.mig_profile or gpu.model} ", "select" if is_selected else "bold"))
    title.truncate(max(width - 5 - len(health), 4))
    size = max(inner - 5 - _BESIDE_BAR, 6)
    memory, share = _pair(gpu, "memory_used_bytes", "memory_bytes"), gpu.text("memory_ratio")
    bars = (
        ("RU ", real_words(gpu), real_bar(gpu, size)),
        ("MEM", memory if share == MISSING else f"{memory} {share} %", bar(size, "", gpu.number("memory_ratio"))),
        ("PWR", f"{_watts(gpu)} W", bar(size, "", gpu.number("power_ratio"))),
    )
    body: list[Part] = [
        *(line(f"{name} ", shown, " ", right(words, inner - size - 5)) for name, words, shown in bars),
        class_words(gpu),
        *(Text(" ").join(line((f"{title} ", "dim"), _CELLS[title](gpu)) for title in titles) for titles in _CARD),
        (gpu.problem, style) if gpu.problem else _owner(gpu),
    ]
    rule = "─" * (width - 4 - title.cell_len - len(health))
    lines = [
        fixed(line(("┌", edge), title, (rule, edge), (f" {health} ", style), ("┐", edge)), width),
        *(line(("│ ", edge), fixed(each, inner), (" │", edge)) for each in body),
        line((f"└{'─' * (width - 2)}┘", edge)),
    ]
    for each in lines:
        each.apply_meta(_click(gpu))
    return lines


def real_bar(gpu: FleetRow, width: int) -> Text:
    """Return the bar of real utilization with its bounds, and a mark at what the driver says."""
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
    _field("ENERGY", 8, 0, "energy_joules_total"),
    TableColumn("REPLAY/s", 8, 0, lambda gpu: rate(gpu.replays_per_second)),
    TableColumn("OWNER", 10, 78, _owner, "left", 40, is_name=True),
)
"""Those without importance are in cards only."""

_CELLS = {each.title: each.cell for each in COLUMNS}
_CARD = (
    ("SM", "OCC", "TC", "DRAM"),
    ("GR", "UTIL", "COPY", "C"),
    ("PCIe", "NVLINK"),
    ("LIMIT", "MHz"),
    ("ENERGY", "REPLAY/s"),
)
"""Columns in the lines of a card."""
