"""Extremes of what a GPU did while an owner had it, its idle runs, and its pauses from work."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from pulsed.compute.activity import media_of
from pulsed.model.vocabulary import Reading, Value

WORKING_DRAM_RATIO = 0.02
"""More DRAM activity is work: kernels that wait in a collective spin on flags, and an idle GPU has none."""

WARM_UP_SECONDS = 300.0
"""Pauses of a program that has worked for less are those of its start: compilation, loading, first requests."""

LONG_PAUSE_SECONDS = 30.0
"""Shorter pauses are those between steps of a program that works."""


@dataclass(slots=True)
class Extremes:
    """Extremes of samples, and the current run of idle ones.

    Attributes:
        idle_run: seconds of idle samples at the end.
        longest_idle: seconds of the longest run of idle samples.
        media_active: integral of the activity of the busiest media engine, in seconds.
        worked: seconds of samples with more DRAM activity than `WORKING_DRAM_RATIO`; others are a pause.
        pause: seconds of the pause at the end.
        longest_pause: seconds of the longest pause that ended, without those of the warm-up.
        waits: how many such pauses took `LONG_PAUSE_SECONDS` or more.
        waited: seconds of these.
        last_work: Unix time of the last sample outside a pause.
        last_sample: Unix time of the newest sample that shows whether it works.
    """

    memory_used_bytes: Value = None
    power_watts: Value = None
    temperature_celsius: Value = None
    samples: int = 0
    idle_run: float = 0.0
    longest_idle: float = 0.0
    media_active: float = 0.0
    worked: float = 0.0
    pause: float = 0.0
    longest_pause: float = 0.0
    waits: int = 0
    waited: float = 0.0
    last_work: Value = None
    last_sample: Value = None

    def add_sample(self, reading: Reading, seconds: float, time: float, *, is_idle: bool) -> None:
        """Add a sample at a Unix time; a sample that covers no time is ignored."""
        if seconds <= 0.0:
            return
        self.samples += 1
        self._raise_peaks(reading)
        self.media_active += media_of(reading) * seconds
        self.idle_run = self.idle_run + seconds if is_idle else 0.0
        self.longest_idle = max(self.longest_idle, self.idle_run)
        if (dram := reading.dram_active_ratio) is None:
            return
        self.last_sample = time
        if dram <= WORKING_DRAM_RATIO:
            self.pause += seconds
            return
        self.worked += seconds
        self.last_work = time
        if self.pause:
            self.longest_pause = max(self.longest_pause, self.pause)
            if self.pause >= LONG_PAUSE_SECONDS:
                self.waits, self.waited = self.waits + 1, self.waited + self.pause
            self.pause = 0.0

    def add_memory(self, used: Value) -> None:
        """Take the memory that one of several owners uses in a sample."""
        self.memory_used_bytes = _peak(self.memory_used_bytes, used)

    def next_segment(self) -> Extremes:
        """Return the state to which later samples are added, with the unfinished runs."""
        return Extremes(idle_run=self.idle_run, longest_idle=self.longest_idle, pause=self.pause)

    def include(self, other: Extremes) -> None:
        """Include the extremes of later samples."""
        self.samples += other.samples
        self.last_sample = self.last_sample if other.last_sample is None else other.last_sample
        self.last_work = self.last_work if other.last_work is None else other.last_work
        self.media_active += other.media_active
        self._raise_peaks(other)
        self.idle_run, self.longest_idle = other.idle_run, max(self.longest_idle, other.longest_idle)
        if self.worked >= WARM_UP_SECONDS:
            self.longest_pause = max(self.longest_pause, other.longest_pause)
            self.waits, self.waited = self.waits + other.waits, self.waited + other.waited
        self.worked += other.worked
        self.pause = other.pause

    def _raise_peaks(self, peaks: Reading | Extremes) -> None:
        self.memory_used_bytes = _peak(self.memory_used_bytes, peaks.memory_used_bytes)
        self.power_watts = _peak(self.power_watts, peaks.power_watts)
        self.temperature_celsius = _peak(self.temperature_celsius, peaks.temperature_celsius)


def _peak(before: Value, now: Value) -> Value:
    """Return the larger one; a value that is not above 0 and finite does not count."""
    return now if now is not None and (before or 0.0) < now < inf else before
