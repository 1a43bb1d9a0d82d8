"""Evaluation of the rules of `pulsed.compute.plausibility_rules` for the readings of one GPU.

A plausible reading costs a few comparisons; state exists only while a rule may apply.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from operator import itemgetter

from pulsed.compute.dead_counters import DeadCounters
from pulsed.compute.plausibility_rules import (
    ACTIVITY,
    ENERGY,
    ENGINE_STUCK,
    MEMORY,
    MEMORY_SIZE,
    MIN_FRACTIONAL,
    PCIE_DEAD,
    POWERS,
    PROFILING_FROZEN,
    RANGES,
    RATES,
    REASONS,
    STUCK,
    UTILIZATIONS,
    VALUES_FROZEN,
    PlausibilityRule,
    PlausibilitySettings,
)
from pulsed.compute.sample import InputState, fractional
from pulsed.durations import MINUTE
from pulsed.model.vocabulary import POSITION, Reading, Value

_ranged = itemgetter(*(POSITION[limit.quantity] for limit in RANGES))
_range_keys = tuple((limit.rule.reason, limit.quantity) for limit in RANGES)
_profile = itemgetter(*(POSITION[name] for name in (*ACTIVITY, *RATES)))
_utilizations = itemgetter(*(POSITION[name] for name in UTILIZATIONS))
_powers = itemgetter(*(POSITION[name] for name in POWERS))

_ENGINE, _SM = ACTIVITY.index("graphics_engine_active_ratio"), ACTIVITY.index("sm_active_ratio")

_SETTLED = 0.1
"""Share of `frozen_seconds` after which the load of a constant profile is the reference: DCGM does not read all fields
at the same instant, and power is a mean over up to a second, so the first samples may have the load of before."""

_Profile = tuple[Value, ...]


class PlausibilityLimits:
    """Settings, with the lower and the upper limits of `RANGES` as numbers."""

    def __init__(self, settings: PlausibilitySettings) -> None:
        self.settings = settings
        numbers = {field.name: getattr(settings, field.name) for field in fields(settings)}
        self.lows = [numbers[limit.low] if isinstance(limit.low, str) else limit.low for limit in RANGES]
        self.highs = [numbers[limit.high] if isinstance(limit.high, str) else limit.high for limit in RANGES]


class PlausibilityFilter:
    """Removes implausible inputs from the readings of one GPU."""

    __slots__ = ("_constant", "_dead", "_energy", "_engine", "_profiler")

    def __init__(self) -> None:
        self._profiler: _Contradiction | None = None
        self._engine: _Contradiction | None = None
        self._constant = _ConstantProfile()
        self._dead = DeadCounters()
        self._energy = _EnergyUnit()

    def apply(
        self, limits: PlausibilityLimits, reading: Reading, seconds: float, state: InputState
    ) -> tuple[Reading, tuple[str, ...]]:
        """Return the reading without implausible inputs, and the reasons in the order of the table.

        Args:
            limits: of this reading; facts that were proven by others remain.
            reading: the next one of this GPU; returned itself if all of it is plausible.
            seconds: time that it covers. 0 for the first one, after a gap, and for one that is not newer than the last:
                all durations then start again.
            state: of its inputs.
        """
        settings = limits.settings
        if not settings.enabled:
            return reading, ()
        constant = self._constant
        if not seconds > 0.0:
            self._profiler = self._engine = constant.profile = None
        reasons: list[str] = []
        for value, low, high in zip(_ranged(reading), limits.lows, limits.highs):  # noqa: B905 - equally long
            if value is not None and not low <= value <= high:
                reading = _without_absurd(limits, reading, reasons)
                break
        used, size = reading.memory_used_bytes, reading.memory_bytes
        if used is not None and (used < 0.0 or (size and used > size * settings.memory_excess_ratio)):
            reading = _without(reading, MEMORY.missing)
            reasons.append(MEMORY.reason)
        if size and size < settings.memory_min_bytes:
            reading = _without(reading, MEMORY_SIZE.missing)
            reasons.append(MEMORY_SIZE.reason)
        profile = _profile(reading)
        broken: list[PlausibilityRule] = self._dead.find(reading, seconds, settings)
        if self._energy.is_absurd(reading, seconds):
            broken.append(ENERGY)
        # A kernel keeps at least one SM busy; all other counters may be 0 meanwhile.
        engine = profile[_ENGINE]
        is_zero = engine == 0.0 or (engine is None and profile[_SM] == 0.0)
        if is_zero or self._profiler is not None or self._engine is not None:
            broken += self._zeros(settings, reading, profile, seconds, state != "repeated" and state != "stale")
        if STUCK in broken:  # all zeros of the profiler, including PCIe
            broken = [rule for rule in broken if rule is not PCIE_DEAD]
        if state == "stale":
            broken.append(VALUES_FROZEN)
        if profile != constant.profile:
            constant.profile, constant.samples = profile, 1
        elif constant.extend(reading, seconds, state, settings) and state != "stale":
            broken.append(PROFILING_FROZEN)
        if broken:
            reasons.extend(rule.reason for rule in broken)
            reading = _without(reading, (name for rule in broken for name in _missing(rule, reading)))
        if len(reasons) > 1:
            reasons.sort(key=REASONS.index)
        return reading, tuple(reasons)

    def _zeros(
        self, settings: PlausibilitySettings, reading: Reading, profile: _Profile, seconds: float, fresh: bool
    ) -> list[PlausibilityRule]:
        """Return the rules about zeros that have contradicted the driver's utilization for long enough."""
        utilization = reading.gpu_utilization_ratio
        busy = utilization is not None and utilization >= settings.busy_utilization_ratio
        if not busy and self._profiler is None and self._engine is None:
            return []

        def extended(before: _Contradiction | None, zero: bool, alive: bool) -> _Contradiction | None:
            if zero and busy:
                if before is None:
                    return _Contradiction()
                before.extend(seconds, fresh, settings)
                return before
            return before if before is not None and before.proven and not alive else None

        engine = profile[_ENGINE]
        alive = any(profile[: len(ACTIVITY)])
        zero = not alive and (engine == 0.0 or (engine is None and profile[_SM] == 0.0))
        self._profiler = extended(self._profiler, zero, alive)
        self._engine = extended(self._engine, engine == 0.0, bool(engine))
        if utilization == 0.0:
            return []  # they agree
        if zero and self._profiler is not None and self._profiler.proven:
            return [STUCK]
        return [ENGINE_STUCK] if engine == 0.0 and self._engine is not None and self._engine.proven else []


