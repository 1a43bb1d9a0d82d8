"""All GPUs: a card for each if these fit, else a row for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pulsed.present.terminal.charts import bar
from pulsed.present.terminal.line import (
    Line,
    Segment,
    TableColumn,
    cells,
    cut,
    fitting_columns,
    joined,
    left,
    line,
    named_columns,
    right,
    row_line,
    styled,
    title_line,
    wrapped,
)
from pulsed.present.terminal.model import GpuRow, Model
from pulsed.present.terminal.numbers import Number, field_text_with_unit, rate
from pulsed.present.terminal.view_state import ViewState
from pulsed.present.terminal.words import bottleneck_style, class_words, health_words, owner_words, real_words

CARD_WIDTH, CARD_HEIGHT = 38, 11
WIDEST_CARD = 60

DRIVER = "gpu_utilization_ratio"
"""What the driver calls GPU utilization."""

_BESIDE_BAR = 15
"""Cells of the numbers beside a bar."""


class Fleet(NamedTuple):
    """The lines of GPUs, and by line and column which GPU is there, for a mouse."""

    lines: list[Line]
    places: list[list[tuple[int, str]]]
    """By line, keys of GPUs with the column at which each ends."""


def fleet(model: Model, view: ViewState, gpus: Sequence[GpuRow], width: int, height: int) -> Fleet:
    """Return the view of all GPUs, with the selected one in sight."""
    if not gpus:
        lines = _without_gpus(model, width)
        return Fleet(lines, [[] for _ in lines])
    columns = max(min(width // CARD_WIDTH, len(gpus)), 1)
    fits = columns * max(height // CARD_HEIGHT, 1) >= len(gpus) and height >= CARD_HEIGHT
    if view.layout == "cards" or (view.layout == "auto" and fits):
        return _cards(model, view, gpus, width, height, columns)
    return _rows(model, view, gpus, width, height)


def _without_gpus(model: Model, width: int) -> list[Line]:
    if model.gpus:
        return [styled("no GPU passes the filter", "dim")]
    errors = [source["error"] for daemon in model.daemons for source in daemon.sources]
    errors += [daemon.error for daemon in model.daemons]
    return [styled("no GPUs", "dim"), *(row for error in errors for row in wrapped(error or "", width, "  "))]


def _in_sight(count: int, selected: int, size: int) -> range:
    """Return which of `count` rows are in sight if `size` fit: pages with the selected one."""
    size = max(size, 1)
    first = selected // size * size
    return range(first, min(first + size, count))


def _cards(model: Model, view: ViewState, gpus: Sequence[GpuRow], width: int, height: int, columns: int) -> Fleet:
    card_width = min(width // columns, WIDEST_CARD)
    current = view.place(gpus)
    rows = _in_sight(-(-len(gpus) // columns), current // columns, height // CARD_HEIGHT)
    found = Fleet([], [])
    for row in rows:
        places = range(row * columns, min((row + 1) * columns, len(gpus)))
        cards = [_card(gpus[at], card_width, model, is_selected=at == current) for at in places]
        found.lines.extend(joined(parts) for parts in zip(*cards, strict=True))
        ends = [((number + 1) * card_width, gpus[at].key) for number, at in enumerate(places)]
        found.places.extend([ends] * CARD_HEIGHT)
    first, last = rows.start * columns, min(rows.stop * columns, len(gpus))
    if len(found.lines) < height:
        _add_position(found, first, last, len(gpus))
    return found


def _add_position(found: Fleet, first: int, last: int, count: int) -> None:
    """Add which GPUs are in sight, unless all are."""
    if last - first < count:
        found.lines.append(styled(f"{first + 1}-{last}/{count}", "dim"))
        found.places.append([])


def _card(gpu: GpuRow, width: int, model: Model, *, is_selected: bool) -> list[Line]:
    """Return a card of `CARD_HEIGHT` lines."""
    inner, text, health = width - 4, gpu.text, health_words(gpu)
    edge = "key" if is_selected else health.style if health.style != "ok" else "dim"
    title = f" GPU {model.label(gpu)} {gpu.mig_profile or gpu.model} "
    title = cut(title, max(width - 5 - len(health.text), 4))
    top = line(
        Segment("┌", edge),
        Segment(title, "select" if is_selected else "bold"),
        Segment("─" * (width - 4 - cells(title) - len(health.text)), edge),
        Segment(f" {health.text} ", health.style),
        Segment("┐", edge),
    )
    clocks = f"{text('sm_clock_hertz')}|{text('memory_clock_hertz')} MHz"
    energy = field_text_with_unit("energy_joules_total", gpu.number("energy_joules_total"))
    body = [
        _bar_line("RU ", inner, real_words(gpu), bottleneck_style(gpu), *gpu.bounds, gpu.number(DRIVER)),
        _bar_line("MEM", inner, _memory_and_share(gpu), "", gpu.number("memory_ratio")),
        _bar_line("PWR", inner, _power(gpu) + " W" * (_power(gpu) != "--"), "", gpu.number("power_ratio")),
        class_words(gpu),
        line(
            f"SM {text('sm_active_ratio')}/{text('sm_occupancy_ratio')} TC {text('tensor_active_ratio')}"
            f" DRAM {text('dram_active_ratio')} util {text(DRIVER)}"
        ),
        line(
            f"{_temperatures(gpu)} C {clocks} GR {text('graphics_engine_active_ratio')}"
            f" cp {text('memory_utilization_ratio')}"
        ),
        line(f"PCIe {_pcie(gpu)} NVL {text('nvlink_bytes_per_second')} /s"),
        line(f"lim {_limit(gpu)}  {energy}  replay {rate(gpu.replays_per_second)}/s"),
        line(Segment(gpu.problem, health.style) if gpu.problem else _card_owner(gpu)),
    ]
    framed = [line(Segment("│ ", edge), *each.fitted(inner), Segment(" │", edge)) for each in body]
    return [top.fitted(width), *framed, styled(f"└{'─' * (width - 2)}┘", edge)]


def _bar_line(
    name: str, width: int, words: str, style: str, lower: Number, upper: Number = None, mark: Number = None
) -> Line:
    size = max(width - 4 - _BESIDE_BAR - 1, 6)
    return line(f"{name} ", *bar(size, style, lower, upper, mark), " ", right(words, width - size - 5))


def _pair(first: str, second: str) -> str:
    return "--" if first == second == "--" else f"{first}/{second}"


def _memory(gpu: GpuRow) -> str:
    return _pair(gpu.text("memory_used_bytes"), gpu.text("memory_bytes"))


def _memory_and_share(gpu: GpuRow) -> str:
    words = _memory(gpu)
    return words if words == "--" else f"{words} {gpu.text('memory_ratio')} %"


def _power(gpu: GpuRow) -> str:
    watts = gpu.text("power_watts")
    return watts if gpu.number("power_watts") is None else f"{watts}/{gpu.text('power_limit_watts')}"


def _temperatures(gpu: GpuRow) -> str:
    return f"{gpu.text('temperature_celsius')}|{gpu.text('memory_temperature_celsius')}"


def _pcie(gpu: GpuRow) -> str:
    return f"{gpu.text('pcie_receive_bytes_per_second')}/{gpu.text('pcie_transmit_bytes_per_second')}"


def _limit(gpu: GpuRow) -> str:
    limit = gpu.state("limiting_resource")
    return "--" if gpu.stale or limit == "unknown" else limit


def _card_owner(gpu: GpuRow) -> Segment:
    words = owner_words(gpu)
    return Segment(f"idle, held by {words}" if words else "idle, held", "warn") if gpu.use == "held" else Segment(words)


def _owner(gpu: GpuRow) -> Segment:
    words = owner_words(gpu) or "--"
    if gpu.use == "held":
        return Segment(words + ("" if gpu.class_age is None else " idle"), "warn")
    return Segment(words, "dim" if words in ("free", "nobody", "--") else "")


def _field(title: str, width: int, importance: int, name: str) -> TableColumn[GpuRow]:
    return TableColumn(title, width, importance, lambda gpu: gpu.text(name))


_NODE: TableColumn[GpuRow] = TableColumn("NODE", 8, 90, lambda gpu: gpu.node, left, 20, is_name=True)

COLUMNS: tuple[TableColumn[GpuRow], ...] = (
    TableColumn("GPU", 5, 100, lambda gpu: gpu.name),
    _NODE,
    TableColumn("MODEL", 14, 30, lambda gpu: gpu.mig_profile or gpu.model, left),
    TableColumn("HEALTH", 10, 95, health_words, left),
    TableColumn(
        "REAL UTIL", 16, 73, lambda gpu: Line(bar(16, bottleneck_style(gpu), *gpu.bounds, gpu.number(DRIVER))), left
    ),
    TableColumn("RU %", 9, 99, lambda gpu: real_words(gpu).replace(" %", "")),
    TableColumn("CLASS", 13, 98, class_words, left, 40),
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
    TableColumn("LIMIT", 8, 40, _limit, left),
    TableColumn("PCIe RX/TX", 13, 26, _pcie),
    _field("NVLINK", 8, 25, "nvlink_bytes_per_second"),
    _field("SM MHz", 6, 24, "sm_clock_hertz"),
    TableColumn("OWNER", 10, 78, _owner, left, 40, is_name=True),
)


def _rows(model: Model, view: ViewState, gpus: Sequence[GpuRow], width: int, height: int) -> Fleet:
    columns = fitting_columns([each for each in COLUMNS if model.has_several_nodes or each is not _NODE], width)
    columns = named_columns(columns, model.gpus)
    current = view.place(gpus)
    rows = _in_sight(len(gpus), current, height - 2 if len(gpus) > height - 1 else height - 1)
    found = Fleet([title_line(columns)], [[]])
    for at in rows:
        row = row_line(columns, gpus[at])
        found.lines.append(row.fitted(width).styled("select") if at == current else row)
        found.places.append([(width, gpus[at].key)])
    _add_position(found, rows.start, rows.stop, len(gpus))
    return found
