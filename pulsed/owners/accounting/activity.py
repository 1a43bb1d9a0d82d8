"""Activity of a GPU while an owner had it: mean and spread of quantities, extremes, pauses, and the course of real
utilization.

All take bounded memory, at constant cost per sample. A sample without a quantity adds nothing to that quantity, so
that its covered time is known.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from operator import itemgetter
from typing import Any

from pulsed.compute.activity import media_of
from pulsed.compute.saturation import mfu_ratio
from pulsed.model.clocks import Unix
from pulsed.model.result import Result
from pulsed.model.vocabulary import POSITION, Reading, Value

MEASURED = ("sm_active_ratio", "sm_occupancy_ratio", "tensor_active_ratio", "dram_active_ratio", "power_watts")
MOMENTS = ("real_utilization_ratio", *MEASURED, "mfu_ratio")
"""Quantities with sums."""

MAX_SUM = 1e40
"""Limit of sums in files: finite with room."""

_readings = itemgetter(*(POSITION[name] for name in MEASURED))


class Moments:
    """Sums over time of each of `MOMENTS`: seconds in which it was present, its integral, and its square's integral."""

    __slots__ = ("sums",)

    def __init__(self) -> None:
        self.sums = [0.0] * (3 * len(MOMENTS))

    def add_sample(self, reading: Reading, result: Result, seconds: float) -> None:
        """Take a sample, which covers some seconds."""
        sums, at = self.sums, 0
        for value in (result.real_utilization.ratio.value, *_readings(reading), mfu_ratio(reading, result)):
            if value is not None and 0.0 <= value < inf:
                integral = value * seconds
                sums[at] += seconds
                sums[at + 1] += integral
                sums[at + 2] += value * integral
            at += 3

    def include(self, other: Moments, share: float) -> None:
        """Add a share of the sums of other samples."""
        self.sums = [a + share * b for a, b in zip(self.sums, other.sums, strict=True)]

    def sums_of(self, name: str) -> tuple[float, float, float]:
        """Return the sums of one quantity."""
        at = 3 * MOMENTS.index(name)
        return self.sums[at], self.sums[at + 1], self.sums[at + 2]

    def dump(self) -> dict[str, tuple[float, float, float]]:
        """Return the sums for a file, by name, without quantities that were never present."""
        return {name: sums for name in MOMENTS if (sums := self.sums_of(name))[0] > 0.0}

    @classmethod
    def load(cls, saved: Mapping[str, Iterable[float]]) -> Moments:
        """Return sums from a file; names that are not in `MOMENTS` are ignored."""
        moments = cls()
        moments.sums = [number for name in MOMENTS for number in saved.get(name, (0.0, 0.0, 0.0))]
        return moments


BUCKETS = 64


class Timeline:
    """The real utilization of all GPUs of an owner over its life, in `BUCKETS` that become wider by and by.

    Attributes:
        width: seconds of a bucket; 0 before the first sample.
        seconds: GPU seconds with known real utilization, by bucket.
        integral: of real utilization over these.
    """

    __slots__ = ("integral", "seconds", "width")

    def __init__(self, width: float = 0.0) -> None:
        self.width = width
        self.seconds, self.integral = array("d", bytes(8 * BUCKETS)), array("d", bytes(8 * BUCKETS))

    def add(self, at: float, seconds: float, gpu_seconds: float, ratio: float) -> None:
        """Add a sample of `seconds` that ends `at` seconds after the begin of its owner; shared GPUs count in part."""
        if not self.width:
            self.width = max(2.0 * seconds, 1.0)  # no bucket without a sample between two samples
        while at >= BUCKETS * self.width:
            self.seconds, self.integral = _halved(self.seconds), _halved(self.integral)
            self.width *= 2.0
        bucket = int(at / self.width)
        self.seconds[bucket] += gpu_seconds
        self.integral[bucket] += gpu_seconds * ratio

    @property
    def buckets(self) -> list[tuple[float, float]]:
        """GPU seconds and integral by bucket, up to the last one with a sample."""
        length = max((at + 1 for at, seconds in enumerate(self.seconds) if seconds > 0.0), default=0)
        return list(zip(self.seconds[:length], self.integral[:length], strict=True))

    def dump(self) -> dict[str, Any]:
        """Return it for a file, in milliseconds, as most of an account's bytes would be digits."""
        return {"width": self.width, "buckets": [[round(number, 3) for number in pair] for pair in self.buckets]}

    @classmethod
    def load(cls, width: float, buckets: Sequence[tuple[float, float]]) -> Timeline:
        """Return it from a file; buckets beyond `BUCKETS` are ignored."""
        timeline = cls(width)
        for at, (seconds, integral) in enumerate(buckets[:BUCKETS]):
            timeline.seconds[at], timeline.integral[at] = seconds, integral
        return timeline


def _halved(buckets: array[float]) -> array[float]:
    """Return the buckets merged in pairs, and as many empty ones."""
    return array("d", [a + b for a, b in zip(buckets[::2], buckets[1::2], strict=True)]) + array(
        "d", bytes(4 * BUCKETS)
    )


WORKING_DRAM_RATIO = 0.02
"""More DRAM activity is work: kernels that wait in a collective spin on flags, and an idle GPU has none."""

WARM_UP_SECONDS = 300.0
"""Pauses of a program that has worked for less belong to its start: compilation, loading, first requests."""

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
        longest_pause: seconds of the longest pause that ended, without pauses of the warm-up.
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
    last_work: Unix | None = None
    last_sample: Unix | None = None

    def add_sample(self, reading: Reading, seconds: float, time: Unix, *, is_idle: bool) -> None:
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
