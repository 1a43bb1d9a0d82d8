"""The daemons and what each of them reads, and the help: what can be done and what is meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pulsed.terminal.gpu_filter import NUMBERS, TEXTS
from pulsed.terminal.line import Line, Segment, line, styled, wrapped
from pulsed.terminal.model import Answers, Document, GpuState, Model, seconds_of
from pulsed.terminal.numbers import duration, gibibytes, percent
from pulsed.terminal.view_state import SORTS, ViewState

_HELP = f"""\
Views
  1 Fleet, 2 Focus, 3 Plot, 4 Job, 5 Events, 6 Sources, 7 or ? this help; Esc and :q go back, then end; ^C ends
  Enter opens the selected GPU; j k and arrows select; PgUp PgDn scroll; the mouse selects, a second click opens
Keys
  / filter   s sort ({", ".join(SORTS)})   r reverse   v cards or rows   space pause   + - window of history   q quit
Commands
  :focus GPU (index, UUID, node:index)  :plot  :job  :events  :sources  :fleet  :sort NAME  :filter TEXT  :q  :exit
Filter
  comparisons < <= > >= = != ~ (contains), & | ! ( ); ratios as .1 or 10%; a word alone is looked for in all texts
  numbers: {" ".join(NUMBERS)}
  texts: {" ".join(TEXTS)}
  ru<.1 & class!=idle     use=held     health>=warn | stale=yes    tensor=-- (no reading)
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


def help_text(model: Model, view: ViewState, gpus: Sequence[GpuState], width: int, height: int) -> list[Line]:
    """Return keys, commands, filters and marks, from `view.scroll` on."""
    lines = [styled(row, "" if row.startswith(" ") else "title") for row in _HELP.splitlines()]
    return view.scrolled([*lines, *_own_cost(model)], height)


def source_list(model: Model, view: ViewState, gpus: Sequence[GpuState], width: int, height: int) -> list[Line]:
    """Return daemons and their sources, from `view.scroll` on."""
    lines = [row for daemon in model.daemons for row in _daemon(daemon, model, width)]
    return view.scrolled([*lines, *_own_cost(model)], height)


def _own_cost(model: Model) -> Iterator[Line]:
    """Yield what this program costs, if it was measured."""
    if model.cost is not None:
        share, memory = model.cost
        yield styled(f"pulsed top: {100 * share:.1f} % of a core, {memory / 2**20:.0f} MiB", "dim")


def _daemon(daemon: Answers, model: Model, width: int) -> Iterator[Line]:
    state = Segment("no answer", "crit") if model.is_lost(daemon) else Segment("answers", "ok")
    version = f"  pulsed {daemon.version}" if daemon.version else ""
    yield line(Segment(daemon.label, "title"), f"  {daemon.node}{version}  ", state)
    yield from (each.styled("crit") for each in wrapped(daemon.error, width, "  "))
    age = model.age(daemon)
    if age is not None:
        request = "" if daemon.seconds is None else f", request {1000 * daemon.seconds:.0f} ms"
        yield styled(f"  last answer {duration(age)} ago{request}", "dim")
    if (host := daemon.host) is not None:
        yield line(
            f"  host: CPU {percent(host['cpu_busy_ratio'])} % of {host['cpu_count'] or '--'} threads, load"
            f" {host['load_average']:.1f}, memory {gibibytes(host['memory_used_bytes'])} of"
            f" {gibibytes(host['memory_bytes'])} GiB"
        )
    for source in daemon.sources:
        yield from _source(source, model.time, width)


def _source(source: Document, now: float, width: int) -> Iterator[Line]:
    mark = Segment("up  ", "ok") if source["up"] else Segment("DOWN", "crit")
    sample = source["last_sample_time"]
    age = "no sample yet" if sample is None else f"sample {duration(max(now - seconds_of(sample), 0.0))} old"
    demo = Segment(" DEMO" if source["demo"] else "", "warn")
    interval = Segment(f"  every {duration(source['interval_seconds'])}, {age}", "dim")
    yield line("  ", mark, f" {source['kind']} {source['target']}", demo, interval)
    yield from wrapped(source["error"] or "", width, "      ")
