"""The feeds and the view together: what the program around them, interactive or not, has in common."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Sequence
from typing import TextIO

from pulsed.apps.top.feed import Feed, HistoryWanted, Wanted
from pulsed.errors import PulsedError
from pulsed.present.terminal.charts import PLOT_FIELDS
from pulsed.present.terminal.focus import HISTORY_FIELDS
from pulsed.present.terminal.line import Line, Theme, ascii_line, escape_codes, palette
from pulsed.present.terminal.model import Gpu, GpuRow, Model, model_of
from pulsed.present.terminal.screen import render
from pulsed.present.terminal.view_state import ViewState

POINTS = 240
PLOTTED_GPUS = 64
"""GPUs of one daemon at most whose history is drawn: more lines are no picture."""

ROUNDS = 2
"""Requests at most of each daemon for one frame: the second has what the view needs beside the first."""


class NothingAnswered(PulsedError):
    """None of the daemons has answered."""


class TopSession:
    """Feeds and view.

    Args:
        feeds: of the daemons.
        view: what is shown.
        gpu: name of the GPU to select as soon as it is there.
    """

    def __init__(self, feeds: Sequence[Feed], view: ViewState, gpu: str = "") -> None:
        self.feeds, self.view = feeds, view
        self._gpu = gpu
        self._cost = OwnCost()
        self._frozen: Model | None = None

    def model(self) -> Model:
        """Return the model now; while paused the one at that moment."""
        if self.view.paused and self._frozen is not None:
            return self._frozen
        answers = [feed.answers for feed in self.feeds]
        model = model_of(answers, time.monotonic(), time.time(), self._cost.measure())
        self._frozen = model if self.view.paused else None
        return model

    def request(self, model: Model) -> None:
        """Select the GPU to open, and have the feeds read what the view needs."""
        view = self.view
        if self._gpu and (found := model.find(self._gpu)) is not None:
            view.selected, self._gpu = found.key, ""
        shown = view.shown(model)
        current = view.current(shown)
        for number, feed in enumerate(self.feeds):
            mine = [gpu for gpu in shown if gpu.source == number]
            selected = current if current is not None and current.source == number else None
            detail = Gpu(selected.node, selected.name) if selected is not None and view.view == "focus" else None
            history = self._history(mine, detail, selected)
            feed.want(Wanted(detail, history, view.view == "events", view.view == "job"))

    def _history(self, mine: list[GpuRow], detail: Gpu | None, selected: GpuRow | None) -> HistoryWanted | None:
        if detail is not None:
            return HistoryWanted((detail,), ("workload_class", *HISTORY_FIELDS), self.view.window, POINTS)
        if self.view.view != "plot" or not mine:
            return None
        mine.sort(key=lambda gpu: gpu is not selected)
        gpus = {Gpu(gpu.node, gpu.name) for gpu in mine[:PLOTTED_GPUS]}
        return HistoryWanted(tuple(sorted(gpus)), PLOT_FIELDS, self.view.window, POINTS)

    def print_once(self, out: TextIO, width: int, height: int, theme: Theme, *, ascii: bool) -> None:
        """Print one frame.

        Raises:
            NothingAnswered: with the first error; also after a frame without a GPU.
        """
        for _ in range(ROUNDS):
            for feed in self.feeds:
                feed.poll()
            self.request(self.model())
        if all(feed.answers.summary is None for feed in self.feeds):
            raise NothingAnswered(self.feeds[0].answers.error)
        model = self.model()
        lines = render(model, self.view, width, height).lines[:-1]
        while len(lines) > 1 and not lines[-1].text.strip():
            del lines[-1]
        paints = {name: escape_codes(paint) for name, paint in palette(theme).items()} if out.isatty() else {}
        for each in lines:
            out.write(painted(ascii_line(each) if ascii else each, paints).rstrip() + "\n")
        if not model.gpus:
            errors = [source["error"] for daemon in model.daemons for source in daemon.sources if source["error"]]
            raise NothingAnswered(errors[0] if errors else "there is no GPU")

    def wait_for_gpus(self, seconds: float) -> None:
        """Wait until an own source that has just been started has GPUs, or an error."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not _is_settled(self.model()):
            for feed in self.feeds:
                feed.poll()
            time.sleep(0.1)


def painted(line: Line, paints: dict[str, str]) -> str:
    """Return a line with escape sequences for its styles."""
    return "".join(f"\x1b[{codes}m{text}\x1b[0m" if (codes := paints.get(style, "")) else text for text, style in line)


def _is_settled(model: Model) -> bool:
    errors = [source["error"] for daemon in model.daemons for source in daemon.sources]
    return bool(model.gpus) or any(errors) or any(daemon.error for daemon in model.daemons)


class OwnCost:
    """CPU and memory of this process, since the measurement before."""

    def __init__(self) -> None:
        self._before = time.monotonic(), time.process_time()
        self._share = 0.0

    def measure(self) -> tuple[float, int]:
        """Return the share of a core over the last seconds, and resident bytes."""
        now, used = time.monotonic(), time.process_time()
        elapsed = now - self._before[0]
        if elapsed >= 2.0:
            self._share, self._before = (used - self._before[1]) / elapsed, (now, used)
        return self._share, _resident_bytes()


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
