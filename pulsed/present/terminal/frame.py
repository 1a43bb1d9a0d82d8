"""The screen: two lines about the source of the data and sums over GPUs, and a view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import localtime, strftime
from typing import Any, NamedTuple

from rich.console import Console, Group
from rich.text import Text

from pulsed.number_text import duration, gibibytes, metric, percent, span
from pulsed.present.terminal.charts import plot
from pulsed.present.terminal.fleet import fleet
from pulsed.present.terminal.focus import focus
from pulsed.present.terminal.lists import event_rows, events, help_text, job_rows, jobs, source_list
from pulsed.present.terminal.model import FleetRow, Model, total
from pulsed.present.terminal.text import Drawn, Theme, fitting, line, styles, wrapped
from pulsed.present.terminal.view_state import ViewState
from pulsed.printable import ascii_text, clean

MIN_WIDTH, MIN_HEIGHT = 41, 8


class View(NamedTuple):
    """A view.

    Attributes:
        draw: returns its lines for a model, a state, the GPUs that pass the filter, a width and a height.
        rows: returns what keys select; None if they scroll.
        is_list: its rows are no GPUs, and the filter is a text.
    """

    draw: Callable[[Model, ViewState, Sequence[FleetRow], int, int], Drawn]
    rows: Callable[[Model, ViewState], Iterable[Any]] | None = None
    is_list: bool = True


def _shown(model: Model, view: ViewState) -> list[FleetRow]:
    return view.shown(model)


VIEWS: Mapping[str, View] = {
    "fleet": View(fleet, _shown, is_list=False),
    "gpu": View(focus, _shown, is_list=False),
    "plot": View(plot, _shown, is_list=False),
    "events": View(events, event_rows),
    "work": View(jobs, job_rows),
    "sources": View(source_list),
    "help": View(help_text),
}
"""By name, in the order of the keys `1` to `7`; names and keys match the web page."""


def frame(model: Model, view: ViewState, width: int, height: int) -> Drawn:
    """Return the lines of a frame; `height` applies to charts, and decides whether rows of GPUs have all their cells.

    Documents of another version are an error in place of the view.
    """
    if width < MIN_WIDTH or height < MIN_HEIGHT:
        return Drawn([line(f"needs {MIN_WIDTH}x{MIN_HEIGHT} cells")])
    if view.report:
        return Drawn([line(each) for each in view.report.splitlines()])
    try:
        gpus = list(model.gpus) if VIEWS[view.view].is_list else view.shown(model)
        head = [fitting(_place(model, view, gpus), width), fitting(_sums(model, gpus), width, " | ")]
        lines, titles, shown = VIEWS[view.view].draw(model, view, gpus, width, height - len(head))
        return Drawn([*head, *lines], titles + 2, range(shown.start + 2, shown.stop + 2))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        text = f"this view cannot show what the daemon answered, which may be of another version: {clean(repr(error))}"
        return Drawn(wrapped(text, width, "", "crit"))


def printed(
    model: Model, view: ViewState, size: tuple[int, int], theme: Theme, *, ascii: bool, is_terminal: bool
) -> str:
    """Return a frame as text, with escape sequences for a terminal."""
    console = Console(
        width=size[0],
        color_system=None if not is_terminal else "standard" if theme == "16" else "truecolor",
        force_terminal=is_terminal,
        no_color=theme == "none",
        theme=styles(theme),
    )
    with console.capture() as capture:
        console.print(Group(*frame(model, view, size[0], size[1] - 1).lines))
    text = "".join(f"{each.rstrip()}\n" for each in capture.get().rstrip().split("\n"))
    return ascii_text(text) if ascii else text


def _place(model: Model, view: ViewState, gpus: Sequence[FleetRow]) -> Iterator[tuple[int, Text]]:
    """Yield where the data is from, with importances."""
    yield 10, line(("pulsed", "title"))
    if len(model.daemons) == 1:
        (daemon,) = model.daemons
        yield 9, line((daemon.node or daemon.label, "bold"))
        if daemon.node:
            yield 2, line((daemon.label, "dim"))
    elif model.daemons:
        lost = sum(map(model.is_lost, model.daemons))
        yield 9, line((f"{len(model.daemons) - lost}/{len(model.daemons)} daemons", "crit" if lost else "bold"))
    yield 8, line(_freshness(model, view))
    if any(source.get("demo") for source in model.sources):
        yield 7, line(("DEMO", "warn"))
    if view.filter:
        yield 6, line((f"filter: {view.filter}", "key"))
    if view.sort != "index" or view.reverse:
        yield 5, line((f"by {view.sort}{' reversed' if view.reverse else ''}", "key"))
    kinds = dict.fromkeys(f"{source['kind']} {duration(source['interval_seconds'])}" for source in model.sources)
    yield 3, line((", ".join(kinds), "dim"))
    yield 4, line((strftime("%H:%M:%S", localtime(model.time)), "dim"))
    if not VIEWS[view.view].is_list and (selected := view.current(gpus)) is not None:
        yield 9, line((f"[GPU {selected.name}]", "key"))


def _freshness(model: Model, view: ViewState) -> tuple[str, str]:
    if view.paused:
        return "PAUSED", "warn"
    error = next((daemon.error for daemon in model.daemons if daemon.error), "")
    if error and all(map(model.is_lost, model.daemons)):
        return error, "crit"
    if model.sources and all(source.get("ended") for source in model.sources):
        return "the recording is over", "dim"
    ages = [gpu.age for gpu in model.gpus if not gpu.stale]
    if not ages:
        return "no data yet" if not model.gpus else "STALE", "stale"
    youngest = min(ages)
    return f"live {youngest:.1f} s" if youngest < 60 else f"live {duration(youngest)}", "ok"


def _sums(model: Model, shown: Sequence[FleetRow]) -> Iterator[tuple[int, Text]]:
    """Yield sums over the shown GPUs, with importances; a sum that is not of all of them has their number."""
    gpus = without_parts(shown)
    fresh, count = [gpu for gpu in gpus if not gpu.stale], len(gpus)
    uses, states = Counter(gpu.use for gpu in gpus), Counter(gpu.health for gpu in gpus)
    of_all = "" if len(shown) == len(model.gpus) else f"/{len(without_parts(model.gpus))}"
    yield 10, line("GPUs ", (f"{count}{of_all}", "bold"))
    if used := [f"{name} {uses[name]}" for name in ("busy", "held", "free", "idle", "unknown") if uses[name]]:
        yield 8, line("  ".join(used))
    yield 9, line("RU ", (mean_utilization(fresh, count), "bold"))
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
    alarms = [(f"{states[name]} {name} ", name) for name in ("crit", "hot", "warn", "unknown") if states[name]]
    stale = [(f"{count - len(fresh)} stale", "stale")] if len(fresh) < count else []
    yield 9, line(*alarms, *stale)
    if len(model.daemons) == 1 and not model.has_several_nodes and (host := model.daemons[0].documents.get("host")):
        threads = "--" if host["cpu_count"] is None else host["cpu_count"]
        yield 4, line(f"CPU {percent(host['cpu_busy_ratio'])} % of {threads}")
        yield 4, line(f"RAM {gibibytes(host['memory_used_bytes'])}/{gibibytes(host['memory_bytes'])} GiB")


def _numbers(gpus: Sequence[FleetRow], name: str) -> list[float]:
    return [value for gpu in gpus if (value := gpu.number(name)) is not None]


def _counted(text: str, matching: int, count: int) -> str:
    return text if matching == count else f"{text}, {matching}/{count}"


def without_parts(gpus: Sequence[FleetRow]) -> list[FleetRow]:
    """Return GPUs without the MIG instances of boards among them, which sums would count twice."""
    boards = {(gpu.source, gpu.node, gpu.uuid or gpu.gpu) for gpu in gpus if not gpu.mig_id}
    return [gpu for gpu in gpus if not gpu.mig_id or (gpu.source, gpu.node, gpu.uuid or gpu.gpu) not in boards]


def mean_utilization(fresh: Sequence[FleetRow], count: int) -> str:
    """Return the mean real utilization in percent, or its bounds unless it is known of all current GPUs."""
    utilizations = [gpu.real for gpu in fresh if gpu.real is not None]
    if not utilizations and all(gpu.bounds == (None, None) for gpu in fresh):
        return "--"
    if len(utilizations) == len(fresh):
        return _counted(f"{percent(sum(utilizations) / len(utilizations))} %", len(utilizations), count)
    lower = sum(gpu.bounds[0] or 0.0 for gpu in fresh) / len(fresh)
    upper = sum(1.0 if gpu.bounds[1] is None else gpu.bounds[1] for gpu in fresh) / len(fresh)
    return _counted(f"{span(lower, upper)} %", len(utilizations), count)
