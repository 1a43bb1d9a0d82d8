"""All GPUs: cards if they fit, otherwise rows."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from pulsed.number_text import MISSING, Number, field_text_with_unit, rate, right
from pulsed.present.terminal.charts import SMALL_PLOTS, bar, charts
from pulsed.present.terminal.model import FleetRow, Model
from pulsed.present.terminal.text import Part, TableColumn, fitting, fixed, line, table, wrapped
from pulsed.present.terminal.view_state import ViewState
from pulsed.present.terminal.words import (
    ABBREVIATIONS,
    bottleneck_style,
    class_words,
    health_words,
    owner_words,
    real_words,
)

CARD_WIDTH, CARD_HEIGHT = 38, 11
WIDEST_CARD = 60

MIN_CHART_LINES = 7
"""Title, four lines of dots, time axis and legend."""

DRIVER = "gpu_utilization_ratio"
"""What the driver calls GPU utilization."""

_BESIDE_BAR = 15
"""Cells of the numbers next to a bar."""


def fleet(model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int, height: int) -> list[Text]:
    """Return the view of all GPUs, with what fits below them."""
    lines = gpu_list(model, view, gpus, width, height)
    return [*lines, *below_gpus(model, view, gpus, width, height - len(lines))]


def below_gpus(model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int, height: int) -> list[Text]:
    """Return charts and the meanings of abbreviations in `height` lines, as far as they fit."""
    if not gpus or height < 1:
        return []
    meanings = [(-at, line((f"{name} {text}", "dim"))) for at, (name, text) in enumerate(ABBREVIATIONS)]
    legend = fitting([(1, line(("? help", "dim"))), *meanings], width)
    has_charts = height > MIN_CHART_LINES and any(gpu.history.times for gpu in gpus)
    return [*(charts(SMALL_PLOTS, model, view, gpus, width, height - 1) if has_charts else []), legend]


def gpu_list(model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int, height: int) -> list[Text]:
    """Return all GPUs as cards or rows; `height` decides which."""
    if not gpus:
        return _without_gpus(model, width)
    if has_cards(view, gpus, width, height):
        return _cards(model, view, gpus, width)
    lines = gpu_table(model, gpus, width)
    current = view.place(gpus) + 1
    lines[current] = fixed((lines[current].plain, "select"), width)
    return lines


def gpu_table(model: Model, gpus: Sequence[FleetRow], width: int) -> list[Text]:
    """Return the titles of columns and a row for each GPU. Names are shortened alike whichever GPUs are shown."""
    columns = [each for each in COLUMNS if model.has_several_nodes or each is not _NODE]
    titles, *rows = table(columns, gpus, width, among=model.gpus)
    for gpu, row in zip(gpus, rows, strict=True):
        row.apply_meta({"gpu": gpu.key})
    return [titles, *rows]


def has_cards(view: ViewState, gpus: Sequence[FleetRow], width: int, height: int) -> bool:
    """Return whether GPUs are shown as cards."""
    fits = card_columns(gpus, width) * max(height // CARD_HEIGHT, 1) >= len(gpus) and height >= CARD_HEIGHT
    return not gpus or view.layout == "cards" or (view.layout == "auto" and fits)


def card_columns(gpus: Sequence[FleetRow], width: int) -> int:
    """Return how many cards are side by side."""
    return max(min(width // CARD_WIDTH, len(gpus)), 1)


def _without_gpus(model: Model, width: int) -> list[Text]:
    if model.gpus:
        return [line(("no GPU passes the filter", "dim"))]
    errors = [source["error"] for daemon in model.daemons for source in daemon.sources]
    errors += [daemon.error for daemon in model.daemons]
    return [line(("no GPUs", "dim")), *(row for error in errors for row in wrapped(error or "", width, "  "))]


def _cards(model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int) -> list[Text]:
    columns = card_columns(gpus, width)
    current, card_width = view.current(gpus), min(width // columns, WIDEST_CARD)
    cards = [_card(gpu, card_width, model, is_selected=gpu is current) for gpu in gpus]
    rows = [cards[at : at + columns] for at in range(0, len(cards), columns)]
    return [line(*parts) for row in rows for parts in zip(*row, strict=True)]


def _card(gpu: FleetRow, width: int, model: Model, *, is_selected: bool) -> list[Text]:
    """Return a card of `CARD_HEIGHT` lines."""
    inner, text, (health, style) = width - 4, gpu.text, health_words(gpu)
    edge = "key" if is_selected else style if style != "ok" else "dim"
    title = line((f" GPU {model.label(gpu)} {gpu.mig_profile or gpu.model} ", "select" if is_selected else "bold"))
    title.truncate(max(width - 5 - len(health), 4))
    clocks = f"{text('sm_clock_hertz')}|{text('memory_clock_hertz')} MHz"
    energy = field_text_with_unit("energy_joules_total", gpu.number("energy_joules_total"))
    shares = ("memory_ratio", "power_ratio")
    power = _power(gpu)
    body: list[Part] = [
        _bar_line("RU ", inner, real_words(gpu), bottleneck_style(gpu), *gpu.bounds, gpu.number(DRIVER)),
        _bar_line("MEM", inner, _memory_and_share(gpu), "", gpu.number(shares[0])),
        _bar_line("PWR", inner, power + " W" * (power != MISSING), "", gpu.number(shares[1])),
        class_words(gpu),
        f"SM {text('sm_active_ratio')}/{text('sm_occupancy_ratio')} TC {text('tensor_active_ratio')}"
        f" DRAM {text('dram_active_ratio')} util {text(DRIVER)}",
        f"{_temperatures(gpu)} C {clocks} GR {text('graphics_engine_active_ratio')}"
        f" cp {text('memory_utilization_ratio')}",
        f"PCIe {_pcie(gpu)} NVL {text('nvlink_bytes_per_second')} /s",
        f"lim {_limit(gpu)}  {energy}  replay {rate(gpu.replays_per_second)}/s",
        (gpu.problem, style) if gpu.problem else _card_owner(gpu),
    ]
    top = line(("┌", edge), title, ("─" * (width - 4 - title.cell_len - len(health)), edge), (f" {health} ", style))
    lines = [
        fixed(line(top, ("┐", edge)), width),
        *(line(("│ ", edge), fixed(each, inner), (" │", edge)) for each in body),
        line((f"└{'─' * (width - 2)}┘", edge)),
    ]
    for each in lines:
        each.apply_meta({"gpu": gpu.key})
    return lines


def _bar_line(
    name: str, width: int, words: str, style: str, lower: Number, upper: Number = None, mark: Number = None
) -> Text:
    size = max(width - 4 - _BESIDE_BAR - 1, 6)
    return line(f"{name} ", bar(size, style, lower, upper, mark), " ", right(words, width - size - 5))


def _memory(gpu: FleetRow) -> str:
    used, size = gpu.text("memory_used_bytes"), gpu.text("memory_bytes")
    return MISSING if used == size == MISSING else f"{used}/{size}"


def _memory_and_share(gpu: FleetRow) -> str:
    words = _memory(gpu)
    return words if words == MISSING else f"{words} {gpu.text('memory_ratio')} %"


def _power(gpu: FleetRow) -> str:
    watts = gpu.text("power_watts")
    return watts if watts == MISSING else f"{watts}/{gpu.text('power_limit_watts')}"


def _temperatures(gpu: FleetRow) -> str:
    return f"{gpu.text('temperature_celsius')}|{gpu.text('memory_temperature_celsius')}"


def _pcie(gpu: FleetRow) -> str:
    return f"{gpu.text('pcie_receive_bytes_per_second')}/{gpu.text('pcie_transmit_bytes_per_second')}"


def _limit(gpu: FleetRow) -> str:
    limit = gpu.state("limiting_resource")
    return MISSING if gpu.stale or limit == "unknown" else limit


def _card_owner(gpu: FleetRow) -> Part:
    words = owner_words(gpu)
    return (f"idle, held by {words}" if words else "idle, held", "warn") if gpu.use == "held" else words


def _owner(gpu: FleetRow) -> Part:
    words = owner_words(gpu) or MISSING
    if gpu.use == "held":
        return words + ("" if gpu.class_age is None else " idle"), "warn"
    return words, "dim" if words in ("free", "no owner", MISSING) else ""


def _field(title: str, width: int, importance: int, name: str) -> TableColumn[FleetRow]:
    return TableColumn(title, width, importance, lambda gpu: gpu.text(name))


def _real_bar(gpu: FleetRow) -> Text:
    return bar(16, bottleneck_style(gpu), *gpu.bounds, gpu.number(DRIVER))


_NODE: TableColumn[FleetRow] = TableColumn("NODE", 8, 90, lambda gpu: gpu.node, "left", 20, is_name=True)

COLUMNS: tuple[TableColumn[FleetRow], ...] = (
    TableColumn("GPU", 5, 100, lambda gpu: gpu.name),
    _NODE,
    TableColumn("MODEL", 14, 30, lambda gpu: gpu.mig_profile or gpu.model, "left"),
    TableColumn("HEALTH", 10, 95, health_words, "left"),
    TableColumn("REAL UTIL", 16, 73, _real_bar, "left"),
    TableColumn("RU %", 9, 99, lambda gpu: real_words(gpu).replace(" %", "")),
    TableColumn("CLASS", 13, 98, class_words, "left", 40),
    _field("SM", 3, 70, "sm_active_ratio"),
    _field("OCC", 3, 28, "sm_occupancy_ratio"),
    _field("TC", 3, 69, "tensor_active_ratio"),
    _field("DRAM", 4, 68, "dram_active_ratio"),
    _field("GR", 3, 27, "graphics_engine_active_ratio"),
    _field("UTIL", 4, 65, DRIVER),
    _field("COPY", 4, 20, "memory_utilization_ratio"),
    TableColumn("MEM GiB", 10, 80, _memory),
    TableColumn("WATTS", 8, 75, _power),
    TableColumn("C", 5, 72, _temperatures),
    TableColumn("LIMIT", 8, 40, _limit, "left"),
    TableColumn("PCIe RX/TX", 13, 26, _pcie),
    _field("NVLINK", 8, 25, "nvlink_bytes_per_second"),
    _field("SM MHz", 6, 24, "sm_clock_hertz"),
    TableColumn("OWNER", 10, 78, _owner, "left", 40, is_name=True),
)
