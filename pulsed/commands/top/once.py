"""One frame as text, for a pipe."""

from __future__ import annotations

import time
from typing import TextIO

from pulsed.commands.top.session import TopSession
from pulsed.errors import PulsedError
from pulsed.terminal.ascii_marks import ascii_line
from pulsed.terminal.line import Line
from pulsed.terminal.model import Model
from pulsed.terminal.palette import Theme, escape_codes, palette
from pulsed.terminal.screen import render

ROUNDS = 2
"""Requests at most of each daemon: the second has what the view needs beside the first."""


class NothingAnswered(PulsedError):
    """None of the daemons has answered."""


def once(session: TopSession, out: TextIO, width: int, height: int, theme: Theme, *, ascii: bool, gpu: str) -> int:
    """Print one frame; return the exit code.

    Args:
        gpu: name of the GPU to select.

    Raises:
        NothingAnswered: with the first error.
    """
    for _ in range(ROUNDS):
        for feed in session.feeds:
            feed.poll()
        model = session.model()
        if gpu and (found := model.find(gpu)) is not None:
            session.view.selected = found.key
        session.request(model)
    if all(feed.answers.summary is None for feed in session.feeds):
        raise NothingAnswered(next(feed.answers.error for feed in session.feeds))
    lines = render(session.model(), session.view, width, height).lines
    while len(lines) > 1 and not lines[-2].text.strip():
        del lines[-2]
    paints = {name: escape_codes(paint) for name, paint in palette(theme).items()} if out.isatty() else {}
    for each in lines[:-1]:
        out.write(painted(ascii_line(each) if ascii else each, paints).rstrip() + "\n")
    return 0


def painted(line: Line, paints: dict[str, str]) -> str:
    """Return a line with escape sequences for its styles."""
    return "".join(
        f"\x1b[{codes}m{segment.text}\x1b[0m" if (codes := paints.get(segment.style, "")) else segment.text
        for segment in line
    )


def wait_for_gpus(session: TopSession, seconds: float) -> None:
    """Wait until an own source that has just been started has GPUs, or an error."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not _is_settled(session.model()):
        for feed in session.feeds:
            feed.poll()
        time.sleep(0.1)


def _is_settled(model: Model) -> bool:
    inner = [source for daemon in model.sources for source in daemon.sources]
    return bool(model.gpus) or any(source["error"] for source in inner) or any(each.error for each in model.sources)
