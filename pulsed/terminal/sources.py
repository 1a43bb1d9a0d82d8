"""The daemons, and what each of them reads."""

from __future__ import annotations

from collections.abc import Iterator

from pulsed.terminal.gpu_filter import NUMBERS, TEXTS
from pulsed.terminal.line import Line, Segment, line, wrapped
from pulsed.terminal.model import DaemonState, Document, Model, seconds_of
from pulsed.terminal.numbers import duration, gibibytes, percent
from pulsed.terminal.view_state import SORTS, ViewState


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


_TEXT = f"""\
Views
  1 Fleet, 2 Focus, 3 Plot, 4 Job, 5 Events, 6 Sources, 7 or ? this help; Esc and :q go back, then end; ^C ends
  Enter opens the selected GPU; j k and arrows select; PgUp PgDn scroll; the mouse selects, a second click opens
Keys
  / filter   s sort ({", ".join(SORTS)})   r reverse   v cards or rows   space pause   + - window of history   q quit
Commands
  :focus GPU (index, UUID, node:index)  :plot  :job  :events  :sources  :fleet  :sort NAME  :filter TEXT  :q  :exit
Filter
  comparisons < <= > >= = != ~ (contains), & | ! ( ); ratios as .1 or 10%; a word alone is looked for in all texts
  numbers: {", ".join(NUMBERS)}
  texts: {", ".join(TEXTS)}
  ru<.1 & class!=idle     use=held     health=crit | stale=yes     tensor=-- (no reading)
Cards
  in %: SM active/occupancy, TC tensor, GR graphics engine, cp memory utilization (copies), util GPU utilization
  temperatures GPU|memory, clocks SM|memory, PCIe received/sent, NVL NVLink, lim the resource nearest to its limit
Marks
  [████··|··]  a known value; | is what the driver calls GPU utilization
  [██▒▒▒····]  bounds: at least what is solid, at most what is hatched, because inputs are missing
  [/ / / / /]  no reading: --, never 0; a measured 0 is [▏········]
  C compute  M memory  I io  X mixed  - idle  ? unknown, with the classes that it can be
  i info  ! warn  ^ hot  x crit; STALE 42 s: no newer sample, not in any sum; 7/8: sums are of 7 of 8 GPUs
"""


def help_text(model: Model, view: ViewState, height: int) -> list[Line]:
    """Return the help, from `view.scroll` on."""
    lines = [line(Segment(row, "" if row.startswith(" ") else "title")) for row in _TEXT.splitlines()]
    lines += own_cost(model)
    return view.scrolled(lines, height)
