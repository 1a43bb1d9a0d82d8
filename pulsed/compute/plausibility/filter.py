"""Looks at every reading of a GPU before anything is computed from it, and does not believe all of it.

Knows how the table of `pulsed.compute.plausibility.rules` is evaluated, and remembers what needs time. Usually
nothing is wrong: the way there is a few comparisons, and all that costs more waits for a first sign of doubt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from functools import lru_cache
from operator import itemgetter

from pulsed.compute.plausibility.rules import (
    ACTIVITY,
    ENGINE_STUCK,
    MEMORY,
    POWERS,
    PROFILING_FROZEN,
    RANGES,
    RATES,
    REASONS,
    STUCK,
    TELLING,
    UTILIZATIONS,
    VALUES_FROZEN,
    PlausibilityRule,
    PlausibilitySettings,
)
from pulsed.translate.vocabulary import NOTHING, POSITION, Reading, Value

_ranged = itemgetter(*(POSITION[limit.quantity] for _, limit in RANGES))
_judged = tuple((rule.reason, limit.quantity) for rule, limit in RANGES)
_profile = itemgetter(*(POSITION[name] for name in (*ACTIVITY, *RATES)))
_utilizations = itemgetter(*(POSITION[name] for name in UTILIZATIONS))
_powers = itemgetter(*(POSITION[name] for name in POWERS))

_ENGINE, _SM = ACTIVITY.index("graphics_engine_active_ratio"), ACTIVITY.index("sm_active_ratio")

_Profile = tuple[Value, ...]


class PlausibilityFilter:
    """Doubts the readings of one GPU.

    Args:
        settings: from where on inputs are not believed.
    """

    __slots__ = ("_engine", "_highs", "_last", "_lows", "_profiler", "_settings", "_still")

    def __init__(self, settings: PlausibilitySettings) -> None:
        self._settings = settings
        self._lows, self._highs = _limits(settings)
        self._profiler: _Contradiction | None = None
        self._engine: _Contradiction | None = None
        self._last: Reading | None = None  # of a contradiction that is followed
        self._still = _Still()

    def look(self, reading: Reading, seconds: float) -> tuple[Reading, tuple[str, ...]]:
        """Take out what cannot be believed.

        Args:
            reading: the next one of this GPU.
            seconds: what it covers. 0 for the first one, after a gap, and for one that is not newer than the last:
                whatever needs time then begins anew.

        Returns:
            The reading with implausible inputs missing, the same object if there are none, and the reasons in the order
            of the table.
        """
        settings = self._settings
        if not settings.enabled:
            return reading, ()
        still = self._still
        if not seconds > 0.0:
            self._profiler = self._engine = self._last = still.profile = None
            seconds = 0.0
        reasons: list[str] = []
        for value, low, high in zip(_ranged(reading), self._lows, self._highs):  # noqa: B905 - equally long
            if value is not None and not low <= value <= high:
                reading = self._without_absurd(reading, reasons)
                break
        used, size = reading.memory_used_bytes, reading.memory_bytes
        if used is not None and (used < 0.0 or (size and used > size * settings.memory_excess_ratio)):
            reading = _without(reading, MEMORY.missing)
            reasons.append(MEMORY.reason)
        profile = _profile(reading)
        doubts: list[PlausibilityRule] = []
        # A kernel keeps at least one SM busy, whatever it does; all other counters may be 0 with every right.
        engine = profile[_ENGINE]
        if self._last is not None or engine == 0.0 or (engine is None and profile[_SM] == 0.0):
            doubts = self._zeros(reading, profile, seconds)
        if profile != still.profile:
            still.profile, still.first, still.samples = profile, reading, 1
        elif doubt := still.stay(reading, seconds, settings):
            doubts.append(doubt)
        if doubts:
            reasons.extend(rule.reason for rule in doubts)
            reading = _without(reading, (name for rule in doubts for name in _missing(rule, reading)))
        if len(reasons) > 1:
            reasons.sort(key=REASONS.index)
        return reading, tuple(reasons)

    def _without_absurd(self, reading: Reading, reasons: list[str]) -> Reading:
        absurd = [
            judged
            for judged, value, low, high in zip(_judged, _ranged(reading), self._lows, self._highs, strict=True)
            if value is not None and not low <= value <= high
        ]
        reasons.extend(dict.fromkeys(reason for reason, _ in absurd))
        return _without(reading, (quantity for _, quantity in absurd))

    def _zeros(self, reading: Reading, profile: _Profile, seconds: float) -> list[PlausibilityRule]:
        """Follow how long zeros have contradicted the driver's utilization."""
        settings, utilization = self._settings, reading.gpu_utilization_ratio
        busy = utilization is not None and utilization >= settings.busy_utilization_ratio
        if self._last is None and not busy:
            return []
        fresh = reading != self._last

        def follow(known: _Contradiction | None, zero: bool, alive: bool) -> _Contradiction | None:
            if zero and busy:
                if known is None:
                    return _Contradiction()
                known.go_on(seconds, fresh, settings)
                return known
            return known if known is not None and known.proven and not alive else None

        engine = profile[_ENGINE]
        alive = any(profile[: len(ACTIVITY)])
        zero = not alive and (engine == 0.0 or (engine is None and profile[_SM] == 0.0))
        self._profiler = follow(self._profiler, zero, alive)
        self._engine = follow(self._engine, engine == 0.0, bool(engine))
        self._last = None if self._profiler is None and self._engine is None else reading
        if utilization == 0.0:
            return []  # they agree
        if zero and self._profiler is not None and self._profiler.proven:
            return [STUCK]
        return [ENGINE_STUCK] if engine == 0.0 and self._engine is not None and self._engine.proven else []


