"""Freshness of the inputs of one GPU, decided once per sample: by the tracker, for all stages.

A sample repeats the one before where a source is read more often than it measures, or where nothing changed. It is
stale once a value has been constant that never is: the source repeats old values.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Literal

from pulsed.compute.plausibility.rules import ACTIVITY, MIN_FRACTIONAL, POWERS, UTILIZATIONS, PlausibilitySettings
from pulsed.model.vocabulary import NOTHING, POSITION, Reading, Value

VITAL = (
    "temperature_celsius",
    "power_watts",
    "gpu_utilization_ratio",
    "sm_clock_hertz",
    "memory_used_bytes",
    "graphics_engine_active_ratio",
    "energy_joules_total",
)
"""A GPU without any of these does not answer; settings and limits may come from a cache."""

InputState = Literal["present", "repeated", "blank", "stale"]

FRESH_SECONDS = 10.0
FRESH_INTERVALS = 3.0
"""Inputs are fresh for this long without a vital value; the longer of the two counts."""

BUSY_WATTS = 100.0
"""No GPU draws this much for minutes without a change in its power."""

_vital = itemgetter(*(POSITION[name] for name in VITAL))
_activity = itemgetter(*(POSITION[name] for name in (*ACTIVITY, *UTILIZATIONS)))
_powers = itemgetter(*(POSITION[name] for name in POWERS))


class Freshness:
    """Freshness of the inputs of one GPU.

    Attributes:
        state: of the newest sample. `present`: it has vital values, and differs from the sample before; `repeated`: it
            does not differ; `stale`: repeated until its values are certainly old; `blank`: it has no vital value.
        age: seconds since its vital values were current; None if there never were any.
        refresh: seconds between the last two samples that differ; None before two of them.
        is_fresh: whether `age` is short enough to rely on the inputs.
    """

    __slots__ = ("_counts_energy", "_current", "_last", "_samples", "_since", "age", "is_fresh", "refresh", "state")

    def __init__(self) -> None:
        self.state: InputState = "blank"
        self.age: Value = None
        self.refresh: Value = None
        self.is_fresh = False
        self._last = NOTHING
        self._since = self._current = 0.0
        self._samples = 0
        self._counts_energy = False

    @property
    def is_answered(self) -> bool:
        """Whether the GPU answered in the newest sample."""
        return self.state == "present" or self.state == "repeated"

    @property
    def is_same_measurement(self) -> bool:
        """Whether the newest sample was measured when the one before was: not even the energy counter has moved."""
        return self._counts_energy and self.state in ("repeated", "stale")

    def update(self, reading: Reading, now: float, interval: float, settings: PlausibilitySettings) -> None:
        """Take the next sample.

        Args:
            reading: as read; all None for a GPU that is in no sample.
            now: seconds of the GPU's clock, gaps included.
            interval: nominal seconds between two samples.
            settings: how long constant values may last.
        """
        last = self._last
        if reading != last:
            if _vital(reading) == _NO_VITAL:
                self.state = "blank"
            else:
                self.state = "present"
                if last is not NOTHING:
                    self.refresh = now - self._since
                    before, energy = last.energy_joules_total, reading.energy_joules_total
                    if before is not None and energy is not None and energy > before:
                        self._counts_energy = True
                self._last, self._since, self._samples = reading, now, 1
        elif last is not NOTHING:
            self._samples += 1
            if self.state != "stale":
                self.state = "stale" if self._is_stale(now, settings) else "repeated"
        if self.state == "present" or self.state == "repeated":
            self._current, self.age, self.is_fresh = now, 0.0, True
        elif self.age is not None:
            self.age = now - (self._since if self.state == "stale" else self._current)
            self.is_fresh = self.state == "blank" and self.age <= max(FRESH_SECONDS, FRESH_INTERVALS * interval)

    def _is_stale(self, now: float, settings: PlausibilitySettings) -> bool:
        return (
            settings.enabled
            and self._samples >= settings.frozen_samples
            and now - self._since >= settings.frozen_seconds
            and (self._is_energy_frozen() or _is_frozen(self._last))
        )

    def _is_energy_frozen(self) -> bool:
        """Return whether the energy counter would have moved: it did before, or the GPU is not idle."""
        last = self._last
        if not last.energy_joules_total or not last.power_watts:
            return False
        return self._counts_energy or last.power_watts >= BUSY_WATTS or any(_activity(last))


def _is_frozen(reading: Reading) -> bool:
    """Return whether activity and a value that is never constant, energy or fractions of a watt, cannot repeat."""
    restless = bool(reading.energy_joules_total) or any(
        value is not None and value % 1.0 != 0.0 for value in _powers(reading)
    )
    return restless and fractional(reading) >= MIN_FRACTIONAL


def fractional(reading: Reading) -> int:
    """Return the number of activity values other than 0 and 1."""
    return sum(value is not None and 0.0 < value < 1.0 for value in _activity(reading)[: len(ACTIVITY)])


_NO_VITAL = _vital(NOTHING)
