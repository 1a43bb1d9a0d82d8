"""The interactive `pulsed top` on Textual's widgets."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import termios
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from rich.console import Group
from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.containers import Container, VerticalScroll
from textual.coordinate import Coordinate
from textual.filter import LineFilter
from textual.geometry import Region
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static, Tab, Tabs

from pulsed.apps.top.session import TopSession, WrongCommand
from pulsed.present.terminal.fleet import CARD_HEIGHT, below_gpus, card_columns, gpu_table, has_cards
from pulsed.present.terminal.focus import MINI_FLEET_WIDTH, gpu_lines, has_mini_fleet
from pulsed.present.terminal.frame import MIN_HEIGHT, MIN_WIDTH, VIEWS, body, header, shown_gpus
from pulsed.present.terminal.lists import selected_job
from pulsed.present.terminal.text import Theme, line, styles
from pulsed.present.terminal.view_state import LAYOUTS, SORTS
from pulsed.printable import ascii_text

MIN_PAUSE_SECONDS = 0.25
"""Frames are drawn at most four times a second, except in answer to a key."""

BARS = 4
"""Lines of the header, the tabs and the footer."""

WINDOWS = (60.0, 300.0, 600.0, 1800.0, 3600.0, 21600.0, 86400.0)
"""Seconds of history to choose from."""

CHOICES: Mapping[str, Sequence[object]] = {
    "sort": SORTS,
    "layout": LAYOUTS,
    "reverse": (False, True),
    "paused": (False, True),
}
"""Values that a key cycles through, by the field of the view."""

ALL = 10**9


class AsciiFilter(LineFilter):
    """Replaces characters outside ASCII."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return segments of the same width."""
        return [Segment(ascii_text(text), style, control) for text, style, control in segments]


class Lines(Static):
    """Shows lines, and draws them only when they change."""

    shown: Sequence[Text] = ()

    def show(self, lines: Sequence[Text]) -> None:
        """Show other lines."""
        if lines != self.shown:
            self.update(Group(*lines), layout=len(lines) != len(self.shown))
            self.shown = lines


class RowTable(DataTable[Text], can_focus=False):
    """Rows below a line of titles that stays."""

    _lines: Sequence[Text] = ()

    def show(self, lines: Sequence[Text], selected: int) -> None:
        """Show a line of titles and rows; of as many rows below the same titles only those that changed."""
        before, self._lines = self._lines, lines
        if before[:1] != lines[:1] or len(before) != len(lines):
            self.clear(columns=True)
            self.add_column(lines[0], width=lines[0].cell_len)
            self.add_rows([row] for row in lines[1:])
        else:
            for at, (old, new) in enumerate(zip(before[1:], lines[1:], strict=True)):
                if old != new:
                    self.update_cell_at(Coordinate(at, 0), new)
        self.move_cursor(row=selected, animate=False)

    def on_click(self, event: events.Click) -> None:
        """Leave the click to the program."""
        event.prevent_default()


