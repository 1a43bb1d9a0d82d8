"""Probes that look at a window: steps and rates of counters, shares of time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from math import inf

from pulsed.compute.health.clock_events import FEWEST_SAMPLES
from pulsed.compute.health.growth import Window
from pulsed.compute.health.model import SEVERITY
from pulsed.compute.health.probe import Probe, View
from pulsed.compute.health.rule import Duty, Growth

# Replays per minute and lane that a bit error rate of 1e-12 explains, by generation (DCGM's PCIe watch). 4 and newer
# would do with less, as links correct more; DCGM scales them all alike.
_REPLAYS_PER_LANE: Mapping[int, float] = {1: 0.15, 2: 0.3, 3: 0.48, 4: 0.96, 5: 1.92, 6: 3.84}
_UNKNOWN_LINK = (5, 16)

_NOTHING_PROVEN: frozenset[str] = frozenset()


class GrowthProbe(Probe[Growth]):
    """How much a counter grew."""

    __slots__ = ("windows",)

    def __init__(self, rule: Growth) -> None:
        super().__init__(rule)
        self.windows: dict[str, Window] = {}

    @property
    def counts_events(self) -> bool:
        """Whether it counts steps one by one."""
        return not self.rule.per

    def _measure(self, view: View, now: float) -> float | None:
        rule = self.rule
        chosen: Window | None = None
        for name in rule.inputs:
            value = view.value(name)
            if value is None:
                continue
            window = self.windows.get(name)
            if window is None:
                window = self.windows[name] = Window(rule.window, rule.lifetime)
            grown = window.follow(value, now)
            if not window.settled:
                self.due = -inf  # the next sample settles it
            if chosen is None:
                chosen = window
                if grown and not rule.per:
                    self.events += max(1, int(grown))
        if chosen is None:
            return None
        self.event_at = chosen.grown
        if not chosen.settled:
            return None
        if chosen.due > now:
            self.due = min(self.due, chosen.due)
        growth = chosen.total * rule.per / rule.window if rule.per else chosen.total
        return growth / self._limit(view) if rule.pcie_limit else growth

    def _limit(self, view: View) -> float:
        """Give the replays per minute that are no fault. Of the link's best speed: an idle one runs slower."""
        generation = int(view.value("pcie_link_generation_max") or _UNKNOWN_LINK[0])
        width = view.value("pcie_link_width") or view.value("pcie_link_width_max") or _UNKNOWN_LINK[1]
        per_lane = _REPLAYS_PER_LANE.get(generation, _REPLAYS_PER_LANE[6])
        return float(max(1, math.ceil(per_lane * width - 1e-9)))


class DutyProbe(Probe[Duty]):
    """For which share of time the clocks were held. Asked when a part of the clock events' window is complete.

    Attributes:
        rests: whether there is no counter, and the share is 0 by the clock events, or cannot be told by them. It stays
            so until one of the rule's bits is seen, or a counter.
    """

    __slots__ = ("_is_uncertain", "_points", "_proven", "rests")

    def __init__(self, rule: Duty) -> None:
        super().__init__(rule)
        self._points: dict[str, list[tuple[float, float]]] = {}
        self._proven = _NOTHING_PROVEN
        self._is_uncertain = False
        self.rests = False

    def _measure(self, view: View, now: float) -> float | None:
        rule = self.rule
        self._is_uncertain = self.rests = False
        found: float | None = None
        for name in rule.inputs:
            value = view.value(name)
            if value is None:
                self._points.pop(name, None)
                continue
            share = self._growing(name, value, now)
            if share is not None and (found is None or share > found):
                found = share
                self._is_uncertain = rule.uncertain and name not in self._proven and share > 0
        if found is not None:
            return min(found, 1.0)
        if not rule.bits or view.value("clocks_event_reasons") is None:
            return None
        return view.clock_events.share(rule.bits, rule.window, now)

    def ask(self, view: View, now: float) -> int:
        """Work out the severity now; -1 for unknown; at most info from a counter whose unit is not known."""
        severity = super().ask(view, now)
        if self._is_uncertain and severity == 0:
            severity = self.gate.held = SEVERITY["info"]
        is_settled = (severity == 0 and self.measure == 0.0) if self.rule.bits else severity < 0
        self.rests = is_settled and not self._points
        return severity

    def _growing(self, name: str, value: float, now: float) -> float | None:
        points = self._points.setdefault(name, [])
        if points and value < points[-1][1]:
            points.clear()  # the driver was loaded anew
        if points and now > points[-1][0] and (value - points[-1][1]) / (now - points[-1][0]) > 2e-3:
            # Microseconds grow by 1e-3 per second at most when taken for nanoseconds.
            self._proven |= {name}
        points.append((now, value))
        while len(points) > FEWEST_SAMPLES and now - points[1][0] >= self.rule.window:
            del points[0]
        if len(points) < FEWEST_SAMPLES:
            return None
        return (value - points[0][1]) / max(now - points[0][0], self.rule.window)
