"""The whole screen: header, view and footer, in exactly as many lines as there are."""

from __future__ import annotations

import time
from collections import Counter
from typing import NamedTuple

from pulsed.printable import clean
from pulsed.terminal.changes import changes
from pulsed.terminal.fleet import fleet
from pulsed.terminal.focus import focus
from pulsed.terminal.jobs import jobs
from pulsed.terminal.line import Item, Line, Segment, fitting, line, wrapped
from pulsed.terminal.model import GpuState, Model, total
from pulsed.terminal.numbers import duration, gibibytes, metric, percent, span
from pulsed.terminal.plot import plot
from pulsed.terminal.sources import help_text, source_list
from pulsed.terminal.view_state import VIEWS, ViewState

MIN_WIDTH, MIN_HEIGHT = 41, 8


class Screen(NamedTuple):
    """Lines from top to bottom, and by line the keys of GPUs with the column at which each ends."""

    lines: list[Line]
    places: list[list[tuple[int, str]]]

    def gpu_at(self, column: int, row: int) -> str:
        """Return the key of the GPU at a place; empty if there is none."""
        if not 0 <= row < len(self.places):
            return ""
        return next((key for end, key in self.places[row] if column < end), "")


def render(model: Model, view: ViewState, width: int, height: int) -> Screen:
    """Return the screen. The filter of `view` must be valid."""
    if width < MIN_WIDTH or height < MIN_HEIGHT:
        return _only([line(Segment(f"needs {MIN_WIDTH}x{MIN_HEIGHT} cells"))], width, height)
    try:
        return _screen(model, view, width, height)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        text = f"this view cannot show what the daemon answered, which may be of another version: {clean(repr(error))}"
        rows = [Line([Segment(row.text, "crit")]) for row in wrapped(text, width, "")]
        return _only([*rows, footer(Model(model.time), view, None, width)], width, height)


def _only(lines: list[Line], width: int, height: int) -> Screen:
    shown = [*lines, *[Line()] * (height - len(lines))][:height]
    return Screen([each.fitted(width) for each in shown], [])


def _screen(model: Model, view: ViewState, width: int, height: int) -> Screen:
    in_gpus = view.view in ("fleet", "focus", "plot")
    shown = view.shown(model) if in_gpus else list(model.gpus)
    above = header(model, view, shown, width)
    size = height - len(above) - 1
    places: list[list[tuple[int, str]]] = []
    if view.view == "fleet":
        body, places = fleet(model, view, shown, width, size)
    else:
        body = _body(model, view, shown, width, size)
    lines = [*above, *body[:size], *[Line()] * (size - len(body)), footer(model, view, _selected(view, shown), width)]
    return Screen([each.fitted(width) for each in lines], [[] for _ in above] + places[:size])


def _selected(view: ViewState, shown: list[GpuState]) -> GpuState | None:
    return view.current(shown) if view.view in ("fleet", "focus", "plot") else None


def _body(model: Model, view: ViewState, shown: list[GpuState], width: int, height: int) -> list[Line]:
    if view.view == "focus":
        return focus(model, view, shown, width, height)
    if view.view == "plot":
        return plot(model, view, shown, width, height)
    if view.view == "job":
        return jobs(model, view, width, height)
    if view.view == "events":
        return changes(model, view, width, height)
    if view.view == "sources":
        return source_list(model, view, width, height)
    return help_text(model, view, height)


def header(model: Model, view: ViewState, shown: list[GpuState], width: int) -> list[Line]:
    """Return two lines: where the data is from, and the sums over the shown GPUs."""
    return [_place(model, view, width), _sums(model, shown, width)]


def _place(model: Model, view: ViewState, width: int) -> Line:
    sources, items = model.sources, [Item(10, line(Segment("pulsed", "title")))]
    if len(sources) == 1:
        name = sources[0].node or sources[0].label
        items.append(Item(9, line(Segment(name, "bold"))))
        if sources[0].node:
            items.append(Item(2, line(Segment(sources[0].label, "dim"))))
    elif sources:
        lost = sum(source.is_lost for source in sources)
        answering = f"{len(sources) - lost}/{len(sources)} daemons"
        items.append(Item(9, line(Segment(answering, "crit" if lost else "bold"))))
    items.append(Item(8, line(_freshness(model, view))))
    if any(source.is_demo for source in sources):
        items.append(Item(7, line(Segment("DEMO", "warn"))))
    if view.filter:
        items.append(Item(6, line(Segment(f"filter: {view.filter}", "key"))))
    if view.sort != "index" or view.reverse:
        items.append(Item(5, line(Segment(f"by {view.sort}{' reversed' if view.reverse else ''}", "key"))))
    views = " ".join(f"{number}:{name}" for number, name in enumerate(VIEWS, 1))
    items.append(Item(1, line(Segment(views, "dim"))))
    return fitting(items, width)


def _freshness(model: Model, view: ViewState) -> Segment:
    if view.paused:
        return Segment("PAUSED", "warn")
    error = next((source.error for source in model.sources if source.error), "")
    if error and all(source.is_lost for source in model.sources):
        return Segment(error, "crit")
    ages = [gpu.age for gpu in model.gpus if not gpu.stale]
    if not ages:
        return Segment("no data yet" if not model.gpus else "STALE", "stale")
    youngest = min(ages)
    return Segment(f"live {youngest:.1f} s" if youngest < 60 else f"live {duration(youngest)}", "ok")


