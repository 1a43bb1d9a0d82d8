"""Duty rules: the share of a window in which the clocks were reduced for a reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from pulsed.compute.health.clock_events import FEWEST_SAMPLES
from pulsed.compute.health.inputs import INPUT_POSITION, GpuInputs
from pulsed.compute.health.model import SEVERITY, State
from pulsed.compute.health.rule import MINUTE, Rule, RuleState, duration

_REASONS = INPUT_POSITION["clocks_event_reasons"]

MICROSECONDS = 1e3
"""Factor of a counter of microseconds that is read as nanoseconds."""


@dataclass(frozen=True, kw_only=True)
class Duty(Rule):
    """The measure is the share of a window in which the clocks were reduced for a reason.

    The inputs are counters of seconds; the largest share counts. Without any, the samples decide whose bit mask
    `clocks_event_reasons` has one of the bits. Evaluated when a part of the window of `ClockEvents` is complete.

    Attributes:
        window: seconds.
        bits: of `clocks_event_reasons`; 0 for counters only.
        uncertain: whether the counters may be in microseconds where the documentation has nanoseconds. Until they have
            grown faster than microseconds can, the state is info where microseconds would reach a level.
    """

    window: float = MINUTE
    bits: int = 0
    uncertain: bool = False
    number: str | None = "at {:.0%} or more"
    enter: float = MINUTE
    hold: float = 5 * MINUTE
    release: float = MINUTE
    clear_share: float = 0.5

    @cached_property
    def _harmless(self) -> float:
        """The measure below which no severity is kept: an uncertain one matters from a thousandth on."""
        return super()._harmless / (MICROSECONDS if self.uncertain else 1.0)

    @property
    def states(self) -> tuple[State, ...]:
        """The states that it can raise, the mildest first."""
        return (*(("info",) if self.uncertain else ()), *self.levels)

    @property
    def uses(self) -> tuple[str, ...]:
        """All inputs that its state depends on."""
        return (*self.inputs, "clocks_event_reasons")

    def measure(self, state: RuleState, inputs: GpuInputs, now: float) -> float | None:
        """Return the share, 0..1; None before the third sample."""
        shares = self._shares(state, inputs, now)
        if shares:
            return min(max(shares), 1.0)
        if not self.bits or inputs.values[_REASONS] is None:
            return None
        return inputs.clock_events.share(self.bits, self.window, now)

    def _shares(self, state: RuleState, inputs: GpuInputs, now: float) -> list[float]:
        """Update the counters; return the shares that are known."""
        shares = []
        counters = state.duties
        for name, position in zip(self.inputs, self.positions, strict=True):
            value = inputs.values[position]
            if value is not None and counters is None:
                counters = state.duties = {}
            if counters is not None and (value is not None or name in counters):
                counter = counters.setdefault(name, DutyCounter())
                counter.update(value, now, self.window)
                if counter.share is not None:
                    shares.append(counter.share)
        return shares

    def severities(self, state: RuleState, measure: float) -> tuple[int, int]:
        """Return the severity that a measure reaches, and the one that it keeps; info for an unproven unit."""
        if not self.uncertain or not state.duties or any(counter.is_proven for counter in state.duties.values()):
            return self.grade(measure)
        reached, kept = self.grade(measure * MICROSECONDS)
        return min(reached, SEVERITY["info"]), min(kept, SEVERITY["info"])

    def _condition(self) -> str:
        unproven = " (info at a thousandth of it while its unit is unknown)" if self.uncertain else ""
        return f"{self._thresholds()} of {duration(self.window)} with clocks reduced by {self.text}{unproven}"


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
    points: list[tuple[float, float]] = field(default_factory=list)

    def update(self, value: float | None, now: float, window: float) -> None:
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
        while len(points) > FEWEST_SAMPLES and now - points[1][0] >= window:
            del points[0]
        if len(points) >= FEWEST_SAMPLES:
            self.share = (value - points[0][1]) / max(now - points[0][0], window)