MIN_GAIN, MAX_GAIN = 0.005, 500.0
"""The energy of an interval over the least, and over the most, that the power at both ends of it explains: the load may
have changed in between. A counter in joules or kilojoules in place of millijoules is off by 1,000 at least."""


class _EnergyUnit:
    """Whether the energy counter of a GPU grows as its power does; the newest growth decides."""

    __slots__ = ("_joules", "_seconds", "_was_absurd", "_watts")

    def __init__(self) -> None:
        self._joules: Value = None
        self._watts: Value = None
        self._seconds = 0.0
        self._was_absurd = False

    def is_absurd(self, reading: Reading, seconds: float) -> bool:
        """Take the next sample, which covers some seconds, 0 after a gap."""
        joules, watts = reading.energy_joules_total, reading.power_watts
        if joules is None:
            self._joules = None
            return False
        before, power = self._joules, self._watts
        self._seconds += seconds
        is_continuous = 0.0 < self._seconds <= max(MINUTE, seconds)  # a constant counter has no unit
        if seconds > 0.0 and is_continuous and before is not None and joules > before and watts and power:
            mean = (joules - before) / self._seconds
            self._was_absurd = not MIN_GAIN * min(watts, power) <= mean <= MAX_GAIN * max(watts, power)
        if joules != before or not seconds > 0.0:
            self._joules, self._watts, self._seconds = joules, watts, 0.0
        return self._was_absurd