def _sums(model: Model, shown: list[GpuState], width: int) -> Line:
    fresh = [gpu for gpu in shown if not gpu.stale]
    uses, states = Counter(gpu.use for gpu in shown), Counter(gpu.health for gpu in fresh)
    stale = len(shown) - len(fresh)
    words = "  ".join(f"{name} {uses[name]}" for name in ("busy", "held", "free", "idle", "unknown") if uses[name])
    of_all = "" if len(shown) == len(model.gpus) else f"/{len(model.gpus)}"
    items = [
        Item(10, line("GPUs ", Segment(f"{len(shown)}{of_all}", "bold"))),
        Item(8, line(words)),
        Item(9, line("RU ", Segment(mean_utilization(fresh, len(shown)), "bold"))),
        Item(7, line(_power(fresh, len(shown)))),
        Item(6, line(_memory(fresh, len(shown)))),
        Item(3, line(f"active {sum(gpu.is_active for gpu in fresh)}" if fresh else "")),
    ]
    alarms = [Segment(f"{states[name]} {name} ", name) for name in ("crit", "hot", "warn", "unknown") if states[name]]
    if stale:
        alarms.append(Segment(f"{stale} stale", "stale"))
    items.append(Item(9, Line(alarms)))
    items += [Item(4, each) for each in _hosts(model)]
    return fitting([item for item in items if item.line.text.strip()], width, " | ")


def mean_utilization(fresh: list[GpuState], count: int) -> str:
    """Return the mean real utilization in percent, with bounds and coverage unless it is known of all `count` GPUs."""
    known = [gpu.real for gpu in fresh if gpu.real is not None]
    bounded = [gpu.bounds for gpu in fresh if None not in gpu.bounds]
    mean = sum(known) / len(known) if known else None
    text = f"{percent(mean)} %" if mean is not None else "--"
    if bounded and len(known) < len(fresh):
        lower, upper = (sum(bound or 0.0 for bound in side) / len(bounded) for side in zip(*bounded, strict=True))
        text += f" ({span(lower, upper)})"
    return text if len(known) == count else f"{text}, {len(known)}/{count}"


def _power(fresh: list[GpuState], count: int) -> str:
    known = [watts for gpu in fresh if (watts := gpu.number("power_watts")) is not None]
    if not known:
        return ""
    limit = total([gpu.number("power_limit_watts") for gpu in fresh])
    text = metric(sum(known), "W") + ("" if limit is None else f" of {metric(limit, 'W')}")
    text += f", mean {sum(known) / len(known):.0f} W" if len(known) > 1 else ""
    return text if len(known) == count else f"{text}, {len(known)}/{count}"


def _memory(fresh: list[GpuState], count: int) -> str:
    pairs = [(gpu.number("memory_used_bytes"), gpu.number("memory_bytes")) for gpu in fresh]
    known = [(used, size) for used, size in pairs if used is not None and size is not None]
    if not known:
        return ""
    used, size = sum(pair[0] for pair in known), sum(pair[1] for pair in known)
    text = f"{gibibytes(used)}/{gibibytes(size)} GiB"
    return text if len(known) == count else f"{text}, {len(known)}/{count}"


def _hosts(model: Model) -> list[Line]:
    if len(model.sources) != 1 or model.sources[0].host is None:
        return []
    host = model.sources[0].host
    threads = "--" if host["cpu_count"] is None else host["cpu_count"]
    return [
        line(f"CPU {percent(host['cpu_busy_ratio'])} % of {threads}"),
        line(f"RAM {gibibytes(host['memory_used_bytes'])}/{gibibytes(host['memory_bytes'])} GiB"),
    ]


HINTS: dict[str, tuple[str, ...]] = {
    "fleet": ("? help", "q quit", "Enter focus", "/ filter", "s sort", "v layout", "space pause", ": command"),
    "focus": ("? help", "Esc back", "j/k GPU", "PgUp/PgDn scroll", ": command"),
    "plot": ("? help", "Esc back", "j/k GPU", "+/- window"),
    "job": ("? help", "Esc back", "PgUp/PgDn scroll", "/ filter"),
    "events": ("? help", "Esc back", "j/k change", "PgUp/PgDn scroll", "/ filter"),
    "sources": ("? help", "Esc back", "PgUp/PgDn scroll"),
    "help": ("Esc back", "PgUp/PgDn scroll"),
}
"""Keys by view, the most important first."""


def footer(model: Model, view: ViewState, selected: GpuState | None, width: int) -> Line:
    """Return the last line: the prompt, else a message, else selection, hints, source and clock."""
    if view.prompt is not None:
        return line(Segment(view.prompt, "bold"), Segment("_", "select"))
    if view.message:
        return line(Segment(view.message, "warn"))
    inner = [source for each in model.sources for source in each.sources]
    kinds = ", ".join(dict.fromkeys(f"{source['kind']} {duration(source['interval_seconds'])}" for source in inner))
    items = [Item(8 - at, line(Segment(hint, "dim"))) for at, hint in enumerate(HINTS[view.view])]
    if selected is not None:
        items.insert(0, Item(9, line(Segment(f"[GPU {selected.name}]", "key"))))
    if kinds:
        items.append(Item(5, line(Segment(kinds, "dim"))))
    items.append(Item(6, line(Segment(time.strftime("%H:%M:%S", time.localtime(model.time)), "dim"))))
    return fitting(items, width)
