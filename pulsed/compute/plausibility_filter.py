"""Evaluation of the rules of `pulsed.compute.plausibility_rules` for the readings of one GPU.

A plausible reading costs a few comparisons; state exists only while a rule may apply. Some counters are 0 although
nothing measures them: the driver and DCGM have them on products that do not count them. A constant 0 is then no
measurement, neither a ceiling nor a proof of idleness, until the counter was other than 0 once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from operator import itemgetter

from pulsed.compute.plausibility_rules import (
    ACTIVITY,
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
    TRAFFIC_OF_IDLE,
    UTILIZATION_DEAD,
    UTILIZATIONS,
    VALUES_FROZEN,
    PlausibilityRule,
    PlausibilitySettings,
)
from pulsed.compute.products import has_unified_memory, missing_from_model
from pulsed.compute.sample import InputState, fractional
from pulsed.durations import MINUTE
from pulsed.model.vocabulary import POSITION, QUANTITIES, Reading, Value

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

    __slots__ = ("_constant", "_dead", "_engine", "_profiler")

    def __init__(self) -> None:
        self._profiler: _Contradiction | None = None
        self._engine: _Contradiction | None = None
        self._constant = _ConstantProfile()
        self._dead = DeadCounters()

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


WORKING_RATIO = 0.05
"""A GPU whose engine is as busy as this starts kernels, for which the processor and the GPU exchange data."""

WORKING_DRAM_RATIO = 0.02
"""A kernel that spins in a collective has less, and may exchange nothing for long."""

RISEN_RATIO, RISEN_WATTS = 1.5, 10.0
"""Power that rises by both means work if the SM clock is unchanged: clocks alone also raise power."""

SAME_CLOCK = 0.1
"""SM clocks that differ by this share are the same."""


IDLE_TRAFFIC = 1e9
"""Bytes/s over a link, which no monitoring of an idle GPU takes."""

IDLE_CLOCK, IDLE_CLOCK_SHARE = 6e8, 0.4
"""Highest SM clock of an idle GPU, in hertz, and as a share of its maximum."""

_idle = itemgetter(
    *(
        POSITION[name]
        for name in (*UTILIZATIONS, "graphics_engine_active_ratio", "sm_active_ratio", "dram_active_ratio")
    )
)
_rates = itemgetter(*(POSITION[name] for name in RATES))


def _has_traffic_while_idle(reading: Reading) -> bool:
    """Return whether links have traffic that the idle engines, memory and clocks of the GPU exclude.

    Another device reads and writes the memory of a GPU without its engines, but not without its memory and at its
    lowest clocks.
    """
    utilization, clock = reading.gpu_utilization_ratio, reading.sm_clock_hertz
    if utilization != 0.0 or reading.memory_utilization_ratio != 0.0 or any(_idle(reading)) or clock is None:
        return False
    limit = reading.sm_clock_max_hertz
    if clock > (IDLE_CLOCK if limit is None else min(IDLE_CLOCK, IDLE_CLOCK_SHARE * limit)):
        return False
    return any(rate is not None and rate >= IDLE_TRAFFIC for rate in _rates(reading))


class DeadCounters:
    """The counters of one GPU that have been 0 in all samples so far, or count without any work."""

    __slots__ = (
        *("_has_pcie", "_has_utilization", "_is_utilization_dead", "_lowest", "_zero_seconds", "_zeros"),
        "_idle_seconds",
    )

    def __init__(self) -> None:
        self._has_pcie = self._has_utilization = self._is_utilization_dead = False
        self._lowest: tuple[float, float] | None = None
        self._zeros, self._zero_seconds = 0, 0.0
        self._idle_seconds = 0.0

    def find(self, reading: Reading, seconds: float, settings: PlausibilitySettings) -> list[PlausibilityRule]:
        """Take the next sample, which covers some seconds; return the rules about counters that are dead in it."""
        rules = []
        if not self._has_utilization and self._lacks_utilization(reading):
            rules.append(UTILIZATION_DEAD)
        if not self._has_pcie and self._lacks_pcie(reading):
            self._zeros, self._zero_seconds = self._zeros + 1, self._zero_seconds + seconds
            if self._zeros >= settings.stuck_samples and self._zero_seconds >= settings.stuck_seconds:
                rules.append(PCIE_DEAD)
        if _has_traffic_while_idle(reading):
            self._idle_seconds += seconds
            if self._idle_seconds >= MINUTE:
                rules.append(TRAFFIC_OF_IDLE)
        else:
            self._idle_seconds = 0.0
        return rules

    def _lacks_pcie(self, reading: Reading) -> bool:
        transmit, receive = reading.pcie_transmit_bytes_per_second, reading.pcie_receive_bytes_per_second
        if transmit or receive:
            self._has_pcie = True
        engine, utilization = reading.graphics_engine_active_ratio, reading.gpu_utilization_ratio
        dram, memory = reading.dram_active_ratio, reading.memory_utilization_ratio
        works = ((utilization if engine is None else engine) or 0.0) >= WORKING_RATIO and (
            (memory if dram is None else dram) or 0.0
        ) >= WORKING_DRAM_RATIO
        has_other_link = bool(reading.c2c_transmit_bytes_per_second or reading.c2c_receive_bytes_per_second)
        return works and transmit == receive == 0.0 and not has_other_link

    def _lacks_utilization(self, reading: Reading) -> bool:
        """Return whether the driver's utilization is 0 although the GPU works, where no profiled activity shows it."""
        watts, clock = reading.power_watts, reading.sm_clock_hertz
        if reading.gpu_utilization_ratio:
            self._has_utilization = True
        if reading.gpu_utilization_ratio != 0.0 or _is_profiled(reading):
            return False
        if watts is not None and clock is not None and not self._is_utilization_dead:
            if self._lowest is None or watts < self._lowest[0]:
                self._lowest = watts, clock
            lowest, its_clock = self._lowest
            has_risen = watts >= lowest * RISEN_RATIO and watts >= lowest + RISEN_WATTS
            self._is_utilization_dead = has_risen and abs(clock - its_clock) <= SAME_CLOCK * its_clock
        return self._is_utilization_dead


def without_unmeasured(reading: Reading, model: str) -> Reading:
    """Return a reading without the zeros of hardware that a product with unified memory lacks."""
    if not has_unified_memory(model):
        return reading
    absent = missing_from_model(model)
    return Reading._make(
        [
            None if value == 0.0 and name.startswith(absent) else value
            for name, value in zip(QUANTITIES, reading, strict=True)
        ]
    )


def _is_profiled(reading: Reading) -> bool:
    activity: tuple[Value, ...] = (reading.graphics_engine_active_ratio, reading.sm_active_ratio)
    return activity != (None, None)
