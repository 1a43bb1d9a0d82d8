"""Sums of one GPU over time: its share of time with reduced clocks, by reason; increases of counters within a window,
across resets and misread values; and time in each state of its health."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from pulsed.compute.sample import ROUNDING, has_passed
from pulsed.durations import MINUTE
from pulsed.model.clocks import GPU_NEVER, GpuSeconds
from pulsed.model.health import STATES, State
from pulsed.model.vocabulary import Reading

SW_THERMAL_BIT, HW_THERMAL_BIT, POWER_BRAKE_BIT, UNNAMED_BIT = 0x20, 0x40, 0x80, 0x10000
"""Bits of `clocks_event_reasons`; the last is pulsed's own: a hardware slowdown of a busy GPU that no other bit
explains, or one of NVML's newer reasons board limit (0x200) and reliability (0x400)."""

PART = 5.0
"""Seconds of a part of the window: shares move in such steps."""

MAX_WINDOW = 600.0
"""Seconds that are remembered."""

SHARES_WINDOW = 60.0

MIN_SAMPLES = 3
"""Minimum number of samples of a share."""

REASONS: Mapping[int, str] = {
    0x1: "gpu_idle",
    0x2: "clocks_setting",
    0x4: "power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    SW_THERMAL_BIT: "sw_thermal",
    HW_THERMAL_BIT: "hw_thermal",
    POWER_BRAKE_BIT: "hw_power_brake",
    0x100: "display_clocks",
    0x200: "board_limit",
    0x400: "reliability",
}
"""Bits of NVML's mask and their names, as dcgm-exporter has them where it has any."""

Shares = tuple[tuple[str, float], ...]

_UMBRELLA = 0x8
_NAMED = HW_THERMAL_BIT | POWER_BRAKE_BIT
_BARE = 0x200 | 0x400


class Part(NamedTuple):
    """When a part ended, the seconds and the samples in it, and the seconds by mask, for masks with any bit."""

    ended: GpuSeconds
    seconds: float
    samples: int
    seconds_by_mask: Mapping[int, float]


@dataclass(slots=True, eq=False)
class ClockEvents:
    """The clock event reasons of one GPU over the last minutes.

    Attributes:
        shares: by reason that was there at all, the share of the last minute.
    """

    shares: Shares = ()
    _parts: list[Part] = field(default_factory=list)
    _seconds_by_mask: dict[int, float] = field(default_factory=dict)
    _begun: GpuSeconds | None = None
    _seconds: float = 0.0
    _samples: int = 0

    def update(self, mask: float | None, is_busy: bool, seconds: float, now: GpuSeconds) -> bool:
        """Add a sample that covers some seconds.

        Returns:
            Whether a part of the window is complete: only then shares have moved.
        """
        if mask is not None:
            bits = int(mask)
            if is_busy and ((bits & _UMBRELLA and not bits & _NAMED) or bits & _BARE):
                bits |= UNNAMED_BIT
            if bits:  # most samples have none
                self._seconds_by_mask[bits] = self._seconds_by_mask.get(bits, 0.0) + seconds
            self._seconds += seconds
            self._samples += 1
        if self._begun is None:
            self._begun = now
        if not has_passed(PART, self._begun, now):
            return False
        if self._samples:
            self._parts.append(Part(now, self._seconds, self._samples, self._seconds_by_mask))
        while self._parts and now - self._parts[0].ended > MAX_WINDOW:
            del self._parts[0]
        self._begun, self._seconds_by_mask, self._seconds, self._samples = now, {}, 0.0, 0
        parts = self._parts_of(SHARES_WINDOW, 0)
        observed, reduced = sum([part.seconds for part in parts]), _seconds_by_mask(parts)
        self.shares = tuple(
            [
                (name, round(seconds / observed, 3))
                for bit, name in REASONS.items()
                if (seconds := _seconds(reduced, bit))
            ]
        )
        return True

    def share(self, bits: int, window: float) -> float | None:
        """Return the share of a window, up to the last complete part, in which one of the bits was set; None for fewer
        than three samples in all."""
        parts = self._parts_of(window, MIN_SAMPLES)
        observed = sum([part.seconds for part in parts])
        is_known = observed and sum([part.samples for part in parts]) >= MIN_SAMPLES
        return _seconds(_seconds_by_mask(parts), bits) / max(observed, window) if is_known else None

    def _parts_of(self, window: float, min_samples: int) -> list[Part]:
        """Return the parts of a window, and older ones if it has fewer samples than the minimum."""
        first = bisect_right(self._parts, (self._begun or 0.0) - window + ROUNDING, key=attrgetter("ended"))
        while first and sum([part.samples for part in self._parts[first:]]) < min_samples:
            first -= 1
        return self._parts[first:]


