"""Workload class: what kind of work a GPU does, by the first rule of the class table that matches.

A class is only named when every possible filling-in of the missing inputs leads to it. How that is decided: the
thresholds cut the range of every variable into cells within which no rule distinguishes two values, so "what the
inputs can be" is a box of whole cells. The rules are walked with that box. A rule that is true for all of it settles
the class; one that is false is skipped; an open one splits it: the part that matches makes the class a candidate, the
parts that do not match go on to the next rule. This module must not depend on weights or sources.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from functools import lru_cache
from typing import Literal, NamedTuple

from pulsed.compute.class_table import VARIABLES, ClassRule, ClassThresholds, Condition, Profile, Variable, rules_of
from pulsed.compute.products import ChipToChipLink
from pulsed.model.computed_tick import Bounds, Inputs, Workload
from pulsed.model.vocabulary import CLASSES, UNKNOWN, Reading

Missing = Literal["bounds", "zero"]
"""What a missing input is: anything that physics allows, or 0 (the older convention)."""

AT_MOST: tuple[tuple[Variable, Variable], ...] = (
    ("tensor", "graphics_engine"),
    ("fp64", "graphics_engine"),
    ("tensor", "sm"),
    ("fp64", "sm"),
    ("sm", "graphics_engine"),
)
"""The physics of `pulsed.compute.bounds` between the variables of the rules: the first is at most the second. Ordered
so that one pass forward settles all floors and one backward all ceilings."""

REMEMBERED = 4096
"""Boxes whose answer a classifier keeps. Complete inputs that obey physics have at most 1,000."""

Cells = tuple[int, ...]
Box = tuple[Cells, Cells]
"""What the inputs can be: lowest and highest cell of each of `VARIABLES`, both included."""


def traffic(
    reading: Reading,
    high: Inputs,
    thresholds: ClassThresholds,
    *,
    whole: bool,
    link: ChipToChipLink | None = None,
    profile: Profile,
    missing: Missing,
) -> tuple[float, float]:
    """Bound the largest direction of PCIe and the chip-to-chip link, bytes/s.

    Below a whole GPU there is none: exactly 0. Traffic reads or writes device memory, or a kernel causes it: where
    neither can be active, missing traffic is none. Missing traffic of a superchip's link is limited by how active both
    can be; other products have no such link. The profile `kempnerpulse` has PCIe alone: a busy copy engine counts as
    traffic without limit, and an unknown `memory_utilization_ratio` leaves the traffic open.

    Args:
        reading: what was measured.
        high: the highest that its inputs can be, from `bounds_of`.
        thresholds: of the profile `kempnerpulse`.
        whole: whether it is a whole GPU.
        link: its chip-to-chip link; None if it is no superchip.
        profile: whose rule.
        missing: what missing traffic is.
    """
    if not whole:
        return 0.0, 0.0
    sent = reading.pcie_transmit_bytes_per_second
    received = reading.pcie_receive_bytes_per_second
    low = max(sent or 0.0, received or 0.0)
    open_ended = sent is None or received is None
    if profile == "kempnerpulse":
        copying = reading.memory_utilization_ratio
        if copying is None:
            open_ended = True
        elif copying >= thresholds.io_memory_utilization_ratio:
            return math.inf, math.inf
    elif high.dram <= 0.0 and high.graphics_engine <= 0.0:
        open_ended = False
    most = math.inf if open_ended and missing == "bounds" else low
    if profile == "kempnerpulse":
        return low, most
    sent, received = reading.c2c_transmit_bytes_per_second, reading.c2c_receive_bytes_per_second
    if sent is None and received is None and link is None:
        return low, most
    low = max(low, sent or 0.0, received or 0.0)
    if link is not None and (sent is None or received is None) and missing == "bounds":
        most = max(most, link.limit(high.dram, high.graphics_engine))
    return low, max(low, most)


class Classifier:
    """The class table of a profile, compiled for one set of thresholds.

    It remembers answers: a box of cells is looked up, and only a box that was not seen before walks the rules.
    """

    def __init__(self, thresholds: ClassThresholds, profile: Profile = "pulsed") -> None:
        self._table = rules_of(profile)
        cuts: dict[Variable, set[float]] = {variable: set() for variable in VARIABLES}
        for rule in self._table:
            for condition in rule.conditions:
                cuts[condition.variable].add(getattr(thresholds, condition.threshold))
        self._cuts = tuple(tuple(sorted(cuts[variable])) for variable in VARIABLES)
        self._rules = tuple(tuple(self._compiled(c, thresholds) for c in rule.conditions) for rule in self._table)
        self._orders = tuple(_Order.between(low, high, self._cuts) for low, high in AT_MOST)
        self._remembered: dict[Box, Workload] = {}

    def classify(self, bounds: Bounds, real_utilization: tuple[float, float], io: tuple[float, float]) -> Workload:
        """Return the class that every filling-in of the missing inputs leads to, or the candidates.

        Real utilization is bounded on its own, though it follows from the inputs. That is sound, and with thresholds
        as the default ones it loses nothing: the other conditions of `idle` imply this one.
        """
        box = self._box(bounds, real_utilization, io)
        workload = self._remembered.get(box)
        if workload is None:
            if len(self._remembered) >= REMEMBERED:
                self._remembered.clear()
            workload = self._remembered[box] = _answer(self._candidates(box))
        return workload

    def reached(
        self, bounds: Bounds, real_utilization: tuple[float, float], io: tuple[float, float]
    ) -> list[ClassRule]:
        """Return the rules that a filling-in of the missing inputs leads to, in their order; as `classify` does."""
        return self._candidates(self._box(bounds, real_utilization, io))

    def _box(self, bounds: Bounds, real_utilization: tuple[float, float], io: tuple[float, float]) -> Box:
        low = tuple(map(bisect_right, self._cuts, (*bounds.low, real_utilization[0], io[0])))
        if bounds.low is bounds.high and io[0] == io[1]:
            return (low, low)
        return (low, tuple(map(bisect_right, self._cuts, (*bounds.high, real_utilization[1], io[1]))))

    def _compiled(self, condition: Condition, thresholds: ClassThresholds) -> _Comparison:
        position = VARIABLES.index(condition.variable)
        cell = bisect_right(self._cuts[position], getattr(thresholds, condition.threshold))
        return _Comparison(position, condition.comparison == ">=", cell)

    def _candidates(self, box: Box) -> list[ClassRule]:
        """Walk the rules; return those that a filling-in can reach."""
        # An order that the inputs contradict (noise) is not applied.
        orders = tuple(order for order in self._orders if order.agrees_with(box))
        candidates = []
        unmatched = [box]
        for rule, comparisons in zip(self._table, self._rules, strict=True):
            boxes, unmatched = unmatched, []
            reached = False
            for part in boxes:
                matching: Box | None = part
                for comparison in comparisons:
                    if matching is None:
                        break
                    matching, rest = comparison.split(matching, orders)
                    if rest is not None:
                        unmatched.append(rest)
                reached = reached or matching is not None
            if reached:
                candidates.append(rule)
        return candidates


@lru_cache(maxsize=8)
def classifier(thresholds: ClassThresholds, profile: Profile) -> Classifier:
    """Compile the class table, once per set of thresholds and profile."""
    return Classifier(thresholds, profile)


def _answer(candidates: list[ClassRule]) -> Workload:
    """Settle what the candidates have in common: the class if there is one only, and the bottleneck if all share it."""
    bottlenecks = {rule.bottleneck for rule in candidates}
    bottleneck = bottlenecks.pop() if len(bottlenecks) == 1 else UNKNOWN
    names = {rule.name for rule in candidates}
    if len(names) == 1:
        return Workload(names.pop(), bottleneck)
    return Workload(UNKNOWN, bottleneck, tuple(name for name in CLASSES if name in names))


class _Order(NamedTuple):
    """One variable is at most another, in cells.

    Attributes:
        lesser, greater: their positions in a box.
        floor: by cell of the lesser, the lowest cell that the greater can be in.
        ceiling: by cell of the greater, the highest cell that the lesser can be in.
    """

    lesser: int
    greater: int
    floor: Cells
    ceiling: Cells

    @classmethod
    def between(cls, lesser: Variable, greater: Variable, cuts: tuple[tuple[float, ...], ...]) -> _Order:
        low, high = VARIABLES.index(lesser), VARIABLES.index(greater)
        floor = (0, *(bisect_right(cuts[high], start) for start in cuts[low]))
        ceiling = (*(bisect_left(cuts[low], end) for end in cuts[high]), len(cuts[low]))
        return cls(low, high, floor, ceiling)

    def agrees_with(self, box: Box) -> bool:
        low, high = box
        return (
            self.floor[low[self.lesser]] <= low[self.greater] and high[self.lesser] <= self.ceiling[high[self.greater]]
        )


class _Comparison(NamedTuple):
    """A condition in cells: `at_least` whether the variable at `position` must be in `cell` or above, else below."""

    position: int
    at_least: bool
    cell: int

    def split(self, box: Box, orders: tuple[_Order, ...]) -> tuple[Box | None, Box | None]:
        """Cut the box into the part that fulfils the condition and the part that does not; None is empty."""
        low, high = box
        below: Box | None = box
        above: Box | None = box
        if high[self.position] < self.cell:
            above = None
        elif low[self.position] >= self.cell:
            below = None
        else:
            below = _shrunk(low, _replaced(high, self.position, self.cell - 1), orders)
            above = _shrunk(_replaced(low, self.position, self.cell), high, orders)
        return (above, below) if self.at_least else (below, above)


def _replaced(cells: Cells, position: int, cell: int) -> Cells:
    return (*cells[:position], cell, *cells[position + 1 :])


def _shrunk(low: Cells, high: Cells, orders: tuple[_Order, ...]) -> Box | None:
    """Return the part of a box that the orders allow; None if it is empty."""
    lowest, highest = list(low), list(high)
    for order in orders:
        lowest[order.greater] = max(lowest[order.greater], order.floor[lowest[order.lesser]])
    for order in reversed(orders):
        highest[order.lesser] = min(highest[order.lesser], order.ceiling[highest[order.greater]])
    if any(first > last for first, last in zip(lowest, highest, strict=True)):
        return None
    return tuple(lowest), tuple(highest)
