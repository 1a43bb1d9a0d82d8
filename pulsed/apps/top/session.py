"""The feeds and the view together: what keys and commands change, and one frame for a pipe."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping, Sequence
from itertools import chain
from math import inf
from typing import TextIO
from urllib.parse import urlencode

from pulsed.apps.top.feed import JOBS, SLOW_SECONDS, Feed, Wanted
from pulsed.errors import PulsedError
from pulsed.present.terminal.charts import PLOTS, SMALL_PLOTS
from pulsed.present.terminal.focus import HISTORY_FIELDS
from pulsed.present.terminal.frame import VIEWS, printed
from pulsed.present.terminal.lists import job_rows
from pulsed.present.terminal.model import Answers, FleetRow, Model, model_of
from pulsed.present.terminal.text import Theme
from pulsed.present.terminal.view_state import LAYOUTS, SORTS, FilterError, ViewState, gpu_filter

PLOTTED_GPUS = 64
"""Maximum number of GPUs of one daemon whose history is drawn: more lines cannot be read."""

POINTS = 120
"""Points of a history."""

ROUNDS = 2
"""Requests at most of each daemon for one frame: the second has what the view needs in addition to the first."""

OTHER_NAMES = {"focus": "gpu", "job": "work"}
"""Second names of views, as of commands of KempnerPulse."""

COMMANDS = ("sort", "filter", "q", "quit", "exit", *VIEWS, *OTHER_NAMES)
"""Names of commands; a beginning that only one of them has is enough."""


WINDOWS = (60.0, 300.0, 600.0, 1800.0, 3600.0, 21600.0, 86400.0)
"""Seconds of history to choose from."""

CHOICES: Mapping[str, Sequence[object]] = {
    "sort": SORTS,
    "layout": LAYOUTS,
    "reverse": (False, True),
    "paused": (False, True),
}
"""Values that a key cycles through, by the field of the view."""


class NothingAnswered(PulsedError):
    """None of the daemons has answered."""


class WrongCommand(ValueError):
    """A command, GPU, order or filter that does not exist."""


class TopSession:
    """Feeds and view.

    Args:
        gpu: name of the GPU to select as soon as it is there.

    Attributes:
        model: the last one read; while paused, the one of that moment.
    """

    def __init__(self, feeds: Sequence[Feed], view: ViewState, gpu: str = "") -> None:
        self.feeds, self.view, self.model = feeds, view, Model(0.0)
        self._gpu = gpu
        self._begun = time.monotonic()

    def update(self) -> Model:
        """Return the model now, and have the feeds read what the view needs."""
        if not self.view.paused:
            answers = [feed.answers for feed in self.feeds]
            now, memory = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            cost = time.process_time() / max(now - self._begun, 1.0), memory
            self.model = model_of(answers, now, time.time(), cost)
        if self._gpu and (gpu := self.model.find(self._gpu)) is not None:
            self.view.selected, self._gpu = gpu.key, ""
        shown = self.view.shown(self.model)
        current = self.view.current(shown)
        for number, feed in enumerate(self.feeds):
            gpus = [gpu for gpu in shown if gpu.source == number]
            feed.want(self._wanted(gpus, current, feed.answers, feed.interval))
        return self.model

    def _wanted(
        self, gpus: list[FleetRow], current: FleetRow | None, answers: Answers, interval: float
    ) -> dict[str, Wanted]:
        view = self.view
        if view.view == "events":
            return {"incidents": Wanted("/events/incidents"), "events": Wanted("/events/recent?limit=300")}
        if view.view == "work":
            return {"jobs": Wanted(JOBS, SLOW_SECONDS), "processes": Wanted("/processes", SLOW_SECONDS)}
        wanted: dict[str, Wanted] = {}
        fields = [*chain(*{"fleet": SMALL_PLOTS, "plot": PLOTS}.get(view.view, ()))]
        if view.view == "gpu" and current is not None and current in gpus:
            wanted = {"detail": Wanted(current.path()), "class": Wanted(current.path("/class"))}
            wanted["catalog"] = Wanted("/catalog", inf)
            gpus, fields = [current], ["workload_class", *HISTORY_FIELDS]
        kept = [name for name in fields if name in answers.get("config", "history", {}).get("fields", ())]
        if kept and gpus:
            plotted = sorted(gpus, key=lambda gpu: gpu is not current)[:PLOTTED_GPUS]
            nodes, names = {gpu.node for gpu in plotted}, sorted({gpu.name for gpu in plotted})
            query = {"gpu": ",".join(names), "fields": ",".join(kept), "seconds": f"{view.window:g}", "points": POINTS}
            query |= {"node": nodes.pop()} if len(nodes) == 1 else {}
            path = f"/history?{urlencode(query, safe=',')}"
            wanted["history"] = Wanted(path, max(view.window / POINTS, interval))
        return wanted

    def open(self, view: str) -> None:
        """Show a view from its beginning."""
        self.view.view, self.view.event, self.view.report = view, 0, ""

    def back(self) -> bool:
        """Leave a report, or return to Fleet, or clear the filter there; return whether there was nothing to leave."""
        view, is_fleet = self.view, self.view.view == "fleet"
        is_over = is_fleet and not view.filter
        if view.report:
            view.report = ""
        else:
            view.filter = "" if is_fleet else view.filter
            self.open("fleet")
        return is_over

    def enter(self) -> None:
        """Open the selected GPU, or the report of the selected owner, as `pulsed job` prints it."""
        if self.view.view in ("fleet", "plot"):
            self.open("gpu")
        elif self.view.view == "work" and (rows := [*job_rows(self.model, self.view)]):
            from pulsed.owners.report.job_report import job_report  # with its imports, which no other view needs

            job = rows[min(self.view.event, len(rows) - 1)].job
            try:
                self.view.report = "" if job is None else job_report(job)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise WrongCommand(f"the daemon's answer may be of another version: {error!r}") from None

    def next(self, name: str) -> None:
        """Change the order or the layout of GPUs, or pause: the field of the view has its next value."""
        values = CHOICES[name]
        setattr(self.view, name, values[(values.index(getattr(self.view, name)) + 1) % len(values)])

    def zoom(self, steps: int) -> None:
        """Show a longer or shorter time."""
        nearest = min(range(len(WINDOWS)), key=lambda at: abs(WINDOWS[at] - self.view.window))
        self.view.window = WINDOWS[max(0, min(nearest + steps, len(WINDOWS) - 1))]

    def move(self, count: int) -> bool:
        """Select the GPU, change or owner that many places further; return whether the view has any to select."""
        _, rows, is_list = VIEWS[self.view.view]
        if rows is None or self.view.report:
            return False
        found = [*rows(self.model, self.view)]
        place = max(0, min((self.view.event if is_list else self.view.place(found)) + count, len(found) - 1))
        if is_list:
            self.view.event = place
        elif found:
            self.view.selected = found[place].key
        return True

    def click(self, key: str) -> None:
        """Select a GPU, or open it if it is the selected one."""
        if key == self.view.selected:
            self.open("gpu")
        self.view.selected = key

    def set_filter(self, text: str) -> None:
        """Set the filter.

        Raises:
            WrongCommand: it cannot be parsed.
        """
        if not VIEWS[self.view.view].is_list:
            try:
                gpu_filter(text)
            except FilterError as error:
                raise WrongCommand(f"filter: {error}") from None
        self.view.filter, self.view.event = text.strip(), 0

    def run(self, text: str) -> bool:
        """Run a command without its colon; return whether the program ends.

        Raises:
            WrongCommand: it does not exist.
        """
        name, _, argument = (part.strip() for part in text.strip().partition(" "))
        matches = [each for each in COMMANDS if name == each] or [
            each for each in COMMANDS if name and each.startswith(name)
        ]
        if name and len(matches) != 1:
            raise WrongCommand(f"there is no command {name!r}; ? lists all")
        match "".join(matches):
            case "gpu" | "focus":
                gpu = self.model.find(argument)
                if argument and gpu is None:
                    raise WrongCommand(f"there is no GPU {argument!r}")
                if gpu is not None:
                    self.view.selected, self.view.filter = gpu.key, ""
                self.open("gpu")
            case "sort":
                if argument not in SORTS:
                    raise WrongCommand(f"there is no order {argument!r}; there are {', '.join(SORTS)}")
                self.view.sort = argument
            case "filter":
                self.set_filter(argument)
            case "q" | "quit":
                return self.back()
            case "exit":
                return True
            case "":
                pass
            case view:
                self.open(OTHER_NAMES.get(view, view))
        return False

    def print_once(self, out: TextIO, size: tuple[int, int], theme: Theme, *, ascii: bool, wait: float = 0.0) -> None:
        """Print one frame.

        Args:
            wait: seconds for a local source that has just been started to have GPUs, or an error.

        Raises:
            NothingAnswered: with the first error; also after a frame without a GPU.
        """
        deadline, rounds, model = time.monotonic() + wait, 0, self.model
        while rounds < ROUNDS:
            for feed in self.feeds:
                feed.poll()
            model = self.update()
            if all(daemon.error and not daemon.documents for daemon in model.daemons):
                break
            has_errors = any(daemon.error for daemon in model.daemons) or any(each["error"] for each in model.sources)
            if model.gpus or has_errors or time.monotonic() > deadline:
                rounds += 1
            else:
                time.sleep(0.1)
        if not any("summary" in daemon.documents for daemon in model.daemons):
            raise NothingAnswered(self.feeds[0].answers.error)
        out.write(printed(model, self.view, size, theme, ascii=ascii, is_terminal=out.isatty()))
        if not model.gpus:
            errors = [source["error"] for source in model.sources if source["error"]]
            raise NothingAnswered(errors[0] if errors else "there is no GPU")
