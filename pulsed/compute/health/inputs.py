"""The inputs of the rules of one GPU: its reading, followed by facts that are not part of a reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pulsed.compute.health.clock_events import ClockEvents
from pulsed.compute.health.xid_log import XidLog
from pulsed.translate.tick import Extras
from pulsed.translate.vocabulary import NOTHING, POSITION, Reading, Value

if TYPE_CHECKING:
    from pulsed.compute.health.settings import HealthSettings

ACTIVITY = "gpu_activity_ratio"
"""The larger of graphics engine activity and GPU utilization. It changes all the time and causes no evaluation."""

FACTS = (
    "sample_gap_intervals",
    "inputs_blank_ratio",
    "polls_missed",
    "inputs_age_seconds",
    "clock_event_hw_thermal",
    "clock_event_hw_power_brake",
    "xid_counts",
    "kernel_log",
    "health_watches",
    ACTIVITY,
)
"""Inputs that are not in a reading; the `clock_event` ones and `xid_counts` are
dcgm-exporter's own metrics; `kernel_log` is 1 while the kernel log is read."""

INPUT_POSITION: Mapping[str, int] = {name: position for position, name in enumerate((*POSITION, *FACTS))}
"""Index of an input in `GpuInputs.values`."""

_FACT = {name: number for number, name in enumerate(FACTS)}
_ENGINE, _UTILIZATION = POSITION["graphics_engine_active_ratio"], POSITION["gpu_utilization_ratio"]


class GpuInputs:
    """The current inputs of one GPU.

    Attributes:
        model: product name.
        severity_of: returns the severity of a check of this GPU by its id; -1 while it is unknown or disabled.
        values: the reading followed by `FACTS`, by `INPUT_POSITION`; call `refresh` before use.
        extras: dcgm-exporter's own metrics.
        measured_at: seconds of the GPU's clock when the reading was first seen; a repeated one is not another one.
        gap_seconds: time before this sample that no sample covers; 0 for none.
    """

    __slots__ = (
        "_facts",
        "clock_events",
        "extras",
        "gap_seconds",
        "measured_at",
        "model",
        "reading",
        "settings",
        "severity_of",
        "values",
        "xids",
    )

    def __init__(self, settings: HealthSettings, model: str, severity_of: Callable[[str], int]) -> None:
        self.settings = settings
        self.model = model
        self.severity_of = severity_of
        self.reading: Reading = NOTHING
        self.gap_seconds = self.measured_at = 0.0
        self.extras: Extras | None = None
        self.clock_events = ClockEvents()
        self.xids = XidLog()
        self._facts: list[Value] = [0.0, 0.0, 0.0, *[None] * (len(FACTS) - 3)]
        self.values: tuple[Value, ...] = (*NOTHING, *self._facts)

    def value(self, name: str) -> Value:
        """Return an input by name."""
        return self.values[INPUT_POSITION[name]]

    def set(self, fact: str, value: Value) -> bool:
        """Set a fact; return whether it changed."""
        number = _FACT[fact]
        if self._facts[number] == value:
            return False
        self._facts[number] = value
        return True

    def activity(self) -> Value:
        """Return how busy the GPU is, 0..1."""
        engine, utilization = self.reading[_ENGINE], self.reading[_UTILIZATION]
        if engine is None or utilization is None:
            return utilization if engine is None else engine
        return max(engine, utilization)

    def refresh(self) -> None:
        """Update `values` from the reading and the facts."""
        self._facts[-1] = self.activity()
        self.values = self.reading + tuple(self._facts)
