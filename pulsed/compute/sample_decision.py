"""How much time a sample covers: its relation to the sample before it.

Time is measured with the clock of the ticks, which never steps; the wall clock only dates events, and bridges a restart
of the clock.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from pulsed.model.canonical_tick import CanonicalTick

GAP_INTERVALS = 3.0
"""A sample that comes more than this many intervals after the previous one covers no time."""

ROUNDING = 1e-6
"""Tolerance of the gap limit, in intervals: clocks are floats."""

SampleKind = Literal["first", "next", "gap", "restart", "repeat"]


class SampleDecision(NamedTuple):
    """How a sample relates to the previous counted sample.

    Attributes:
        kind: `first`: there is none; `next`: it follows closely; `gap`: it comes too late; `restart`: the clock of the
            source began anew; `repeat`: it is no newer (a duplicate, or out of order), and must not be counted.
        elapsed: seconds since the previous counted sample, 0 or more; by the wall clock after a restart of the clock; 0
            for `first` and `repeat`.
        covered: seconds of observed time that the sample stands for: `elapsed` of a `next` sample, else 0.
        gap_intervals: `elapsed` in intervals, for `gap` and `restart`; else 0.
    """

    kind: SampleKind
    elapsed: float = 0.0
    covered: float = 0.0
    gap_intervals: float = 0.0

    @property
    def is_interrupted(self) -> bool:
        """Whether time passed since the previous sample that no sample covers."""
        return self.kind == "gap" or self.kind == "restart"

    def continued(self, bridged: float) -> float:
        """Return the seconds since the previous sample if it still counts as recent, else 0.

        Args:
            bridged: length in seconds of the longest gap that does not separate two samples.
        """
        return self.elapsed if self.kind == "gap" and self.elapsed <= bridged else self.covered


FIRST = SampleDecision("first")
REPEAT = SampleDecision("repeat")


class Moment(NamedTuple):
    """A counted tick of a target.

    Attributes:
        tick: its number, from 1; 0: none.
        clock_restarts: of the source's clock before it.
        now: seconds between the first tick and it.
    """

    tick: int = 0
    clock_restarts: int = 0
    now: float = 0.0


NEVER = Moment()


class SampleClock:
    """The time of one target, advanced by its ticks.

    Attributes:
        now: seconds since the first tick; never decreases.
        time: of the newest tick, in Unix seconds.
        ticks: how many were counted.
    """

    __slots__ = ("_clock", "_clock_restarts", "now", "ticks", "time")

    def __init__(self) -> None:
        self.now = self.time = 0.0
        self.ticks = 0
        self._clock: float | None = None
        self._clock_restarts = 0

    @property
    def moment(self) -> Moment:
        """The newest counted tick."""
        return Moment(self.ticks, self._clock_restarts, self.now)

    def advance(self, tick: CanonicalTick) -> SampleDecision:
        """Decide about a tick as a whole, and advance the time of the target."""
        if self._clock is None:
            decision = FIRST
        else:
            elapsed, limit = tick.clock - self._clock, _limit(tick.interval)
            if 0.0 < elapsed <= limit:
                decision = SampleDecision("next", elapsed, elapsed)
            elif elapsed > limit:
                decision = _late("gap", elapsed, tick.interval)
            elif elapsed < -limit:
                self._clock_restarts += 1
                decision = _late("restart", max(tick.time - self.time, 0.0), tick.interval)
            else:
                return REPEAT
        self._clock, self.time = tick.clock, tick.time
        self.now += decision.elapsed
        self.ticks += 1
        return decision

    def decide_since(self, last: Moment, interval: float) -> SampleDecision:
        """Decide about a sample, in the newest tick, of a GPU whose previous sample may be older than the last tick."""
        if not last.tick:
            return FIRST
        elapsed = self.now - last.now
        if last.clock_restarts != self._clock_restarts:
            return _late("restart", elapsed, interval)
        is_next = elapsed <= _limit(interval)
        return SampleDecision("next", elapsed, elapsed) if is_next else _late("gap", elapsed, interval)


def _limit(interval: float) -> float:
    """Return the seconds after which a sample comes too late."""
    return (GAP_INTERVALS + ROUNDING) * interval


def _late(kind: SampleKind, elapsed: float, interval: float) -> SampleDecision:
    return SampleDecision(kind, elapsed, 0.0, elapsed / interval if interval > 0.0 else GAP_INTERVALS + 1.0)
