"""Keys and commands: what they change in the view."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pulsed.terminal.gpu_filter import FilterError, gpu_filter
from pulsed.terminal.model import Model
from pulsed.terminal.view_state import LAYOUTS, SORTS, VIEWS, ViewName, ViewState

WINDOWS = (60.0, 300.0, 600.0, 1800.0, 3600.0)
"""Seconds of history to choose from."""


class Command:
    """Applies keys and commands to a view.

    Attributes:
        model: what is shown, for names and neighbours of GPUs.
    """

    def __init__(self, view: ViewState) -> None:
        self.view = view
        self.model = Model(0.0)
        self._keys: Mapping[str, Callable[[], bool | None]] = {
            "j": lambda: self._move(1),
            "down": lambda: self._move(1),
            "k": lambda: self._move(-1),
            "up": lambda: self._move(-1),
            "right": lambda: self._step(1),
            "left": lambda: self._step(-1),
            "home": lambda: self._step(-(10**9)),
            "end": lambda: self._step(10**9),
            "enter": self._enter,
            "escape": self.back,
            "q": self.back,
            "s": self._next_sort,
            "r": self._reverse,
            "v": self._next_layout,
            "space": self._pause,
            "plus": lambda: self._zoom(1),
            "minus": lambda: self._zoom(-1),
            "question_mark": lambda: self.open("help"),
            "colon": lambda: self._ask(":"),
            "slash": lambda: self._ask(f"/{self.view.filter}"),
            **{str(number): self._opener(view) for number, view in enumerate(VIEWS, 1)},
        }
        self._commands: Mapping[str, Callable[[str], bool | None]] = {
            "focus": self._focus,
            "sort": self._sort,
            "filter": self.set_filter,
            "q": lambda _: self.back(),
            "quit": lambda _: self.back(),
            "exit": lambda _: True,
            **{view: self._command_of(view) for view in VIEWS if view != "focus"},
        }

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
        if key in ("pagedown", "pageup"):
            pages = 1 if key == "pagedown" else -1
            self._scroll(pages * max(height - 5, 1)) if self._scrolls() or view.view == "focus" else self._step(
                pages * max(height // 4, 1)
            )
            return False
        handle = self._keys.get(key)
        return bool(handle()) if handle is not None else False

    def click(self, key: str) -> None:
        """Select a GPU, or open it if it is the selected one."""
        shown = self.view.shown(self.model)
        current = self.view.current(shown)
        if current is not None and current.key == key and self.view.selected == key:
            self.open("focus")
        self.view.selected = key

    def open(self, view: ViewName) -> None:
        """Show a view from its beginning."""
        self.view.view, self.view.scroll = view, 0

    def back(self) -> bool:
        """Return to Fleet, or clear the filter there; return whether there was nothing left to leave."""
        if self.view.view != "fleet":
            self.open("fleet")
            return False
        if self.view.filter:
            self.view.filter = ""
            return False
        return True

    def set_filter(self, text: str) -> None:
        """Set the filter; a wrong one is a message."""
        if self.view.view in ("fleet", "focus", "plot"):
            try:
                gpu_filter(text)
            except FilterError as error:
                self.view.message = f"filter: {error}"
                return
        self.view.filter, self.view.scroll = text.strip(), 0

    def run(self, text: str) -> bool:
        """Run a command without its colon; return whether the program ends."""
        name, _, argument = text.strip().partition(" ")
        found = [each for each in self._commands if each == name] or [
            each for each in self._commands if name and each.startswith(name)
        ]
        if len(found) != 1:
            self.view.message = f"there is no command {name!r}; ? lists all" if name else ""
            return False
        return bool(self._commands[found[0]](argument.strip()))

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

    def _opener(self, view: ViewName) -> Callable[[], None]:
        return lambda: self.open(view)

    def _command_of(self, view: ViewName) -> Callable[[str], None]:
        return lambda argument: self.open(view)

    def _ask(self, prompt: str) -> None:
        self.view.prompt = prompt

    def _scrolls(self) -> bool:
        """Return whether the view is a list, in which keys scroll."""
        return self.view.view in ("job", "events", "sources", "help")

    def _move(self, count: int) -> None:
        if self._scrolls():
            self._scroll(count)
        else:
            self._step(count)

    def _scroll(self, lines: int) -> None:
        self.view.scroll = max(self.view.scroll + lines, 0)

    def _step(self, count: int) -> None:
        """Select the GPU so many places further."""
        shown = self.view.shown(self.model)
        current = self.view.current(shown)
        if current is None:
            return
        place = next(number for number, gpu in enumerate(shown) if gpu is current)
        self.view.selected = shown[max(0, min(place + count, len(shown) - 1))].key

    def _enter(self) -> None:
        if self.view.view in ("fleet", "plot"):
            self.open("focus")

    def _focus(self, wanted: str) -> None:
        if wanted:
            gpu = self.model.find(wanted)
            if gpu is None:
                self.view.message = f"there is no GPU {wanted!r}"
                return
            self.view.selected, self.view.filter = gpu.key, ""
        self.open("focus")

    def _sort(self, name: str) -> None:
        if name not in SORTS:
            self.view.message = f"there is no order {name!r}; there are {', '.join(SORTS)}"
            return
        self.view.sort = name

    def _next_sort(self) -> None:
        self.view.sort = SORTS[(SORTS.index(self.view.sort) + 1) % len(SORTS)]

    def _reverse(self) -> None:
        self.view.reverse = not self.view.reverse

    def _next_layout(self) -> None:
        self.view.layout = LAYOUTS[(LAYOUTS.index(self.view.layout) + 1) % len(LAYOUTS)]

    def _pause(self) -> None:
        self.view.paused = not self.view.paused

    def _zoom(self, steps: int) -> None:
        """Show a longer or shorter time."""
        nearest = min(range(len(WINDOWS)), key=lambda at: abs(WINDOWS[at] - self.view.window))
        self.view.window = WINDOWS[max(0, min(nearest + steps, len(WINDOWS) - 1))]
