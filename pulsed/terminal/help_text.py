"""Keys, commands, filters and marks, and what the program costs."""

from __future__ import annotations

from pulsed.terminal.gpu_filter import NUMBERS, TEXTS
from pulsed.terminal.line import Line, Segment, line
from pulsed.terminal.model import Model
from pulsed.terminal.source_list import own_cost
from pulsed.terminal.view_state import SORTS, ViewState

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
