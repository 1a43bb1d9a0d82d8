"""The whole screen in exactly as many lines as there are: two lines of header, a view, and the footer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pulsed.present.terminal.charts import plot
from pulsed.present.terminal.fleet import Fleet, fleet
from pulsed.present.terminal.focus import focus
from pulsed.present.terminal.line import Line, Segment, fitting, line, styled, wrapped
from pulsed.present.terminal.lists import changes, help_text, jobs, source_list
from pulsed.present.terminal.model import GpuRow, Model, total
from pulsed.present.terminal.numbers import duration, gibibytes, metric, percent, span
from pulsed.present.terminal.view_state import ViewState
from pulsed.printable import clean

MIN_WIDTH, MIN_HEIGHT = 41, 8

Draw = Callable[[Model, ViewState, Sequence[GpuRow], int, int], "Fleet | list[Line]"]


class View(NamedTuple):
    """A view.

    Attributes:
        draw: returns its lines for a model, a state, the GPUs that pass the filter, a width and a height.
        hints: keys for the footer, the most important first.
        is_list: a list of lines, in which keys scroll; else keys select a GPU, and the filter is one of GPUs.
    """

    draw: Draw
    hints: tuple[str, ...]
    is_list: bool = True


VIEWS: Mapping[str, View] = {
    "fleet": View(
        fleet,
        ("? help", "q quit", "Enter focus", "/ filter", "s sort", "v layout", "space pause", ": command"),
        is_list=False,
    ),
    "focus": View(focus, ("? help", "Esc back", "j/k GPU", "PgUp/PgDn scroll", ": command"), is_list=False),
    "plot": View(plot, ("? help", "Esc back", "j/k GPU", "+/- window"), is_list=False),
    "job": View(jobs, ("? help", "Esc back", "PgUp/PgDn scroll", "/ filter")),
    "events": View(changes, ("? help", "Esc back", "j/k change", "PgUp/PgDn scroll", "/ filter")),
    "sources": View(source_list, ("? help", "Esc back", "PgUp/PgDn scroll")),
    "help": View(help_text, ("Esc back", "PgUp/PgDn scroll")),
}
"""By name, in the order of the keys `1` to `7`."""


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
        return _only([line(f"needs {MIN_WIDTH}x{MIN_HEIGHT} cells")], width, height)
    try:
        return _screen(model, view, width, height)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        text = f"this view cannot show what the daemon answered, which may be of another version: {clean(repr(error))}"
        rows = [row.styled("crit") for row in wrapped(text, width, "")]
        return _only([*rows, _footer(Model(model.time), view, None, width)], width, height)


def _only(lines: list[Line], width: int, height: int) -> Screen:
    shown = [*lines, *[Line()] * (height - len(lines))][:height]
    return Screen([each.fitted(width) for each in shown], [])


def _screen(model: Model, view: ViewState, width: int, height: int) -> Screen:
    shown = VIEWS[view.view]
    gpus = list(model.gpus) if shown.is_list else view.shown(model)
    size = height - 3
    drawn = shown.draw(model, view, gpus, width, size)
    body, places = drawn if isinstance(drawn, Fleet) else (drawn, [])
    lines = [
        fitting(_place(model, view), width),
        fitting(_sums(model, gpus), width, " | "),
        *body[:size],
        *[Line()] * (size - len(body)),
        _footer(model, view, None if shown.is_list else view.current(gpus), width),
    ]
    return Screen([each.fitted(width) for each in lines], [[], [], *places[:size]])


def _place(model: Model, view: ViewState) -> Iterator[tuple[int, Line]]:
    """Yield where the data is from, with importances."""
    yield 10, styled("pulsed", "title")
    if len(model.daemons) == 1:
        (daemon,) = model.daemons
        yield 9, styled(daemon.node or daemon.label, "bold")
        if daemon.node:
            yield 2, styled(daemon.label, "dim")
    elif model.daemons:
        lost = sum(map(model.is_lost, model.daemons))
        yield 9, styled(f"{len(model.daemons) - lost}/{len(model.daemons)} daemons", "crit" if lost else "bold")
    yield 8, line(_freshness(model, view))
    if any(source.get("demo") for daemon in model.daemons for source in daemon.sources):
        yield 7, styled("DEMO", "warn")
    if view.filter:
        yield 6, styled(f"filter: {view.filter}", "key")
    if view.sort != "index" or view.reverse:
        yield 5, styled(f"by {view.sort}{' reversed' if view.reverse else ''}", "key")
    yield 1, styled(" ".join(f"{number}:{name}" for number, name in enumerate(VIEWS, 1)), "dim")


def _freshness(model: Model, view: ViewState) -> Segment:
    if view.paused:
        return Segment("PAUSED", "warn")
    error = next((daemon.error for daemon in model.daemons if daemon.error), "")
    if error and all(map(model.is_lost, model.daemons)):
        return Segment(error, "crit")
    ages = [gpu.age for gpu in model.gpus if not gpu.stale]
    if not ages:
        return Segment("no data yet" if not model.gpus else "STALE", "stale")
    youngest = min(ages)
    return Segment(f"live {youngest:.1f} s" if youngest < 60 else f"live {duration(youngest)}", "ok")


def _sums(model: Model, shown: Sequence[GpuRow]) -> Iterator[tuple[int, Line]]:
    """Yield sums over the shown GPUs, with importances; a sum that is not of all of them has their number."""
    fresh, count = [gpu for gpu in shown if not gpu.stale], len(shown)
    uses, states = Counter(gpu.use for gpu in shown), Counter(gpu.health for gpu in shown)
    of_all = "" if count == len(model.gpus) else f"/{len(model.gpus)}"
    yield 10, line("GPUs ", Segment(f"{count}{of_all}", "bold"))
    if used := [f"{name} {uses[name]}" for name in ("busy", "held", "free", "idle", "unknown") if uses[name]]:
        yield 8, line("  ".join(used))
    yield 9, line("RU ", Segment(mean_utilization(fresh, count), "bold"))
    if power := _numbers(fresh, "power_watts"):
        limit = total([gpu.number("power_limit_watts") for gpu in fresh])
        text = metric(sum(power), "W") + ("" if limit is None else f" of {metric(limit, 'W')}")
        text += f", mean {sum(power) / len(power):.0f} W" if len(power) > 1 else ""
        yield 7, line(_counted(text, len(power), count))
    sized = [gpu for gpu in fresh if gpu.number("memory_bytes") is not None]
    if used_bytes := _numbers(sized, "memory_used_bytes"):
        sizes = [gpu.number("memory_bytes") for gpu in sized if gpu.number("memory_used_bytes") is not None]
        text = f"{gibibytes(sum(used_bytes))}/{gibibytes(total(sizes))} GiB"
        yield 6, line(_counted(text, len(used_bytes), count))
    if fresh:
        yield 3, line(f"active {sum(map(_is_active, fresh))}")
    alarms = [Segment(f"{states[name]} {name} ", name) for name in ("crit", "hot", "warn", "unknown") if states[name]]
    stale = [Segment(f"{count - len(fresh)} stale", "stale")] if len(fresh) < count else []
    yield 9, Line([*alarms, *stale])
    if len(model.daemons) == 1 and not model.has_several_nodes and (host := model.daemons[0].host) is not None:
        threads = "--" if host["cpu_count"] is None else host["cpu_count"]
        yield 4, line(f"CPU {percent(host['cpu_busy_ratio'])} % of {threads}")
        yield 4, line(f"RAM {gibibytes(host['memory_used_bytes'])}/{gibibytes(host['memory_bytes'])} GiB")


def _numbers(gpus: Sequence[GpuRow], name: str) -> list[float]:
    return [value for gpu in gpus if (value := gpu.number(name)) is not None]


def _counted(text: str, known: int, count: int) -> str:
    return text if known == count else f"{text}, {known}/{count}"


def _is_active(gpu: GpuRow) -> bool:
    """Return whether real utilization or memory is 20 % or more (as in KempnerPulse)."""
    return max(gpu.real or 0.0, gpu.number("memory_ratio") or 0.0) >= 0.2


def mean_utilization(fresh: Sequence[GpuRow], count: int) -> str:
    """Return the mean real utilization in percent, with bounds and coverage unless it is known of all `count` GPUs."""
    known = [gpu.real for gpu in fresh if gpu.real is not None]
    bounded = [gpu.bounds for gpu in fresh if None not in gpu.bounds]
    text = f"{percent(sum(known) / len(known))} %" if known else "--"
    if bounded and len(known) < len(fresh):
        lower, upper = (sum(bound or 0.0 for bound in side) / len(bounded) for side in zip(*bounded, strict=True))
        text += f" ({span(lower, upper)})"
    return _counted(text, len(known), count)


def _footer(model: Model, view: ViewState, selected: GpuRow | None, width: int) -> Line:
    """Return the last line: the prompt, else a message, else selection, hints, source and clock."""
    if view.prompt is not None:
        return line(Segment(view.prompt, "bold"), Segment("_", "select"))
    if view.message:
        return styled(view.message, "warn")
    sources = [source for daemon in model.daemons for source in daemon.sources]
    kinds = dict.fromkeys(f"{source['kind']} {duration(source['interval_seconds'])}" for source in sources)
    return fitting(
        [
            *([] if selected is None else [(9, styled(f"[GPU {selected.name}]", "key"))]),
            *((8 - at, styled(hint, "dim")) for at, hint in enumerate(VIEWS[view.view].hints)),
            *([(5, styled(", ".join(kinds), "dim"))] if kinds else []),
            (6, styled(time.strftime("%H:%M:%S", time.localtime(model.time)), "dim")),
        ],
        width,
    )
