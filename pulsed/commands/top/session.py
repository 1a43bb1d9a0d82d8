"""The feeds and the view together: what the program around them, interactive or not, has in common."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pulsed.commands.top.feed import Feed, Gpu, HistoryWanted, Wanted
from pulsed.commands.top.model_reader import OwnCost, model_of
from pulsed.terminal.focus import HISTORY_FIELDS
from pulsed.terminal.model import GpuState, Model
from pulsed.terminal.plot import PLOT_FIELDS
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