def _seconds_by_mask(parts: Iterable[Part]) -> Mapping[int, float]:
    """Return the seconds of each mask in some parts."""
    total: dict[int, float] = {}
    for part in parts:
        for mask, seconds in part.seconds_by_mask.items():
            total[mask] = total.get(mask, 0.0) + seconds
    return total


def _seconds(seconds_by_mask: Mapping[int, float], bits: int) -> float:
    """Return the seconds of the masks with one of the bits."""
    return sum([seconds for mask, seconds in seconds_by_mask.items() if mask & bits])


_PARTS = 60
"""Parts of a window: an increase leaves it up to one part late."""


@dataclass(slots=True, eq=False)
class CounterIncrease:
    """Increase of one counter of one GPU.

    A counter that falls was reset if the next value is also lower than before, and counts from there; one that returns
    was misread.

    Attributes:
        seconds: length of the window.
        lifetime: the counter never falls: only values above its peak are an increase.
        last: the newest value; None before the first.
        peak: the highest value, of a counter that never falls; None before the first.
        before: the value before a fall that the next one has to confirm; otherwise None.
        parts: time and amount of each increase within the window; mostly empty.
        settled: whether two values were seen.
        grown: time of the last increase; None for never.
    """

    seconds: float
    lifetime: bool
    last: float | None = None
    peak: float | None = None
    before: float | None = None
    parts: tuple[tuple[GpuSeconds, float], ...] = ()
    settled: bool = False
    grown: GpuSeconds | None = None

    def update(self, value: float, now: GpuSeconds, gap: float = 0.0) -> float:
        """Return the increase since the last value.

        Args:
            value: of the counter.
            now: seconds.
            gap: seconds without a sample before this one. An increase in a gap that is longer than the window counts
                with the share of the window, as if it had been steady.
        """
        if value == self.last and self.is_quiet:
            return 0.0
        self.parts = tuple([part for part in self.parts if not has_passed(self.seconds, part[0], now)])
        is_first, increase = self.last is None, self._grow(value)
        if is_first:
            return 0.0
        self.settled = True
        increase *= self.seconds / max(gap, self.seconds)
        if increase:
            self.grown, parts = now, self.parts
            if parts and now - parts[-1][0] < self.seconds / _PARTS:
                begun, amount = parts[-1]
                self.parts = (*parts[:-1], (begun, amount + increase))
            else:
                self.parts = (*parts, (now, increase))
        return increase

    def _grow(self, value: float) -> float:
        """Take the next value; return how much it is more than the last one that counts."""
        last, self.last = self.last, value
        if self.lifetime:
            peak = value if self.peak is None else self.peak
            self.peak = max(peak, value)
            return max(value - peak, 0.0)
        before, self.before = self.before, None
        if last is None:
            return 0.0
        if before is not None and value >= before:  # it was misread in between
            return value - before
        if value < last and before is None:
            self.before = last
        return max(value - last, 0.0)

    def restart(self) -> None:
        """Count from the newest value on, after a reset of the GPU."""
        self.before = None

    @property
    def is_quiet(self) -> bool:
        """Whether the last value again would change nothing."""
        return self.settled and not self.parts and self.before is None

    @property
    def confirmed(self) -> float | None:
        """The newest value, or the value before a fall that is not confirmed; None before the first."""
        return self.last if self.before is None else self.before

    @property
    def total(self) -> float:
        """Increase within the window."""
        return sum([amount for _, amount in self.parts]) if self.parts else 0.0

    @property
    def ends(self) -> GpuSeconds:
        """When the newest increase leaves the window."""
        return GpuSeconds(self.parts[-1][0] + self.seconds) if self.parts else GPU_NEVER

    def drop_before(self, moment: GpuSeconds) -> None:
        """Drop the increases before a moment."""
        self.parts = tuple([part for part in self.parts if part[0] >= moment])


