"""How a value runs over time, cheap enough for 320 of them at 10 Hz.

A signal that changes has a clock: something with few states. All that depends on the same clock changes together, so a
printed row can be kept per state and is seldom formatted anew. Only counters have a new text on every update.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate

from tests.support.streams import NOISE, StreamName, load, noise

Plain = float | str | None
"""A value as DCGM hands it out; None is a blank."""

STREAM_SECONDS = 0.1
"""Time between two values of a stream: that of DCGM's profiling counters."""

STREAM_STEPS = 600
"""Values of a stream until it starts again: a minute, which is longer than anything that compares ticks."""


@dataclass(frozen=True)
class SquareClock:
    """Busy (1) for the first `busy` seconds of each `period`, then idle (0), by the wall clock."""

    period: float
    busy: float
    phase: float

    def state(self, now: float, tick: int) -> int:
        return 1 if (now - self.phase) % self.period < self.busy else 0


@dataclass(frozen=True)
class StepClock:
    """Counts the `every` seconds since the epoch, round and round through `steps` states."""

    every: float
    steps: int

    def state(self, now: float, tick: int) -> int:
        return int(now / self.every + 1e-6) % self.steps


@dataclass(frozen=True)
class TickClock:
    """Counts ticks; at the end stays there, or starts again."""

    steps: int
    loop: bool

    def state(self, now: float, tick: int) -> int:
        return tick % self.steps if self.loop else min(tick, self.steps - 1)


Clock = SquareClock | StepClock | TickClock


@dataclass(frozen=True)
class Constant:
    """Always the same; None is `N/A`."""

    value: Plain

    clock: None = field(default=None, init=False, repr=False)

    def at(self, state: int) -> Plain:
        return self.value

    def between(self, low: float, high: float) -> Constant:
        assert isinstance(self.value, (int, float))
        return Constant(low + (high - low) * self.value)

    def integral(self, seconds: float) -> float:
        return float(self.value) * seconds if isinstance(self.value, (int, float)) else 0.0


@dataclass(frozen=True)
class Square:
    """`high` for the first `busy` seconds of each `period`, else `low`; periods are counted from Unix time `phase`."""

    low: float = 0.0
    high: float = 1.0
    period: float = 1.0
    busy: float = 0.3
    phase: float = 0.0

    @property
    def clock(self) -> SquareClock:
        return SquareClock(self.period, self.busy, self.phase)

    def at(self, state: int) -> Plain:
        return self.high if state else self.low

    def between(self, low: float, high: float) -> Square:
        span = high - low
        return Square(low + span * self.low, low + span * self.high, self.period, self.busy, self.phase)

    def integral(self, seconds: float) -> float:
        periods, rest = divmod(seconds - self.phase, self.period)
        busy = periods * self.busy + min(rest, self.busy)
        return self.low * seconds + (self.high - self.low) * busy


@dataclass(frozen=True)
class Stream:
    """The values of a working GPU: they follow the load of a stream, each with noise of its own.

    Attributes:
        gpu: its place; every GPU has a load of its own.
        field: id of the DCGM field; every field has noise of its own.
    """

    name: StreamName
    gpu: int = 0
    field: int = 0
    low: float = 0.0
    high: float = 1.0

    @property
    def clock(self) -> StepClock:
        return StepClock(STREAM_SECONDS, STREAM_STEPS)

    def at(self, state: int) -> float:
        span = self.high - self.low
        # Ratios are printed with three decimals: more noise shows that a pipe which is hardly used changes, too.
        own = NOISE * max(abs(span), 1.0) * noise(f"{self.gpu}/{self.field}", state)
        return self.low + span * load(self.name, str(self.gpu), state) + own

    def between(self, low: float, high: float) -> Stream | Constant:
        if low == high:
            return Constant(low)
        span = high - low
        return replace(self, low=low + span * self.low, high=low + span * self.high)

    def integral(self, seconds: float) -> float:
        sums = _sums(self)
        steps, rest = divmod(seconds, STREAM_SECONDS)
        rounds, step = divmod(int(steps), STREAM_STEPS)
        return (rounds * sums[-1] + sums[step]) * STREAM_SECONDS + self.at(step) * rest


@cache
def _sums(stream: Stream) -> list[float]:
    return list(accumulate(map(stream.at, range(STREAM_STEPS)), initial=0.0))


@dataclass(frozen=True)
class Sequence:
    """One given value per tick; then the last one again, or from the start."""

    values: tuple[Plain, ...]
    loop: bool = False

    @property
    def clock(self) -> TickClock:
        return TickClock(len(self.values), self.loop)

    def at(self, state: int) -> Plain:
        return self.values[state]


Rate = Constant | Square | Stream


@dataclass(frozen=True)
class Counter:
    """Grows by `rate` per second from `start` at Unix time `since`. A `since` of now is a counter that was reset."""

    rate: Rate = Constant(1.0)
    start: float = 0.0
    since: float = 0.0

    def count(self, now: float) -> int:
        return int(self.start + self.rate.integral(now) - self.rate.integral(self.since))


Signal = Constant | Square | Stream | Sequence | Counter
"""What a cell shows over time."""
