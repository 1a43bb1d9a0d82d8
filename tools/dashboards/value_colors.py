"""Texts and colours of values: states by number, and limits of quantities."""

from __future__ import annotations

from collections.abc import Sequence

from pulsed.compute.saturation import LIMITING_RESOURCES
from pulsed.compute.workload import BOTTLENECK_STATES as BOTTLENECKS
from pulsed.model.health import SEVERITY
from pulsed.model.vocabulary import WORKLOAD_CLASSES
from tools.dashboards.model import Limits, State

USE: Limits = ((None, "red"), (0.2, "orange"), (0.5, "green"))
"""Real utilization."""

BAD_FROM_ONE: Limits = ((None, "green"), (1.0, "red"))
"""Numbers of faults."""

UNKNOWN_FROM_ONE: Limits = ((None, "green"), (1.0, "#8e8e8e"))
"""Numbers of what is not known, which is no fault."""


def _states(words: Sequence[str], colors: Sequence[str]) -> tuple[State, ...]:
    return tuple(State(value, word, color) for value, (word, color) in enumerate(zip(words, colors, strict=True)))


_SEVERITY_COLORS = ("#8e8e8e", "green", "blue", "yellow", "orange", "red")
SEVERITIES = tuple(
    State(value, state, color) for (state, value), color in zip(SEVERITY.items(), _SEVERITY_COLORS, strict=True)
)
"""How `pulsed_gpu_health_severity` and `pulsed_gpu_health_check` read."""

CLASSES = _states(
    WORKLOAD_CLASSES,
    (
        *("#6e7681", "#7c2bd9", "#a352f0", "#e02f9b", "#f2cc0c", "#3274d9", "#1a7f37"),
        *("#56a64b", "#6ca4f0", "#ff9830", "#c7b28a", "#8ab8a8", "#d0d0d0"),
    ),
)
"""How `state_number` of the workload class reads."""

RESOURCES = _states(
    LIMITING_RESOURCES,
    (
        *("#a352f0", "#e02f9b", "#56a64b", "#1a7f37", "#8ab8a8", "#3274d9", "#f2cc0c", "#ff9830", "#c7b28a"),
        *("#6e7681", "#d0d0d0"),
    ),
)
BOTTLENECK = _states(BOTTLENECKS, ("#6e7681", "#a352f0", "#f2cc0c", "#3274d9", "#8ab8a8", "#d0d0d0"))
IDLE = (State(0, "free", "green"), State(1, "held", "orange"), State(2, "unknown", "#d0d0d0"))
UP = (State(0, "down", "red"), State(1, "up", "green"))