class _Contradiction:
    """Zeros against a high utilization, from the first sample of a run on.

    Once proven it is not forgotten when the utilization falls, since that mends no profiler; the first value above 0
    shows that it works again.
    """

    __slots__ = ("different", "proven", "samples", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.samples = self.different = 1
        self.proven = False

    def go_on(self, seconds: float, fresh: bool, settings: PlausibilitySettings) -> None:
        """Take one more sample; one that is not fresh repeats all of the last one, and proves less."""
        self.seconds += seconds
        self.samples += 1
        self.different += fresh
        long = settings.stuck_seconds if self.different >= settings.stuck_samples else settings.frozen_seconds
        if self.samples >= settings.stuck_samples and self.seconds >= long:
            self.proven = True


class _Still:
    """A profile that has not moved since the first sample of a run.

    Attributes:
        profile: which; None when there was no sample yet.
        first: the first sample of the run.
        samples: how many the run has. A run begins with every sample of a busy GPU, and rarely has two: what needs to
            be known of a long one is set up by the second.
    """

    __slots__ = ("_moved_samples", "_moved_seconds", "_same", "_seconds", "_telling", "first", "profile", "samples")

    def __init__(self) -> None:
        self.profile: _Profile | None = None
        self.first = NOTHING
        self.samples = 0

    def stay(self, reading: Reading, seconds: float, settings: PlausibilitySettings) -> PlausibilityRule | None:
        """Take one more sample with the same profile; give the reason to doubt it, if there is one by now."""
        self.samples += 1
        if self.samples == 2:
            activity = self.profile[: len(ACTIVITY)] if self.profile else ()
            self._telling = sum(value is not None and 0.0 < value < 1.0 for value in activity)
            self._seconds = self._moved_seconds = 0.0
            self._moved_samples = 0
            self._same = True
        if self._telling < TELLING:
            return None
        self._seconds += seconds
        self._same = self._same and reading == self.first
        if not self._same and _moved(self.first, reading, settings.moved_ratio):
            self._moved_seconds += seconds
            self._moved_samples += 1
        if self.samples < settings.frozen_samples or self._seconds < settings.frozen_seconds:
            return None
        # A load that has just changed shows in other fields first: DCGM does not read all at the same instant.
        if self._moved_samples >= settings.stuck_samples and self._moved_seconds >= settings.stuck_seconds:
            return PROFILING_FROZEN
        return VALUES_FROZEN if self._same and _restless(reading) else None


def _moved(first: Reading, now: Reading, ratio: float) -> bool:
    """Tell whether the load is clearly another one, as the driver sees it."""
    return any(
        before is not None and after is not None and abs(after - before) >= ratio
        for before, after in zip(_utilizations(first), _utilizations(now), strict=True)
    ) or any(
        before is not None and after is not None and abs(after - before) >= ratio * max(before, after) > 0.0
        for before, after in zip(_powers(first), _powers(now), strict=True)
    )


def _restless(reading: Reading) -> bool:
    """Tell whether there is a value that never stands still on a GPU that has power.

    Energy grows; power has noise, which whole watts do not show.
    """
    return bool(reading.energy_joules_total) or any(
        value is not None and value % 1.0 != 0.0 for value in _powers(reading)
    )


def _missing(rule: PlausibilityRule, reading: Reading) -> Iterable[str]:
    """Give the quantities that a doubt takes out; of a profiler stuck at 0 only zeros."""
    return [name for name in rule.missing if reading[POSITION[name]] == 0.0] if rule is STUCK else rule.missing


def _without(reading: Reading, quantities: Iterable[str]) -> Reading:
    values = list(reading)
    for name in quantities:
        values[POSITION[name]] = None
    return Reading._make(values)


@lru_cache(maxsize=8)
def _limits(settings: PlausibilitySettings) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Give the lows and the highs of `RANGES` as numbers, once per settings."""
    numbers = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return (
        tuple(numbers[limit.low] if isinstance(limit.low, str) else limit.low for _, limit in RANGES),
        tuple(numbers[limit.high] if isinstance(limit.high, str) else limit.high for _, limit in RANGES),
    )
