"""All GPUs: a card for each if these fit, else a row for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pulsed.terminal.charts import bar
from pulsed.terminal.line import Line, Segment, cells, chosen, cut, joined, left, line, right, wrapped
from pulsed.terminal.model import GpuState, Model
from pulsed.terminal.numbers import duration, gibibytes, megahertz, metric, percent, rate, whole
from pulsed.terminal.view_state import ViewState
from pulsed.terminal.words import (
    bottleneck_style,
    class_words,
    gpu_label,
    health_words,
    owner_words,
    real_words,
)

CARD_WIDTH, CARD_HEIGHT = 38, 11
WIDEST_CARD = 60

DRIVER = "gpu_utilization_ratio"
"""What the driver calls GPU utilization."""

_WORDS = 15
"""Cells of the numbers beside a bar."""

_CARD_NUMBERS = (
    ("TC", "tensor_active_ratio"),
    ("DRAM", "dram_active_ratio"),
    ("util", DRIVER),
)


class Fleet(NamedTuple):
    """The lines of GPUs, and by line and column which GPU is there, for a mouse."""

    lines: list[Line]
    places: list[list[tuple[int, str]]]
    """By line, keys of GPUs with the column at which each ends."""


def fleet(model: Model, view: ViewState, gpus: Sequence[GpuState], width: int, height: int) -> Fleet:
    """Return the view of all GPUs, with the selected one in sight."""
    if not gpus:
        lines = _without_gpus(model, width)
        return Fleet(lines, [[] for _ in lines])
    columns = max(min(width // CARD_WIDTH, len(gpus)), 1)
    rows_of_cards = max(height // CARD_HEIGHT, 1)
    fits = columns * rows_of_cards >= len(gpus) and height >= CARD_HEIGHT
    if view.layout == "cards" or (view.layout == "auto" and fits):
        return _cards(model, view, gpus, width, height, columns)
    return _rows(model, view, gpus, width, height)


def _without_gpus(model: Model, width: int) -> list[Line]:
    if model.gpus:
        return [line(Segment("no GPU passes the filter", "dim"))]
    errors = [source["error"] for daemon in model.sources for source in daemon.sources if source["error"]]
    errors += [daemon.error for daemon in model.sources if daemon.error]
    return [line(Segment("no GPUs", "dim")), *(row for error in errors for row in wrapped(error, width, "  "))]


def visible(count: int, selected: int, size: int) -> range:
    """Return which of `count` rows are in sight if `size` fit: pages with the selected one."""
    size = max(size, 1)
    first = selected // size * size
    return range(first, min(first + size, count))


def _cards(model: Model, view: ViewState, gpus: Sequence[GpuState], width: int, height: int, columns: int) -> Fleet:
    card_width = min(width // columns, WIDEST_CARD)
    current = view.current(gpus)
    at = next((number for number, gpu in enumerate(gpus) if gpu is current), 0)
    in_sight = visible(-(-len(gpus) // columns), at // columns, height // CARD_HEIGHT)
    lines: list[Line] = []
    places: list[list[tuple[int, str]]] = []
    for row in in_sight:
        group = gpus[row * columns : (row + 1) * columns]
        cards = [card(gpu, card_width, model, is_selected=gpu is current) for gpu in group]
        lines += [joined(parts) for parts in zip(*cards, strict=True)]
        ends = [((number + 1) * card_width, gpu.key) for number, gpu in enumerate(group)]
        places += [ends] * CARD_HEIGHT
    first, last = in_sight.start * columns, min(in_sight.stop * columns, len(gpus))
    if last - first < len(gpus) and len(lines) < height:
        lines.append(line(Segment(f"{first + 1}-{last}/{len(gpus)}", "dim")))
        places.append([])
    return Fleet(lines, places)


def card(gpu: GpuState, width: int, model: Model, *, is_selected: bool) -> list[Line]:
    """Return a card of `CARD_HEIGHT` lines."""
    inner = width - 4
    health = health_words(gpu)
    edge = "key" if is_selected else health.style if health.style != "ok" else "dim"
    title = f" GPU {gpu_label(gpu, with_node=model.has_several_nodes)} {gpu.mig_profile or gpu.model} "
    title = cut(title, max(width - 5 - len(health.text), 4))
    rule = "─" * (width - 4 - cells(title) - len(health.text))
    top = line(
        Segment("┌", edge),
        Segment(title, "select" if is_selected else "bold"),
        Segment(rule, edge),
        Segment(f" {health.text} ", health.style),
    )
    body = [
        _bar_line("RU ", bottleneck_style(gpu), *gpu.bounds, real_words(gpu), inner, gpu.number(DRIVER)),
        _bar_line("MEM", "", gpu.memory_ratio, gpu.memory_ratio, _memory_and_share(gpu), inner),
        _bar_line("PWR", "", gpu.power_ratio, gpu.power_ratio, _power_words(gpu), inner),
        class_words(gpu, model.time),
        _activity(gpu),
        _temperature_and_clocks(gpu),
        _traffic(gpu),
        _last(gpu),
        line(Segment(gpu.problem, health.style) if gpu.problem and not gpu.stale else _card_owner(gpu)),
    ]  # fmt: skip
    framed = [line(Segment("│ ", edge), *each.fitted(inner), Segment(" │", edge)) for each in body]
    return [Line([*top, Segment("┐", edge)]).fitted(width), *framed, line(Segment(f"└{'─' * (width - 2)}┘", edge))]


def _card_owner(gpu: GpuState) -> Segment:
    words = owner_words(gpu)
    return Segment(f"idle, held by {words}", "warn") if gpu.use == "held" else Segment(words)


def _activity(gpu: GpuState) -> Line:
    active, occupancy = (percent(gpu.number(f"sm_{name}_ratio")) for name in ("active", "occupancy"))
    others = " ".join(f"{title} {percent(gpu.number(name))}" for title, name in _CARD_NUMBERS)
    return line(f"SM {active}/{occupancy} {others}")


def _bar_line(
    name: str,
    style: str,
    lower: float | None,
    upper: float | None,
    words: str,
    width: int,
    mark: float | None = None,
) -> Line:
    size = max(width - 4 - _WORDS - 1, 6)
    return line(f"{name} ", *bar(size, style, lower, upper, mark), " ", right(words, width - size - 5))


def _memory_words(gpu: GpuState) -> str:
    used, size = gpu.number("memory_used_bytes"), gpu.number("memory_bytes")
    if used is None and size is None:
        return "--"
    return f"{gibibytes(used)}/{gibibytes(size)} GiB"


def _memory_and_share(gpu: GpuState) -> str:
    words = _memory_words(gpu)
    return words if words == "--" else f"{words.removesuffix(' GiB')} {percent(gpu.memory_ratio)} %"


def _power_words(gpu: GpuState) -> str:
    if gpu.number("power_watts") is None:
        return "--"
    return f"{whole(gpu.number('power_watts'))}/{whole(gpu.number('power_limit_watts'))} W"


def _temperature_and_clocks(gpu: GpuState) -> Line:
    die, memory = (whole(gpu.number(name)) for name in ("temperature_celsius", "memory_temperature_celsius"))
    sm, mem = (megahertz(gpu.number(name)) for name in ("sm_clock_hertz", "memory_clock_hertz"))
    engine, copy = (percent(gpu.number(name)) for name in ("graphics_engine_active_ratio", "memory_utilization_ratio"))
    return line(f"{die}|{memory} C {sm}|{mem} MHz GR {engine} cp {copy}")


def _traffic(gpu: GpuState) -> Line:
    receive, send = (metric(gpu.number(f"pcie_{way}_bytes_per_second"), "B") for way in ("receive", "transmit"))
    link = metric(gpu.nvlink_bytes_per_second, "B")
    return line(f"PCIe {receive.replace(' ', '')}/{send.replace(' ', '')} NVL {link.replace(' ', '')} /s")


def _last(gpu: GpuState) -> Line:
    energy = metric(gpu.number("energy_joules_total"), "J")
    return line(f"lim {_limit(gpu)}  {energy}  replay {rate(gpu.replays_per_second)}/s")


class FleetColumn(NamedTuple):
    """A column of rows: title, least width, importance, alignment, cell, and the width that it grows to."""

    title: str
    width: int
    importance: int
    is_right: bool
    cell: Callable[[GpuState, Model], Line | Segment | str]
    most: int = 0


def _ratio(title: str, name: str, importance: int) -> FleetColumn:
    return FleetColumn(title, max(len(title), 3), importance, True, lambda gpu, model: percent(gpu.number(name)))


def _real_bar(gpu: GpuState, model: Model) -> Line:
    return Line(bar(16, bottleneck_style(gpu), *gpu.bounds, gpu.number(DRIVER)))


COLUMNS: tuple[FleetColumn, ...] = (
    FleetColumn("GPU", 5, 100, True, lambda gpu, model: gpu.name),
    FleetColumn("NODE", 8, 90, False, lambda gpu, model: gpu.node, 20),
    FleetColumn("MODEL", 14, 30, False, lambda gpu, model: gpu.mig_profile or gpu.model),
    FleetColumn("HEALTH", 10, 95, False, lambda gpu, model: health_words(gpu)),
    FleetColumn("REAL UTIL", 16, 73, False, _real_bar),
    FleetColumn("RU %", 9, 99, True, lambda gpu, model: real_words(gpu).replace(" %", "")),
    FleetColumn("CLASS", 13, 98, False, lambda gpu, model: class_words(gpu, model.time), 40),
    _ratio("SM", "sm_active_ratio", 70),
    _ratio("OCC", "sm_occupancy_ratio", 28),
    _ratio("TC", "tensor_active_ratio", 69),
    _ratio("DRAM", "dram_active_ratio", 68),
    _ratio("GR", "graphics_engine_active_ratio", 27),
    _ratio("UTIL", DRIVER, 65),
    _ratio("COPY", "memory_utilization_ratio", 20),
    FleetColumn("MEM GiB", 10, 80, True, lambda gpu, model: _memory_words(gpu).removesuffix(" GiB")),
    FleetColumn("WATTS", 8, 75, True, lambda gpu, model: _power_words(gpu).removesuffix(" W")),
    FleetColumn("C", 5, 72, True, lambda gpu, model: _temperatures(gpu)),
    FleetColumn("LIMIT", 8, 40, False, lambda gpu, model: _limit(gpu)),
    FleetColumn("PCIe RX/TX", 13, 26, True, lambda gpu, model: _pcie(gpu)),
    FleetColumn("NVLINK", 8, 25, True, lambda gpu, model: metric(gpu.nvlink_bytes_per_second, "B").replace(" ", "")),
    FleetColumn("SM MHz", 6, 24, True, lambda gpu, model: megahertz(gpu.number("sm_clock_hertz"))),
    FleetColumn("OWNER", 10, 78, False, lambda gpu, model: _owner_cell(gpu), 40),
)


def _temperatures(gpu: GpuState) -> str:
    return "|".join(whole(gpu.number(name)) for name in ("temperature_celsius", "memory_temperature_celsius"))


def _limit(gpu: GpuState) -> str:
    limit = gpu.state("limiting_resource")
    return "--" if gpu.stale or limit == "unknown" else limit


def _pcie(gpu: GpuState) -> str:
    texts = [metric(gpu.number(f"pcie_{way}_bytes_per_second"), "B") for way in ("receive", "transmit")]
    return "/".join(texts).replace(" ", "")


def _owner_cell(gpu: GpuState) -> Segment:
    words = owner_words(gpu) or "--"
    if gpu.use == "held":
        since = "" if gpu.class_since is None else " idle"
        return Segment(words + since, "warn")
    return Segment(words, "dim" if words in ("free", "--") else "")


def _columns(model: Model, width: int) -> list[FleetColumn]:
    """Return the columns that fit; those that can grow share what is left."""
    possible = [each for each in COLUMNS if each.title != "NODE" or model.has_several_nodes]
    kept = chosen([each.importance for each in possible], [each.width for each in possible], width, 1)
    columns = [possible[at] for at in kept]
    left_over = width - sum(each.width + 1 for each in columns) + 1
    for at, each in sorted(enumerate(columns), key=lambda pair: -pair[1].importance):
        more = max(min(each.most - each.width, left_over), 0)
        columns[at] = each._replace(width=each.width + more)
        left_over -= more
    return columns


def _rows(model: Model, view: ViewState, gpus: Sequence[GpuState], width: int, height: int) -> Fleet:
    columns = _columns(model, width)
    titles = [(right if each.is_right else left)(each.title, each.width) for each in columns]
    current = view.current(gpus)
    at = next((number for number, gpu in enumerate(gpus) if gpu is current), 0)
    in_sight = visible(len(gpus), at, height - 2 if len(gpus) > height - 1 else height - 1)
    lines: list[Line] = [line(Segment(" ".join(titles), "title"))]
    places: list[list[tuple[int, str]]] = [[]]
    for number in in_sight:
        gpu = gpus[number]
        row = joined([_cell(each, gpu, model) for each in columns], " ")
        lines.append(row.fitted(width).selected() if gpu is current else row)
        places.append([(width, gpu.key)])
    if len(in_sight) < len(gpus):
        lines.append(line(Segment(f"{in_sight.start + 1}-{in_sight.stop}/{len(gpus)}", "dim")))
        places.append([])
    return Fleet(lines, places)


def _cell(column: FleetColumn, gpu: GpuState, model: Model) -> Line:
    made = column.cell(gpu, model)
    if isinstance(made, str):
        return line((right if column.is_right else left)(made, column.width))
    return (line(made) if isinstance(made, Segment) else made).fitted(column.width)


def held_words(gpu: GpuState, time: float) -> str:
    """Return since when a GPU is idle although it has an owner; empty if it is not."""
    if gpu.use != "held" or gpu.class_since is None:
        return ""
    return f"idle but held for {duration(max(time - gpu.class_since, 0.0))}"