class TopApp(App[None]):
    """The program."""

    AUTO_FOCUS = None
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: ansi_default; }
    Lines { width: 1fr; height: auto; }
    #header { height: 2; }
    Tabs { height: 1; }
    Tabs Underline { display: none; }
    Tab.-active { text-style: reverse; }
    #main { height: 1fr; layout: horizontal; }
    #main.rows { layout: vertical; }
    RowTable { background: ansi_default; scrollbar-size-vertical: 1; }
    RowTable > .datatable--header { background: ansi_default; color: ansi_default; text-style: bold; }
    RowTable > .datatable--cursor { background: ansi_default; color: ansi_default; text-style: reverse; }
    RowTable > .datatable--even-row, RowTable > .datatable--odd-row { background: ansi_default; }
    VerticalScroll { scrollbar-size-vertical: 1; }
    Input { display: none; background: ansi_default; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "open('help')", "help"),
        Binding("q,escape", "leave", "quit"),
        Binding("enter", "enter", "open", key_display="Enter"),
        Binding("slash", "prompt('/')", "filter"),
        Binding("s", "next('sort')", "sort"),
        Binding("r", "next('reverse')", "reverse"),
        Binding("v", "next('layout')", "layout"),
        Binding("p,space", "next('paused')", "pause", key_display="p"),
        Binding("colon", "prompt(':')", "command"),
        Binding("plus", "zoom(1)", "longer", key_display="+"),
        Binding("minus", "zoom(-1)", "shorter", key_display="-"),
        Binding("j,down", "move(1)", show=False),
        Binding("k,up", "move(-1)", show=False),
        Binding("right", "step(1)", show=False),
        Binding("left", "step(-1)", show=False),
        Binding("home", f"step({-ALL})", show=False),
        Binding("end", f"step({ALL})", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        *(Binding(str(number), f"open('{name}')", show=False) for number, name in enumerate(VIEWS, 1)),
        Binding("ctrl+c,ctrl+q", "quit", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
    ]

    def __init__(self, session: TopSession, theme: Theme, *, ascii: bool = False, interval: float = 1.0) -> None:
        os.environ.pop("NO_COLOR", None)
        if theme == "none":
            os.environ["NO_COLOR"] = "1"  # as Textual reads it
        super().__init__(ansi_color=True)
        self.theme = "ansi-light" if theme == "light" else "ansi-dark"
        self.console.push_theme(styles(theme))
        self._session, self._view, self._interval, self._ascii = session, session.view, interval, ascii
        self._header, self._body = Lines(id="header"), Lines()
        self._table, self._scroll = RowTable(cell_padding=0, cursor_type="row"), VerticalScroll(can_focus=False)
        self._main, self._prompt = Container(id="main"), Input(compact=True, select_on_focus=False)
        self._tabs = Tabs(*(Tab(f"{number} {name}", id=name) for number, name in enumerate(VIEWS, 1)))
        self._tabs.can_focus = False
        self._drawn, self._is_changed, self._selected = 0.0, False, ""

    def compose(self) -> ComposeResult:
        """Yield the widgets."""
        yield self._header
        yield self._tabs
        with self._main:
            yield self._table
            with self._scroll:
                yield self._body
        yield self._prompt
        yield Footer(compact=True)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters of Textual, with the filter of `--ascii`."""
        return [*super().get_line_filters(), *([AsciiFilter()] if self._ascii else [])]

    def on_mount(self) -> None:
        """Begin to read and to draw."""
        self._handlers = {number: signal.signal(number, self._end) for number in (signal.SIGTERM, signal.SIGHUP)}
        self.draw()
        self.set_interval(MIN_PAUSE_SECONDS, self._tick)
        for feed in self._session.feeds:
            feed.start(self._set_changed)

    def on_unmount(self) -> None:
        """Stop reading."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for feed in self._session.feeds:
            feed.stop()

    def _end(self, number: int, frame: object) -> None:
        """End the program on a signal: at once if the terminal is gone, since Textual waits forever for its output."""
        try:
            termios.tcgetattr(2)  # on which Textual draws
        except termios.error as error:
            if error.args[0] == errno.EIO:
                os._exit(128 + number)
        asyncio.get_running_loop().call_soon_threadsafe(self.exit)

    def _set_changed(self) -> None:
        self._is_changed = True

    def _tick(self) -> None:
        if self._is_changed or time.monotonic() - self._drawn >= self._interval:
            self.draw()

    def draw(self) -> None:
        """Draw what changed."""
        if not self._tabs.tab_count:  # not yet, or no longer shown
            return
        self._drawn, self._is_changed = time.monotonic(), False
        model, view, (width, height) = self._session.update(), self._view, self.size
        if width < MIN_WIDTH or height < MIN_HEIGHT:
            self._header.show([line(f"needs {MIN_WIDTH}x{MIN_HEIGHT} cells")])
            return
        gpus, room = shown_gpus(model, view), height - BARS
        self._header.show(body(lambda: header(model, view, gpus, width), width))
        self._tabs.active = view.view
        has_rows = view.view == "fleet" and not has_cards(view, gpus, width, room)
        is_beside = view.view == "gpu" and has_mini_fleet(gpus, width)
        self._main.set_class(has_rows, "rows")
        self._table.display = has_rows or is_beside
        if self._table.display:
            self._table.show(gpu_table(model, gpus, MINI_FLEET_WIDTH if is_beside else width - 2), view.place(gpus))
            self._table.styles.width = MINI_FLEET_WIDTH + 3 if is_beside else "1fr"
            self._table.styles.height = "1fr" if is_beside else min(len(gpus) + 1, room)
        if has_rows:
            draw = partial(below_gpus, model, view, gpus, width, room - len(gpus) - 1)
        elif is_beside:
            draw = partial(gpu_lines, gpus[view.place(gpus)], width - MINI_FLEET_WIDTH - 4)
        else:
            inner = width if view.view in ("fleet", "plot") else width - 1  # for the scroll bar
            draw = partial(VIEWS[view.view].draw, model, view, gpus, inner, room)
        self._body.show(body(draw, width))
        if view.view == "fleet" and view.selected != self._selected:
            self._selected, row = view.selected, view.place(gpus) // card_columns(gpus, width)
            self._scroll.scroll_to_region(Region(0, row * CARD_HEIGHT, width, CARD_HEIGHT), animate=False)

    def on_resize(self, event: events.Resize) -> None:
        """Draw for the new size."""
        self.draw()

    def on_click(self, event: events.Click) -> None:
        """Open a view, select a GPU, or open the selected one."""
        if isinstance(event.widget, Tab) and event.widget.id:
            self.action_open(event.widget.id)
        elif key := event.style.meta.get("gpu"):
            self._session.click(key)
            self.draw()

    def action_open(self, view: str) -> None:
        """Show a view from its beginning."""
        self._session.open(view)
        self._scroll.scroll_home(animate=False)
        self.draw()

    def action_enter(self) -> None:
        """Open the selected GPU, or the report of the selected owner."""
        if self._view.view in ("fleet", "plot"):
            self.action_open("gpu")
        elif self._view.view == "work" and (job := selected_job(self._session.model, self._view)) is not None:
            self.push_screen(ReportScreen(job))

    def action_leave(self) -> None:
        """Close the prompt, or leave the view or the program."""
        if self._prompt.display:
            self._close_prompt()
        elif self._session.back():
            self.exit()
        self.draw()

    def action_next(self, name: str) -> None:
        """Change the order or the layout of GPUs, or pause."""
        values = CHOICES[name]
        setattr(self._view, name, values[(values.index(getattr(self._view, name)) + 1) % len(values)])
        self.draw()

    def action_zoom(self, steps: int) -> None:
        """Show a longer or shorter time."""
        nearest = min(range(len(WINDOWS)), key=lambda at: abs(WINDOWS[at] - self._view.window))
        self._view.window = WINDOWS[max(0, min(nearest + steps, len(WINDOWS) - 1))]
        self.draw()

    def action_step(self, count: int) -> None:
        """Select another GPU."""
        self._session.step(count)
        self.draw()

    def action_move(self, count: int) -> None:
        """Select another GPU or change, or scroll."""
        if not VIEWS[self._view.view].is_list:
            self._session.step(count)
        elif self._view.view in ("work", "events"):
            self._view.event = max(self._view.event + count, 0)
        else:
            self._scroll.scroll_relative(y=count, animate=False)
        self.draw()

    def action_page(self, pages: int) -> None:
        """Scroll by pages."""
        lines = pages * max(self.size.height - BARS - 1, 1)
        if self._view.view == "gpu":
            self._scroll.scroll_relative(y=lines, animate=False)
        else:
            self.action_move(pages * (self.size.height // 4) if self._view.view in ("fleet", "plot") else lines)

    def action_prompt(self, kind: str) -> None:
        """Show the prompt for a command or a filter."""
        self._prompt.value = kind + self._view.filter * (kind == "/")
        self._prompt.cursor_position = len(self._prompt.value)
        self._prompt.display, self.query_one(Footer).display = True, False
        self.set_focus(self._prompt)

    def on_key(self, event: events.Key) -> None:
        """Add what was typed before the prompt had the focus."""
        if self._prompt.display and event.character is not None and event.is_printable:
            event.prevent_default()
            self._prompt.insert_text_at_cursor(event.character)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Close an empty prompt."""
        if not event.value:
            self._close_prompt()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Run a command, or set the filter."""
        self._close_prompt()
        try:
            if event.value.startswith("/"):
                self._session.set_filter(event.value[1:])
            elif self._session.run(event.value.removeprefix(":")):
                self.exit()
        except WrongCommand as error:
            self.notify(str(error), severity="warning", markup=False)
        self.draw()

    def _close_prompt(self) -> None:
        self._prompt.display, self.query_one(Footer).display = False, True
        self.set_focus(None)


class ReportScreen(ModalScreen[None]):
    """The report of an owner, as `pulsed job` prints it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "back")]

    def __init__(self, job: Mapping[str, Any]) -> None:
        super().__init__()
        self._job = job

    def compose(self) -> ComposeResult:
        """Yield the text."""
        from pulsed.owners.report.job_report import job_report  # with its imports, which no other view needs

        with VerticalScroll():
            lines = Lines()
            lines.show(body(lambda: [Text(each) for each in job_report(self._job).splitlines()], self.app.size.width))
            yield lines
