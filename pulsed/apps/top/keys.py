"""Keys and commands: what they change in the view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pulsed.present.terminal.model import Model
from pulsed.present.terminal.screen import VIEWS
from pulsed.present.terminal.view_state import LAYOUTS, SORTS, FilterError, ViewState, gpu_filter

T = TypeVar("T")

WINDOWS = (60.0, 300.0, 600.0, 1800.0, 3600.0)
"""Seconds of history to choose from."""

COMMANDS = ("focus", "sort", "filter", "q", "quit", "exit", *(view for view in VIEWS if view != "focus"))
"""Names of commands; a beginning that only one of them has is enough."""

_ALL = 10**9


class KeyHandler:
    """Applies keys and commands to a view.

    Attributes:
        model: what is shown, for names and neighbours of GPUs.
    """

    def __init__(self, view: ViewState) -> None:
        self.view = view
        self.model = Model(0.0)

    def press(self, key: str, character: str | None, height: int) -> bool:
        """Handle a key; return whether the program ends.

        Args:
            key: its name as in Textual.
            character: that it writes; None for none.
            height: lines of the screen.
        """
        view = self.view
        if view.prompt is not None:
            return self._type(view.prompt, key, character)
        view.message = ""
        match key:
            case "j" | "down":
                self._move(1)
            case "k" | "up":
                self._move(-1)
            case "right":
                self._step(1)
            case "left":
                self._step(-1)
            case "home":
                self._step(-_ALL)
            case "end":
                self._step(_ALL)
            case "pagedown":
                self._page(1, height)
            case "pageup":
                self._page(-1, height)
            case "enter" if view.view in ("fleet", "plot"):
                self.open("focus")
            case "escape" | "q":
                return self.back()
            case "s":
                view.sort = _after(SORTS, view.sort)
            case "r":
                view.reverse = not view.reverse
            case "v":
                view.layout = _after(LAYOUTS, view.layout)
            case "space":
                view.paused = not view.paused
            case "plus":
                self._zoom(1)
            case "minus":
                self._zoom(-1)
            case "question_mark":
                self.open("help")
            case "colon":
                view.prompt = ":"
            case "slash":
                view.prompt = f"/{view.filter}"
            case _ if key in map(str, range(1, len(VIEWS) + 1)):
                self.open(list(VIEWS)[int(key) - 1])
        return False

    def run(self, text: str) -> bool:
        """Run a command without its colon; return whether the program ends."""
        given, _, argument = text.strip().partition(" ")
        found = [name for name in COMMANDS if name == given or (given and name.startswith(given))]
        argument = argument.strip()
        match given if given in COMMANDS else found[0] if len(found) == 1 else None:
            case None:
                self.view.message = f"there is no command {given!r}; ? lists all" if given else ""
            case "focus":
                self._focus(argument)
            case "sort" if argument in SORTS:
                self.view.sort = argument
            case "sort":
                self.view.message = f"there is no order {argument!r}; there are {', '.join(SORTS)}"
            case "filter":
                self.set_filter(argument)
            case "q" | "quit":
                return self.back()
            case "exit":
                return True
            case view:
                self.open(view)
        return False

    def click(self, key: str) -> None:
        """Select a GPU, or open it if it is the selected one."""
        current = self.view.current(self.view.shown(self.model))
        if current is not None and current.key == key == self.view.selected:
            self.open("focus")
        self.view.selected = key

    def open(self, view: str) -> None:
        """Show a view from its beginning."""
        self.view.view, self.view.scroll = view, 0

    def back(self) -> bool:
        """Return to Fleet, or clear the filter there; return whether there was nothing left to leave."""
        is_over = self.view.view == "fleet" and not self.view.filter
        if self.view.view != "fleet":
            self.open("fleet")
        else:
            self.view.filter = ""
        return is_over

    def set_filter(self, text: str) -> None:
        """Set the filter; a wrong one is a message."""
        if not VIEWS[self.view.view].is_list:
            try:
                gpu_filter(text)
            except FilterError as error:
                self.view.message = f"filter: {error}"
                return
        self.view.filter, self.view.scroll = text.strip(), 0

    def _type(self, prompt: str, key: str, character: str | None) -> bool:
        view = self.view
        if key == "enter":
            view.prompt = None
            if prompt.startswith(":"):
                return self.run(prompt[1:])
            self.set_filter(prompt[1:])
        elif key in ("escape", "ctrl+u"):
            view.prompt = None
        elif key == "backspace":
            view.prompt = prompt[:-1] or None
        elif character is not None and character.isprintable():
            view.prompt = prompt + character
        return False

    def _move(self, count: int) -> None:
        (self._scroll if VIEWS[self.view.view].is_list else self._step)(count)

    def _page(self, pages: int, height: int) -> None:
        if VIEWS[self.view.view].is_list or self.view.view == "focus":
            self._scroll(pages * max(height - 5, 1))
        else:
            self._step(pages * max(height // 4, 1))

    def _scroll(self, lines: int) -> None:
        self.view.scroll = max(self.view.scroll + lines, 0)

    def _step(self, count: int) -> None:
        """Select the GPU so many places further."""
        shown = self.view.shown(self.model)
        if shown:
            place = self.view.place(shown) + count
            self.view.selected = shown[max(0, min(place, len(shown) - 1))].key

    def _focus(self, wanted: str) -> None:
        if wanted:
            gpu = self.model.find(wanted)
            if gpu is None:
                self.view.message = f"there is no GPU {wanted!r}"
                return
            self.view.selected, self.view.filter = gpu.key, ""
        self.open("focus")

    def _zoom(self, steps: int) -> None:
        """Show a longer or shorter time."""
        nearest = min(range(len(WINDOWS)), key=lambda at: abs(WINDOWS[at] - self.view.window))
        self.view.window = WINDOWS[max(0, min(nearest + steps, len(WINDOWS) - 1))]


def _after(values: Sequence[T], value: T) -> T:
    return values[(values.index(value) + 1) % len(values)]