ERROR_QUANTITIES: Mapping[str, tuple[str, ...]] = {
    "corrected": ("ecc_sbe_aggregate_total", "ecc_sbe_volatile_total"),
    "uncorrected": ("ecc_dbe_aggregate_total", "ecc_dbe_volatile_total"),
}
"""Kind of memory error → candidate quantities, over the life of the board or since the driver was loaded."""


@dataclass(slots=True, eq=False)
class ErrorCounters:
    """Memory errors of one GPU by kind; the first available quantity is used from then on.

    Attributes:
        values: by kind, of the newest sample; one misread value is not a reset.
    """

    values: tuple[tuple[str, float], ...] = ()
    _counters: dict[str, tuple[str, CounterIncrease]] = field(default_factory=dict)

    @property
    def counters(self) -> list[CounterIncrease]:
        """One for each kind that was ever there."""
        return [counter for _, counter in self._counters.values()]

    def update(self, reading: Reading, now: GpuSeconds) -> None:
        """Take the next measurement at seconds of the GPU's clock."""
        values: list[tuple[str, float]] = []
        for kind, quantities in ERROR_QUANTITIES.items():
            for quantity in (self._counters[kind][0],) if kind in self._counters else quantities:
                if (value := getattr(reading, quantity)) is not None:
                    _, counter = self._counters.setdefault(kind, (quantity, CounterIncrease(MINUTE, lifetime=False)))
                    counter.update(value, now)
                    values.append((kind, value if counter.confirmed is None else counter.confirmed))
                    break
        self.values = tuple(values)


MICROSECONDS = 1e3
"""Factor of a counter of microseconds that is read as nanoseconds."""


@dataclass(slots=True, eq=False)
class DutyCounter:
    """A counter of the seconds in which the clocks of one GPU were reduced.

    Attributes:
        share: of the window, 0 and more; None before the third sample.
        is_proven: whether it has grown faster than a counter of microseconds can.
        points: time and value of the samples in the window.
    """

    share: float | None = None
    is_proven: bool = False
    points: list[tuple[GpuSeconds, float]] = field(default_factory=list)

    def update(self, value: float | None, now: GpuSeconds, window: float) -> None:
        """Update the share of a window in seconds; a missing value restarts it."""
        points = self.points
        self.share = None
        if value is None or (points and value < points[-1][1]):
            points.clear()  # the driver was reloaded
        if value is None:
            return
        if points and now > points[-1][0] and (value - points[-1][1]) / (now - points[-1][0]) > 2 / MICROSECONDS:
            self.is_proven = True
        points.append((now, value))
        while len(points) > MIN_SAMPLES and now - points[1][0] >= window:
            del points[0]
        if len(points) >= MIN_SAMPLES:
            self.share = (value - points[0][1]) / max(now - points[0][0], window)


BRIDGED_SECONDS = MINUTE
"""Time since the state was saved for which it is taken to last: the interval between two writes of the state file."""


class StateSeconds:
    """How long a GPU was in each state of its health, in seconds.

    A state lasts from the evaluation that enters it to the one that leaves it. Time that no sample covers is `unknown`,
    so that the sum over all states is the time since the first sample. A restart of the daemon does not end a state:
    the saved values may be older than the published ones, and counters must not decrease.

    Attributes:
        state: the current one.
        by_state: in the order of `STATES`.
    """

    __slots__ = ("by_state", "state")

    def __init__(self) -> None:
        self.state: State = "unknown"
        self.by_state: dict[State, float] = dict.fromkeys(STATES, 0.0)

    def saved(self) -> dict[State, float]:
        """Return the states that have lasted, for the state file."""
        return {state: seconds for state, seconds in self.by_state.items() if seconds}

    def restore(self, saved: Mapping[State, float], state: State, elapsed: float) -> None:
        """Continue with the state that was saved `elapsed` seconds ago."""
        self.by_state |= {state: max(seconds, 0.0) for state, seconds in saved.items()}  # a file may be damaged
        self.state = state
        bridged = min(elapsed, BRIDGED_SECONDS)
        self.by_state[state] += bridged
        self.by_state["unknown"] += elapsed - bridged
