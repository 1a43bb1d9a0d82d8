"""Increase rules: the increase of a counter within a window, across resets and misread values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from pulsed.compute.health.inputs import GpuInputs
from pulsed.compute.health.model import State, has_passed
from pulsed.compute.health.rule import Rule, RuleState, When, duration

_PARTS = 60
"""Parts of a window: an increase leaves it up to one part late."""


@dataclass(frozen=True, kw_only=True)
class Increase(Rule):
    """The measure is the increase of a counter within a window; of several inputs the first that is present counts.

    Attributes:
        window: seconds.
        per: the increase is given per so many seconds; 0 for the increase within the window, where each is an event.
        lifetime: the counter never falls in the life of a board: only values above its peak are an increase.
        limit: returns the number that the measure is divided by.
        limit_inputs: inputs of `limit`.
    """

    window: float
    per: float = 0.0
    lifetime: bool = False
    limit: Callable[[GpuInputs], float] | None = None
    limit_inputs: tuple[str, ...] = ()

    @property
    def uses(self) -> tuple[str, ...]:
        """All inputs that its state depends on."""
        return (*self.inputs, *self.limit_inputs, *(when.quantity for when in self.when))

    @property
    def counts_events(self) -> bool:
        """Whether each step of the counter is an event."""
        return not self.per

    def measure(self, state: RuleState, inputs: GpuInputs, now: float) -> float | None:
        """Return the increase; None before the second value."""
        chosen: CounterIncrease | None = None
        state.events = 0
        if state.increases is None:
            state.increases = {}
        for name, position in zip(self.inputs, self.positions, strict=True):
            value = inputs.values[position]
            if value is None:
                continue
            increase = state.increases.get(name)
            if increase is None:
                increase = state.increases[name] = CounterIncrease(self.window, self.lifetime)
            grown = increase.update(value, now, inputs.gap_seconds if self.per else 0.0)
            if not increase.settled:
                state.due = -inf  # the next sample settles it
            if chosen is None:
                chosen = increase
                if grown and not self.per:
                    state.events = max(1, int(grown))
        if chosen is None:
            return None
        state.event_at = chosen.grown
        if not chosen.settled:
            return None
        state.due = min(state.due, chosen.due)
        measure = chosen.total * self.per / self.window if self.per else chosen.total
        return measure / self.limit(inputs) if self.limit else measure

    def evaluate(self, state: RuleState, inputs: GpuInputs, now: float) -> bool:
        """Update the state for one GPU; return whether anything changed that the state of a check is made of."""
        event_at = state.event_at
        return Rule.evaluate(self, state, inputs, now) or state.events > 0 or state.event_at != event_at

    def _condition(self) -> str:
        return f"{Rule._condition(self)} within {duration(self.window)}"


def step(
    counter: str, state: State, text: str, window: float, *, lifetime: bool = False, when: tuple[When, ...] = ()
) -> Increase:
    """Return a rule for a counter that must not increase; the state lasts for the window."""
    name = f"{counter.removesuffix('_total')}_step"
    return Increase(name, {state: 1}, text, (counter,), window=window, lifetime=lifetime, when=when)


@dataclass(slots=True, eq=False)
class CounterIncrease:
    """Increase of one counter of one GPU.

    A counter that falls was reset, and counts from there; one that returns to its former value was misread.

    Attributes:
        seconds: length of the window.
        lifetime: the counter never falls: only values above its peak are an increase.
        last: the newest value; None before the first.
        peak: the highest value.
        parts: time and amount of each increase within the window; mostly empty, which needs no memory.
        settled: whether two values were seen.
        grown: time of the last increase; None for never.
    """

    seconds: float
    lifetime: bool
    last: float | None = None
    peak: float = -inf
    parts: tuple[tuple[float, float], ...] = ()
    settled: bool = False
    grown: float | None = None

    def update(self, value: float, now: float, gap: float = 0.0) -> float:
        """Return the increase since the last value.

        Args:
            value: of the counter.
            now: seconds.
            gap: seconds without a sample before this one. An increase in a gap that is longer than the window counts
                with the share of the window, as if it had been steady.
        """
        self._expire(now)
        last, self.last = self.last, value
        peak, self.peak = self.peak, max(self.peak, value)
        if last is None:
            return 0.0
        self.settled = True
        increase = max(value - (peak if self.lifetime or value >= peak else last), 0.0)
        increase *= self.seconds / max(gap, self.seconds)
        if increase:
            self._add(now, increase)
        return increase

    @property
    def total(self) -> float:
        """Increase within the window."""
        return sum([amount for _, amount in self.parts])

    @property
    def due(self) -> float:
        """When an increase leaves the window."""
        return self.parts[0][0] + self.seconds if self.parts else inf

    def _add(self, now: float, increase: float) -> None:
        parts = self.parts
        if parts and now - parts[-1][0] < self.seconds / _PARTS:
            when, amount = parts[-1]
            self.parts = (*parts[:-1], (when, amount + increase))
        else:
            self.parts = (*parts, (now, increase))
        self.grown = now

    def _expire(self, now: float) -> None:
        while self.parts and has_passed(self.seconds, self.parts[0][0], now):
            self.parts = self.parts[1:]