class _Contradiction:
    """Consecutive samples with zeros at a high utilization.

    Once proven it ends with the first value above 0, not with the utilization.
    """

    __slots__ = ("different", "proven", "samples", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.samples = self.different = 1
        self.proven = False

    def extend(self, seconds: float, fresh: bool, settings: PlausibilitySettings) -> None:
        """Add a sample; repeated ones alone take `frozen_seconds` to prove anything."""
        self.seconds += seconds
        self.samples += 1
        self.different += fresh
        long = settings.stuck_seconds if self.different >= settings.stuck_samples else settings.frozen_seconds
        if self.samples >= settings.stuck_samples and self.seconds >= long:
            self.proven = True


class _ConstantProfile:
    """Consecutive samples with the same profile.

    Attributes:
        profile: None before any sample.
        samples: how many. Every sample of a busy GPU starts a run, and few have a second one: the other state is set up
            by the second.
    """

    def __init__(self) -> None:
        self.profile: _Profile | None = None
        self.samples = 0

    def extend(self, reading: Reading, seconds: float, state: InputState, settings: PlausibilitySettings) -> bool:
        """Add a sample with the same profile; return whether the profile is proven to be frozen."""
        self.samples += 1
        if self.samples == 2:
            self._is_conclusive = fractional(reading) >= MIN_FRACTIONAL
            self._seconds = self._moved_seconds = 0.0
            self._moved_samples, self._different = 0, 1
            self._is_proven = False
            self._reference: Reading | None = None
        if not self._is_conclusive or self._is_proven:
            return self._is_conclusive
        self._seconds += seconds
        self._different += state == "present"
        reference = self._reference
        if reference is None:
            if self._different >= settings.stuck_samples and self._seconds >= _SETTLED * settings.frozen_seconds:
                self._reference = reading
        elif _is_moved(reference, reading, settings.moved_ratio):
            self._moved_seconds += seconds
            self._moved_samples += 1
        else:
            self._moved_seconds, self._moved_samples = 0.0, 0
        self._is_proven = (
            self.samples >= settings.frozen_samples
            and self._seconds >= settings.frozen_seconds
            and self._moved_samples >= settings.stuck_samples
            and self._moved_seconds >= settings.stuck_seconds
        )
        return self._is_proven


def _is_moved(reference: Reading, now: Reading, ratio: float) -> bool:
    """Return whether the load, as the driver measures it, clearly differs."""
    return any(
        before is not None and after is not None and abs(after - before) >= ratio
        for before, after in zip(_utilizations(reference), _utilizations(now), strict=True)
    ) or any(
        before is not None and after is not None and abs(after - before) >= ratio * max(before, after) > 0.0
        for before, after in zip(_powers(reference), _powers(now), strict=True)
    )


def _missing(rule: PlausibilityRule, reading: Reading) -> Iterable[str]:
    """Return the quantities that a rule removes; of a profiler stuck at 0 only zeros."""
    return [name for name in rule.missing if reading[POSITION[name]] == 0.0] if rule is STUCK else rule.missing


def _without_absurd(limits: PlausibilityLimits, reading: Reading, reasons: list[str]) -> Reading:
    absurd = [
        key
        for key, value, low, high in zip(_range_keys, _ranged(reading), limits.lows, limits.highs, strict=True)
        if value is not None and not low <= value <= high
    ]
    reasons.extend(dict.fromkeys(reason for reason, _ in absurd))
    return _without(reading, (quantity for _, quantity in absurd))


def _without(reading: Reading, quantities: Iterable[str]) -> Reading:
    values = list(reading)
    for name in quantities:
        values[POSITION[name]] = None
    return Reading._make(values)
