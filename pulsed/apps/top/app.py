"""The interactive `pulsed top` on Textual's widgets."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import termios
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.filter import LineFilter
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Footer, Input

from pulsed.apps.top.session import TopSession, WrongCommand
from pulsed.present.terminal.frame import VIEWS, frame
from pulsed.present.terminal.text import Theme, line, styles
from pulsed.printable import ascii_text

MIN_PAUSE_SECONDS = 0.25
"""Frames are drawn at most four times a second, except in answer to a key."""

BARS = 2
"""Lines of the tabs and the footer."""

ALL = 10**9


class AsciiFilter(LineFilter):
    """Replaces characters outside ASCII."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return segments of the same width."""
        return [Segment(ascii_text(text), style, control) for text, style, control in segments]


class Lines(ScrollView):
    """Shows lines, and renders only the visible ones."""

    lines: Sequence[Text] = ()

    def show(self, lines: Sequence[Text]) -> None:
        """Show other lines."""
        if lines != self.lines:
            self.lines, self.virtual_size = lines, Size(1, len(lines))
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return a line in sight."""
        at, width = y + self.scroll_offset.y, self.size.width
        text = self.lines[at].copy() if at < len(self.lines) else Text()
        text.truncate(width, overflow="ellipsis")
        return Strip(text.render(self.app.console)).adjust_cell_length(width)


class TopApp(App[None]):
    """The program."""

    AUTO_FOCUS = None
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: ansi_default; }
    Lines { background: ansi_default; scrollbar-size-vertical: 1; overflow-x: hidden; }
    #head { overflow-y: hidden; }
    Input { display: none; background: ansi_default; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "do('open', 'help')", "help"),
        Binding("q,escape", "leave", "quit"),
        Binding("enter", "do('enter')", "open", key_display="Enter"),
        Binding("slash", "prompt('/')", "filter"),
        Binding("s", "do('next', 'sort')", "sort"),
        Binding("r", "do('next', 'reverse')", "reverse"),
        Binding("v", "do('next', 'layout')", "layout"),
        Binding("p,space", "do('next', 'paused')", "pause", key_display="p"),
        Binding("colon", "prompt(':')", "command"),
        Binding("plus", "do('zoom', 1)", "longer", key_display="+"),
        Binding("minus", "do('zoom', -1)", "shorter", key_display="-"),
        Binding("j,down,right", "move(1)", show=False),
        Binding("k,up,left", "move(-1)", show=False),
        Binding("home", f"move({-ALL})", show=False),
        Binding("end", f"move({ALL})", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        *(Binding(str(number), f"do('open', '{name}')", show=False) for number, name in enumerate(VIEWS, 1)),
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
        self._head, self._body = Lines(id="head", can_focus=False), Lines(can_focus=False)
        self._prompt = Input(compact=True, select_on_focus=False)
        self._drawn, self._is_changed = 0.0, False
        self._shown: tuple[str, str, range] = ("", "", range(0))

    def compose(self) -> ComposeResult:
        """Yield the widgets."""
        yield from (self._head, self._body, self._prompt, Footer(compact=True))

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters of Textual, with the filter of `--ascii`."""
        return [*super().get_line_filters(), *([AsciiFilter()] if self._ascii else [])]

    def on_mount(self) -> None:
        """Begin to read and to draw."""
        self._handlers = {number: signal.signal(number, self._end) for number in (signal.SIGTERM, signal.SIGHUP)}
        self.draw()
        self.set_interval(MIN_PAUSE_SECONDS, self._tick)
        for feed in self._session.feeds:
            feed.start(lambda: setattr(self, "_is_changed", True))

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

    def _tick(self) -> None:
        if self._is_changed or time.monotonic() - self._drawn >= self._interval:
            self.draw()

    def draw(self) -> None:
        """Draw what changed."""
        self._drawn, self._is_changed = time.monotonic(), False
        model, view, (width, height) = self._session.update(), self._view, self.size
        drawn = frame(model, view, width - self._body.show_vertical_scrollbar, height - BARS)
        self._head.show([_tabs(view.view), *drawn.lines[: drawn.titles]])
        self._head.styles.height = drawn.titles + 1
        self._body.show(drawn.lines[drawn.titles :])
        before, self._shown = self._shown, (view.view, view.report, drawn.selected)
        if self._shown[:2] != before[:2]:
            self._body.scroll_home(animate=False)
        if drawn.selected and self._shown != before:
            region = Region(0, drawn.selected.start - drawn.titles, 1, len(drawn.selected))
            self._body.scroll_to_region(region, animate=False)

    def on_resize(self, event: events.Resize) -> None:
        """Draw for the new size."""
        self.draw()

    def action_do(self, name: str, *arguments: Any) -> None:
        """Call a method of the session, and draw; it returns whether the program ends."""
        try:
            if getattr(self._session, name)(*arguments):
                self.exit()
        except WrongCommand as error:
            self.notify(str(error), severity="warning", markup=False)
        self.draw()

    def action_leave(self) -> None:
        """Close the prompt, or leave the view or the program."""
        if self._prompt.display:
            self._close_prompt()
        else:
            self.action_do("back")

    def action_move(self, count: int) -> None:
        """Select another row, or scroll."""
        if not self._session.move(count):
            self._body.scroll_relative(y=count, animate=False)
        self.draw()

    def action_page(self, pages: int) -> None:
        """Scroll by pages."""
        lines = pages * max(self._body.size.height - 1, 1)
        if self._view.view == "gpu":
            self._body.scroll_relative(y=lines, animate=False)
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
        self.action_do("set_filter" if event.value[:1] == "/" else "run", event.value.lstrip("/:"))

    def _close_prompt(self) -> None:
        self._prompt.display, self.query_one(Footer).display = False, True
        self.set_focus(None)


def _tabs(shown: str) -> Text:
    tabs = [line((f" {number} {name} ", "select" if name == shown else "")) for number, name in enumerate(VIEWS, 1)]
    for tab, name in zip(tabs, VIEWS, strict=True):
        tab.apply_meta({"@click": f"app.do('open', {name!r})"})
    return line(*tabs)
