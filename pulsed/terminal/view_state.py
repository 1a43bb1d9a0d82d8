"""What a person has chosen to see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from pulsed.terminal.gpu_filter import gpu_filter
from pulsed.terminal.line import Line
from pulsed.terminal.model import GpuState, Model, ratio

ViewName = Literal["fleet", "focus", "plot", "job", "events", "sources", "help"]
VIEWS: tuple[ViewName, ...] = ("fleet", "focus", "plot", "job", "events", "sources", "help")
"""In the order of the keys `1` to `7`."""

Layout = Literal["auto", "cards", "rows"]
LAYOUTS: tuple[Layout, ...] = ("auto", "cards", "rows")

_HEALTH = {"crit": 4, "hot": 3, "warn": 2, "info": 1, "ok": 0}

_SORTS: Mapping[str, Callable[[GpuState], float]] = {
    "ru": lambda gpu: _largest(gpu.last("real_utilization_ratio")),
    "power": lambda gpu: _largest(gpu.last("power_watts")),
    "memory": lambda gpu: _largest(ratio(gpu.last("memory_used_bytes"), gpu.last("memory_bytes"))),
    "temperature": lambda gpu: _largest(gpu.last("temperature_celsius")),
    "health": lambda gpu: -_HEALTH.get(gpu.health, 0),
    "waste": lambda gpu: {"held": -2, "idle": -1}.get(gpu.use, 0) + (gpu.last("real_utilization_ratio") or 0.0),
}
SORTS: tuple[str, ...] = ("index", *_SORTS)
"""Orders of GPUs; `waste` has idle GPUs with an owner first."""


def _largest(value: float | None) -> float:
    return inf if value is None else -value


@dataclass(slots=True)
class ViewState:
    """Which view is shown, and how.

    Attributes:
        selected: key of the selected GPU; empty for the first.
        filter: as in `gpu_filter`.
        scroll: lines or events that are scrolled off above.
        prompt: the command or filter that is being entered, with its `:` or `/`; None for none.
        message: in the last line until the next key.
        window: seconds of history.
    """

    view: ViewName = "fleet"
    layout: Layout = "auto"
    selected: str = ""
    filter: str = ""
    sort: str = "index"
    reverse: bool = False
    paused: bool = False
    scroll: int = 0
    prompt: str | None = None
    message: str = ""
    window: float = 600.0
    gpus: frozenset[str] = field(default_factory=frozenset)

    def shown(self, model: Model) -> list[GpuState]:
        """Return the GPUs that pass the filter, in order."""
        test = gpu_filter(self.filter)
        found = [gpu for gpu in model.gpus if (not self.gpus or self._is_wanted(gpu)) and test(gpu)]
        if self.sort in _SORTS:
            found.sort(key=_SORTS[self.sort])
        return found[::-1] if self.reverse else found

    def current(self, gpus: Sequence[GpuState]) -> GpuState | None:
        """Return the selected GPU; the first if it is not among them."""
        return next((gpu for gpu in gpus if gpu.key == self.selected), gpus[0] if gpus else None)

    def scrolled(self, lines: list[Line], height: int) -> list[Line]:
        """Return the lines in sight if `height` of them are; the last page is full."""
        first = max(min(self.scroll, len(lines) - height), 0)
        return lines[first : first + height]

    def _is_wanted(self, gpu: GpuState) -> bool:
        return not self.gpus.isdisjoint((gpu.name, gpu.gpu, gpu.uuid, f"{gpu.node}:{gpu.name}"))
