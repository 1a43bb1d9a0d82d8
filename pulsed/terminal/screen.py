"""The whole screen: header, view and footer, in exactly as many lines as there are."""

from __future__ import annotations

from typing import NamedTuple

from pulsed.printable import clean
from pulsed.terminal.changes import changes
from pulsed.terminal.fleet import fleet
from pulsed.terminal.focus import focus
from pulsed.terminal.header import footer, header
from pulsed.terminal.help_text import help_text
from pulsed.terminal.jobs import jobs
from pulsed.terminal.line import Line, Segment, line, wrapped
from pulsed.terminal.model import GpuState, Model
from pulsed.terminal.plot import plot
from pulsed.terminal.source_list import source_list
from pulsed.terminal.view_state import ViewState

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
