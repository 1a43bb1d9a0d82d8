"""The daemons, and what each of them reads."""

from __future__ import annotations

from collections.abc import Iterator

from pulsed.terminal.line import Line, Segment, line, wrapped
from pulsed.terminal.model import DaemonState, Document, Model
from pulsed.terminal.numbers import duration, gibibytes, percent
from pulsed.terminal.summary import seconds_of
from pulsed.terminal.view_state import ViewState


def source_list(model: Model, view: ViewState, width: int, height: int) -> list[Line]:
    """Return daemons and their sources, from `view.scroll` on."""
    lines = [row for source in model.sources for row in _daemon(source, model, width)]
    lines += own_cost(model)
    return view.scrolled(lines, height)


def own_cost(model: Model) -> list[Line]:
    """Return what this program costs, as a line; none if it was not measured."""
    if model.cost is None:
        return []
    share, memory = model.cost
    return [line(Segment(f"pulsed top: {100 * share:.1f} % of a core, {memory / 2**20:.0f} MiB", "dim"))]


def _daemon(source: DaemonState, model: Model, width: int) -> Iterator[Line]:
    state = Segment("no answer", "crit") if source.is_lost else Segment("answers", "ok")
    version = f"  pulsed {source.version}" if source.version else ""
    yield line(Segment(source.label, "title"), f"  {source.node}{version}  ", state)
    if source.error:
        yield from (Line([Segment(each.text, "crit")]) for each in wrapped(source.error, width, "  "))
    if source.age is not None:
        request = "" if source.seconds is None else f", request {1000 * source.seconds:.0f} ms"
        yield line(Segment(f"  last answer {duration(source.age)} ago{request}", "dim"))
    if source.host is not None:
        host = source.host
        yield line(
            f"  host: CPU {percent(host['cpu_busy_ratio'])} % of {host['cpu_count'] or '--'} threads, load"
            f" {host['load_average']:.1f}, memory {gibibytes(host['memory_used_bytes'])} of"
            f" {gibibytes(host['memory_bytes'])} GiB"
        )
    for each in source.sources:
        yield from _source(each, model, width)


def _source(each: Document, model: Model, width: int) -> Iterator[Line]:
    mark = Segment("up  ", "ok") if each["up"] else Segment("DOWN", "crit")
    sample = each["last_sample_time"]
    age = "no sample yet" if sample is None else f"sample {duration(max(model.time - seconds_of(sample), 0.0))} old"
    demo = Segment(" DEMO", "warn") if each["demo"] else Segment("")
    yield line("  ", mark, f" {each['kind']} {each['target']}", demo,
               Segment(f"  every {duration(each['interval_seconds'])}, {age}", "dim"))  # fmt: skip
    if each["error"]:
        yield from wrapped(each["error"], width, "      ")
