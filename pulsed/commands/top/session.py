"""The feeds and the view together: what the program around them, interactive or not, has in common."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Sequence
from typing import TextIO

from pulsed.commands.top.feed import Answers, Feed, Gpu, HistoryWanted, Wanted
from pulsed.errors import PulsedError
from pulsed.terminal.focus import HISTORY_FIELDS
from pulsed.terminal.line import Line, ascii_line
from pulsed.terminal.model import DaemonState, Document, GpuHistory, GpuState, Model, gpu_states, means, seconds_of
from pulsed.terminal.palette import Theme, escape_codes, palette
from pulsed.terminal.plot import PLOT_FIELDS
from pulsed.terminal.screen import render
from pulsed.terminal.view_state import ViewState

POINTS = 240
PLOTTED_GPUS = 64
"""GPUs of one daemon at most whose history is drawn: more lines are no picture."""


class TopSession:
    """Feeds and view.

    Args:
        feeds: of the daemons.
        view: what is shown.
    """

    def __init__(self, feeds: Sequence[Feed], view: ViewState) -> None:
        self.feeds, self.view = feeds, view
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
        """Have the feeds read what the view needs."""
        view = self.view
        shown = view.shown(model)
        current = view.current(shown)
        for number, feed in enumerate(self.feeds):
            mine = [gpu for gpu in shown if gpu.source == number]
            detail = current if current is not None and current.source == number and view.view == "focus" else None
            feed.want(
                Wanted(
                    None if detail is None else _name(detail),
                    self._history(mine, detail, current),
                    view.view == "events",
                    view.view == "job",
                )
            )

    def _history(
        self, mine: Sequence[GpuState], detail: GpuState | None, current: GpuState | None
    ) -> HistoryWanted | None:
        if detail is not None:
            fields = ("workload_class", *HISTORY_FIELDS)
            return HistoryWanted((_name(detail),), fields, self.view.window, POINTS)
        if self.view.view != "plot" or not mine:
            return None
        chosen = [gpu for gpu in mine if gpu is current]
        others = [gpu for gpu in mine if gpu is not current][: PLOTTED_GPUS - len(chosen)]
        gpus = sorted({_name(gpu) for gpu in (*chosen, *others)})
        return HistoryWanted(tuple(gpus), PLOT_FIELDS, self.view.window, POINTS)


def _name(gpu: GpuState) -> Gpu:
    return Gpu(gpu.node, gpu.name)


def model_of(
    all_answers: Sequence[Answers], now: float, wall_time: float, cost: tuple[float, int] | None = None
) -> Model:
    """Return the model at `now` monotonic seconds, which is `wall_time`."""
    gpus: list[GpuState] = []
    details: dict[str, Document] = {}
    history: dict[str, GpuHistory] = {}
    processes: dict[int, tuple[Document, ...] | None] = {}
    reasons: dict[str, Document] = {}
    events: list[Document] = []
    jobs: list[Document] = []
    for number, answers in enumerate(all_answers):
        mine = _gpus(number, answers, now)
        gpus += mine
        by_name = {Gpu(gpu.node, gpu.name): gpu.key for gpu in mine}
        details |= {by_name[gpu]: document for gpu, document in answers.details.items() if gpu in by_name}
        reasons |= {by_name[gpu]: document for gpu, document in answers.class_reasons.items() if gpu in by_name}
        history |= _history(answers, mine)
        processes[number] = answers.processes
        events += [{**each, "source": number} for each in answers.events]
        jobs += [{**each, "source": number} for each in answers.jobs]
    if len(all_answers) > 1:
        events.sort(key=lambda event: -seconds_of(event["time"]))
    sources = [_source(answers, now) for answers in all_answers]
    return Model(
        wall_time, tuple(gpus), tuple(sources), details, history, tuple(events), tuple(jobs), processes, reasons, cost
    )


def _gpus(number: int, answers: Answers, now: float) -> list[GpuState]:
    if answers.summary is None or answers.arrived is None:
        return []
    return gpu_states(number, answers.summary, max(now - answers.arrived, 0.0), answers.before)


def _history(answers: Answers, gpus: Sequence[GpuState]) -> dict[str, GpuHistory]:
    if answers.history is None:
        return {}
    keys = {(gpu.node, gpu.gpu, gpu.mig_id): gpu.key for gpu in gpus}
    times = tuple(answers.history["time"])
    found = {}
    for each in answers.history["gpus"]:
        key = keys.get((each["node"], each["gpu"], each["mig_id"] or ""))
        if key is not None:
            found[key] = GpuHistory(times, means(each))
    return found


def _source(answers: Answers, now: float) -> DaemonState:
    summary = answers.summary or {}
    return DaemonState(
        answers.label,
        answers.error,
        None if answers.arrived is None else max(now - answers.arrived, 0.0),
        summary.get("node", ""),
        answers.version,
        tuple(summary.get("sources", ())),
        answers.host,
        answers.seconds,
    )


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
