"""A sample of a GPU: how much time it covers, and whether its inputs are fresh. Decided once, for all stages.

Time is measured with the clock of the ticks, which never steps; the wall clock only dates events, and bridges a restart
of the clock.

A sample repeats the one before where a source is read more often than it measures, or where nothing changed. It is
stale once a value has been constant that never is: the source repeats old values.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Literal, NamedTuple

from pulsed.compute.plausibility_rules import (
    ACTIVITY,
    MEASURED,
    MIN_FRACTIONAL,
    POWERS,
    UTILIZATIONS,
    PlausibilitySettings,
)
from pulsed.model.clocks import EPOCH, START, GpuSeconds, Monotonic, Unix
from pulsed.model.gpu import Device
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import NOTHING, POSITION, Reading, Value

GAP_INTERVALS = 3.0
"""A sample that comes more than this many intervals after the previous one covers no time."""

ROUNDING = 1e-6
"""Tolerance of comparisons of times in seconds, and of the gap limit in intervals: clocks are floats."""

MAX_INTERVALS = GAP_INTERVALS + ROUNDING

SampleKind = Literal["first", "next", "gap", "restart", "repeat"]


class SampleDecision(NamedTuple):
    """How a sample relates to the previous counted sample.

    Attributes:
        kind: `first`: no previous sample; `next`: it follows closely; `gap`: it comes too late; `restart`: the clock of
            the source restarted; `repeat`: it is no newer (a duplicate, or out of order), and must not be counted.
        elapsed: seconds since the previous counted sample, 0 or more; by the wall clock after a restart of the clock; 0
            for `first` and `repeat`.
        covered: seconds of observed time that the sample stands for: `elapsed` of a `next` sample, otherwise 0.
    """

    kind: SampleKind
    elapsed: float = 0.0
    covered: float = 0.0

    @property
    def is_interrupted(self) -> bool:
        """Whether time passed since the previous sample that no sample covers."""
        return self.kind == "gap" or self.kind == "restart"

    def continued(self, bridged: float) -> float:
        """Return the seconds since the previous sample; 0 if a gap of more than `bridged` seconds separates them."""
        return self.elapsed if self.kind == "gap" and self.elapsed <= bridged else self.covered


FIRST = SampleDecision("first")
REPEAT = SampleDecision("repeat")


class Moment(NamedTuple):
    """A counted tick of a target.

    Attributes:
        tick: its number, from 1; 0: none.
        clock_restarts: of the source's clock before it.
        now: seconds of the clock of the ticks.
    """

    tick: int = 0
    clock_restarts: int = 0
    now: Monotonic = START


NEVER = Moment()


class SampleClock:
    """The time of one target, advanced by its ticks.

    Attributes:
        now: of the newest tick, in seconds of the clock of the ticks: the source's clock, continued over its
            restarts. It never decreases, and is the same for all sources that have the clock of one host.
        time: of the newest tick, in Unix seconds.
        moment: the newest counted tick.
    """

    __slots__ = ("_clock", "_shift", "moment", "now", "time")

    def __init__(self) -> None:
        self.now, self.time = START, EPOCH
        self.moment = NEVER
        self._clock: Monotonic | None = None
        self._shift = 0.0  # from the source's clock to the clock of the ticks, since the source's last restart

    def advance(self, tick: Tick) -> SampleDecision:
        """Decide about a tick as a whole, and advance the time of the target."""
        clock, time, (ticks, restarts, _) = tick.raw.clock, tick.raw.time, self.moment
        if self._clock is None:
            decision = FIRST
        else:
            elapsed, limit = clock - self._clock, MAX_INTERVALS * tick.raw.interval
            if 0.0 < elapsed <= limit:
                decision = SampleDecision("next", elapsed, elapsed)
            elif elapsed > limit:
                decision = SampleDecision("gap", elapsed)
            elif elapsed < -limit:
                restarts += 1
                decision = SampleDecision("restart", max(time - self.time, 0.0))
                self._shift = self.now + decision.elapsed - clock
            else:
                return REPEAT
        self._clock, self.time = clock, time
        self.now = max(self.now, Monotonic(clock + self._shift)) if ticks else clock
        self.moment = Moment(ticks + 1, restarts, self.now)
        return decision

    def decide_since(self, last: Moment, interval: float) -> SampleDecision:
        """Decide about a sample, in the newest tick, of a GPU whose previous sample may be older than the last tick."""
        if not last.tick:
            return FIRST
        elapsed = self.now - last.now
        if last.clock_restarts != self.moment.clock_restarts:
            return SampleDecision("restart", elapsed)
        is_next = elapsed <= MAX_INTERVALS * interval
        return SampleDecision("next", elapsed, elapsed) if is_next else SampleDecision("gap", elapsed)


VITAL = (
    "temperature_celsius",
    "power_watts",
    "gpu_utilization_ratio",
    "sm_clock_hertz",
    "graphics_engine_active_ratio",
    "energy_joules_total",
)
"""A GPU without any of these is not measured: settings, limits and the memory in use may come from a cache. With any
other measured value it still answers."""

InputState = Literal["present", "repeated", "unmeasured", "blank", "stale"]

FRESH_SECONDS = 10.0
FRESH_INTERVALS = 3.0
"""Inputs are fresh for this long without a vital value; the longer of the two counts."""

BUSY_WATTS = 100.0
"""No GPU draws this much for minutes without a change in its power."""

_vital = itemgetter(*(POSITION[name] for name in VITAL))
_measured = itemgetter(*(POSITION[name] for name in MEASURED))
_activity = itemgetter(*(POSITION[name] for name in (*ACTIVITY, *UTILIZATIONS)))
_powers = itemgetter(*(POSITION[name] for name in POWERS))


def is_measured(reading: Reading) -> bool:
    """Return whether a reading has any vital value."""
    return bool(_vital(reading) != _NO_VITAL)


class Freshness:
    """Freshness of the inputs of one GPU.

    Attributes:
        state: of the newest sample. `present`: it has vital values, and differs from the sample before; `repeated`: it
            does not differ; `stale`: repeated until its values are certainly old; `unmeasured`: it has no vital value,
            but another measured one, so that the GPU answers; `blank`: it has neither.
        age: seconds since its vital values were current; None if there never were any.
        refresh: seconds for which the source repeats its values: the longer one of the last two periods between
            samples that differ. The first period began before the first sample, and one in which samples were lost
            ends late; None before two periods.
        is_fresh: whether `age` is short enough to rely on the inputs.
    """

    __slots__ = (
        "_counts_energy",
        "_current",
        "_energy",
        "_energy_moved",
        "_last",
        "_period",
        "_samples",
        "_since",
        "age",
        "is_fresh",
        "refresh",
        "state",
    )

    def __init__(self) -> None:
        self.state: InputState = "blank"
        self.age: Value = None
        self.refresh: Value = None
        self.is_fresh = False
        self._last = NOTHING
        self._since = self._current = 0.0
        self._period: Value = None
        self._samples = 0
        self._energy: Value = None
        self._counts_energy = False
        self._energy_moved = False

    @property
    def is_answered(self) -> bool:
        """Whether the GPU answered in the newest sample."""
        return self.state != "blank" and self.state != "stale"

    @property
    def has_moved(self) -> bool:
        """Whether the newest sample has other values than the one before."""
        return self.state == "present" and self._period is not None

    @property
    def is_same_measurement(self) -> bool:
        """Whether the newest sample was measured when the one before was: not even the energy counter has moved.

        Without that counter, constant values are measured again.
        """
        is_constant = self.state == "repeated" or self.state == "stale"
        return is_constant and self._counts_energy and self._last.energy_joules_total is not None

    def continue_from(self, before: Freshness) -> None:
        """Take what the samples of another source have shown of the GPU: whether its energy counter works."""
        self._counts_energy |= before._counts_energy
        self._energy_moved |= before._energy_moved

    def update(self, reading: Reading, now: GpuSeconds, interval: float, settings: PlausibilitySettings) -> None:
        """Take the next sample.

        Args:
            reading: as read; all None for a GPU that is in no sample.
            now: seconds of the GPU's clock, gaps included.
            interval: nominal seconds between two samples.
            settings: how long constant values may last.
        """
        last = self._last
        if reading != last:
            if not is_measured(reading):
                self.state = "blank" if _measured(reading) == _NO_MEASURED else "unmeasured"
            else:
                self.state = "present"
                if last is not NOTHING:
                    before, self._period = self._period, now - self._since
                    self.refresh = None if before is None else max(before, self._period)
                if (energy := reading.energy_joules_total) is not None:
                    if self._energy is not None:
                        self._counts_energy |= energy > self._energy
                        self._energy_moved |= energy != self._energy  # also less, after a reset
                    self._energy = energy
                self._last, self._since, self._samples = reading, now, 1
        elif last is not NOTHING:
            self._samples += 1
            if self.state != "stale":
                self.state = "stale" if self._is_stale(now, settings) else "repeated"
        if self.state == "present" or self.state == "repeated":
            self._current, self.age, self.is_fresh = now, 0.0, True
        elif self.age is not None:
            # Repeated values that blank ones follow were not current either, if that would be certain by now.
            is_old = self.state == "stale" or (self._current > self._since and self._is_stale(now, settings))
            self.age = now - (self._since if is_old else self._current)
            self.is_fresh = not is_old and self.age <= max(FRESH_SECONDS, FRESH_INTERVALS * interval)

    def _is_stale(self, now: GpuSeconds, settings: PlausibilitySettings) -> bool:
        if not settings.enabled or now - self._since < settings.frozen_seconds:
            return False
        return self._is_energy_frozen() or (self._samples >= settings.frozen_samples and _is_frozen(self._last))

    def _is_energy_frozen(self) -> bool:
        """Return whether the energy counter would have moved: it did before, or the GPU is not idle."""
        last = self._last
        if not last.energy_joules_total or not last.power_watts:
            return False
        return self._energy_moved or last.power_watts >= BUSY_WATTS or any(_activity(last))


def _is_frozen(reading: Reading) -> bool:
    """Return whether activity and a value that is never constant, energy or fractions of a watt, cannot repeat."""
    restless = bool(reading.energy_joules_total) or any(
        value is not None and value % 1.0 != 0.0 for value in _powers(reading)
    )
    return restless and fractional(reading) >= MIN_FRACTIONAL


class TrackedSample(NamedTuple):
    """The newest sample of a GPU, or the newest sample of its target that lacks the GPU.

    Attributes:
        device: as last seen.
        decision: about the sample.
        freshness: of its inputs.
        now: seconds since the first sample of the GPU.
        time: in Unix seconds.
    """

    device: Device
    decision: SampleDecision
    freshness: Freshness
    now: GpuSeconds
    time: Unix


def fractional(reading: Reading) -> int:
    """Return the number of activity values other than 0 and 1."""
    return sum(value is not None and 0.0 < value < 1.0 for value in _activity(reading)[: len(ACTIVITY)])


_NO_VITAL, _NO_MEASURED = _vital(NOTHING), _measured(NOTHING)


def has_passed(seconds: float, since: GpuSeconds, now: GpuSeconds) -> bool:
    """Return whether this number of seconds has passed, within the tolerance."""
    return now - since >= seconds - ROUNDING
