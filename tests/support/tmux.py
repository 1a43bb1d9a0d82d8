"""A terminal for programs: tmux, with keys, and what is on its screen."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.daemon import environment
from tests.support.tools import tool
from tests.support.waiting import SECONDS, until


class Terminal:
    """One window with a shell."""

    def __init__(self, program: str, folder: Path) -> None:
        self._command = [program, "-S", str(folder / "tmux"), "-f", "/dev/null"]

    def tmux(self, *arguments: str) -> str:
        done = subprocess.run([*self._command, *arguments], capture_output=True, text=True, timeout=SECONDS, check=True)
        return done.stdout

    def type(self, *keys: str) -> None:
        """Press keys: texts, or names such as `Enter` and `C-z`."""
        self.tmux("send-keys", "-t", "t", *keys)

    def screen(self, *, colours: bool = False) -> str:
        return self.tmux("capture-pane", "-p", *(["-e"] if colours else []), "-t", "t")

    def wait_for(self, text: str) -> str:
        """Wait until a text is on the screen, which is returned."""
        seen = ""

        def is_there() -> bool:
            nonlocal seen
            seen = self.screen()
            return text in seen

        try:
            until(is_there)
        except AssertionError:
            raise AssertionError(f"{text!r} never came; the screen:\n{seen}") from None
        return seen

    def value(self, name: str) -> str:
        """Return a variable of the window, such as `pane_pid` and `alternate_on`."""
        return self.tmux("display-message", "-p", "-t", "t", f"#{{{name}}}").strip()

    def resize(self, width: int, height: int) -> None:
        self.tmux("resize-window", "-t", "t", "-x", str(width), "-y", str(height))


@contextmanager
def terminal(
    folder: Path, width: int = 110, height: int = 34, variables: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """Start a shell in a terminal of this size."""
    made = Terminal(tool("tmux", "tmux"), folder)
    kept = {name: value for name, value in environment().items() if name not in ("TMUX", "NO_COLOR", "COLORTERM")}
    shell = [*made._command, "new-session", "-d", "-s", "t", "-x", str(width), "-y", str(height)]
    shell += ["bash", "--norc", "--noprofile"]
    locale = {"PS1": "$ ", "LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]}
    subprocess.run(shell, env=kept | locale | dict(variables or {}), check=True, timeout=SECONDS)
    try:
        made.wait_for("$")
        yield made
    finally:
        made.tmux("kill-server")
