"""The interactive `pulsed top`: keys, mouse and time around the frames, on Textual."""

from __future__ import annotations

import asyncio
import signal
import time
from contextvars import copy_context
from typing import ClassVar

from rich.segment import Segment as RichSegment
from rich.style import Style
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from pulsed.apps.top.keys import KeyHandler
from pulsed.apps.top.session import TopSession
from pulsed.present.terminal.line import Line, Paint, Theme, ascii_line, palette
from pulsed.present.terminal.screen import Screen, render

MIN_PAUSE_SECONDS = 0.25
"""Frames are drawn at most four times a second, except in answer to a key."""


class FrameView(Widget, can_focus=True):
    """Shows a frame line by line."""

    DEFAULT_CSS = "FrameView { width: 1fr; height: 1fr; }"

    def __init__(self, theme: Theme, *, ascii: bool) -> None:
        super().__init__()
        self.frame = Screen([], [])
        self._styles = {name: _style(paint) for name, paint in palette(theme).items()}
        self._ascii = ascii
        self._strips: dict[Line, Strip] = {}

    def show(self, frame: Screen) -> None:
        """Draw the lines that differ from the frame before."""
        before, self.frame = self.frame.lines, frame
        if len(before) != len(frame.lines):
            self.refresh()
            return
        kept = set(frame.lines)
        self._strips = {line: strip for line, strip in self._strips.items() if line in kept}
        for number, (old, new) in enumerate(zip(before, frame.lines, strict=True)):
            if old != new:
                self.refresh(Region(0, number, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        """Return a line of the frame."""
        if y >= len(self.frame.lines):
            return Strip.blank(self.size.width)
        line = self.frame.lines[y]
        if line not in self._strips:
            shown = ascii_line(line) if self._ascii else line
            segments = [RichSegment(text, self._styles.get(style)) for text, style in shown]
            self._strips[line] = Strip(segments, line.width)
        return self._strips[line]


class TopApp(App[None]):
    """The program.

    Args:
        session: feeds and view.
    """

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("ctrl+q", "quit", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
    ]

    def __init__(self, session: TopSession, theme: Theme, *, ascii: bool = False, interval: float = 1.0) -> None:
        super().__init__(ansi_color=True)
        self._session, self._interval = session, interval
        self._command = KeyHandler(session.view)
        self.view = FrameView(theme, ascii=ascii)
        self._drawn = 0.0
        self._scheduled = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_context = copy_context()

    def compose(self) -> ComposeResult:
        """Return the only widget."""
        yield self.view

    def on_mount(self) -> None:
        """Begin to read and to draw."""
        self._loop, self._thread_context = asyncio.get_running_loop(), copy_context()
        for number in (signal.SIGTERM, signal.SIGHUP):
            self._loop.add_signal_handler(number, self.exit)
        self.view.focus()
        self.draw()
        self.set_interval(self._interval, self._tick)
        for feed in self._session.feeds:
            feed.start(self.changed)

    def on_unmount(self) -> None:
        """Stop reading."""
        for feed in self._session.feeds:
            feed.stop()

    def changed(self) -> None:
        """Draw soon, as there is something new; may be called in any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._soon, context=self._thread_context)

    def draw(self) -> None:
        """Draw a frame."""
        self._drawn, self._scheduled = time.monotonic(), False
        model = self._session.model()
        self._session.request(model)
        self._command.model = model
        self.view.show(render(model, self._session.view, *self.size))

    def _soon(self) -> None:
        if self._scheduled or not self.is_running:
            return
        self._scheduled = True
        self.set_timer(max(MIN_PAUSE_SECONDS - (time.monotonic() - self._drawn), 0.001), self.draw)

    def _tick(self) -> None:
        if time.monotonic() - self._drawn >= 0.9 * self._interval:
            self.draw()

    def on_resize(self, event: events.Resize) -> None:
        """Draw for the new size."""
        self.draw()

    def on_key(self, event: events.Key) -> None:
        """Handle a key."""
        event.stop()
        event.prevent_default()
        if self._command.press(event.key, event.character, self.size.height):
            self.exit()
        else:
            self.draw()

    def on_click(self, event: events.Click) -> None:
        """Select a GPU, or open the selected one."""
        if key := self.view.frame.gpu_at(event.screen_x, event.screen_y):
            self._command.click(key)
            self.draw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll."""
        self._command.press("down", None, self.size.height)
        self.draw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll back."""
        self._command.press("up", None, self.size.height)
        self.draw()


def _style(paint: Paint) -> Style:
    colour = paint.colour
    if colour and not colour.startswith("#"):
        colour = f"color({colour})"
    return Style(color=colour or None, bold=paint.bold or None, dim=paint.dim or None, reverse=paint.reverse or None)
