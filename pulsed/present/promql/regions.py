"""The region of each workload class in the space of all inputs, as a minimal set of boxes.

A class is reached if its rule matches and no earlier rule does. That is a union of boxes, one interval per variable;
the class is possible exactly if the bounds of the inputs intersect one of them. Expanding the earlier rules yields the
largest boxes, of which the redundant are dropped. This module must not depend on PromQL.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

from pulsed.compute.class_table import VARIABLES, ClassThresholds, Condition, Profile, Variable, rules_of
from pulsed.compute.classifier import AT_MOST
from pulsed.model.vocabulary import CLASSES


class Interval(NamedTuple):
    """From `start` inclusive to `end` exclusive; infinite without a limit."""

    start: float = -math.inf
    end: float = math.inf

    def within(self, other: Interval) -> bool:
        """Return whether this is contained in the other."""
        return other.start <= self.start and self.end <= other.end


EVERYTHING = Interval()

Order = tuple[Variable, Variable]
"""One of `AT_MOST`: the first variable is at most the second."""


@dataclass(frozen=True)
class Box:
    """A part of a class's region: one interval per constrained variable."""

    sides: Mapping[Variable, Interval]

    def side(self, variable: Variable) -> Interval:
        """Return the interval of a variable."""
        return self.sides.get(variable, EVERYTHING)

    def within(self, other: Box) -> bool:
        """Return whether this is contained in the other."""
        return all(self.side(variable).within(side) for variable, side in other.sides.items())

    def cut(self, variable: Variable, interval: Interval) -> Box | None:
        """Return the part in which the variable is in the interval; None if it is empty."""
        side = self.side(variable)
        start, end = max(side.start, interval.start), min(side.end, interval.end)
        return Box({**self.sides, variable: Interval(start, end)}) if start < end else None


@dataclass(frozen=True)
class Region:
    """The region of a class: the boxes that are physically possible, and impossible ones, which are noise.

    A box of noise counts if readings contradict an order of each of its groups.
    """

    boxes: tuple[Box, ...]
    noise: tuple[tuple[Box, tuple[tuple[Order, ...], ...]], ...]


@dataclass(frozen=True)
class Regions:
    """The regions of all classes for one set of thresholds and a profile."""

    thresholds: ClassThresholds
    profile: Profile = "pulsed"

    @cached_property
    def cuts(self) -> Mapping[Variable, tuple[float, ...]]:
        """The thresholds of every variable, ascending."""
        found: dict[Variable, set[float]] = {variable: set() for variable in VARIABLES}
        for rule in rules_of(self.profile):
            for condition in rule.conditions:
                found[condition.variable].add(self._threshold(condition))
        return {variable: tuple(sorted(values)) for variable, values in found.items()}

    @cached_property
    def of(self) -> Mapping[str, Region]:
        """The region of every class."""
        rules = rules_of(self.profile)
        reached: dict[str, list[Box]] = {name: [] for name in CLASSES}
        for position, rule in enumerate(rules):
            boxes = [Box({})]
            for condition in rule.conditions:
                boxes = _cut(boxes, [self._side(condition, inside=True)])
            for earlier in rules[:position]:
                if earlier.name != rule.name:  # then the same class is reached by either
                    outside = [self._side(condition, inside=False) for condition in earlier.conditions]
                    boxes = _largest(_cut(boxes, outside))
            reached[rule.name] = _largest([*reached[rule.name], *boxes])
        return {name: self._split(self._needed(boxes)) for name, boxes in reached.items()}

    def contradictions(self, order: Order) -> tuple[tuple[float, float], ...]:
        """Return which readings contradict an order; noise below the resolution of the thresholds is ignored.

        Of each pair: the order is contradicted if the lesser is at or above the first number and the greater below
        the second.
        """
        lesser, greater = (self.cuts[variable] for variable in order)
        pairs = []
        for cut in lesser:
            below = bisect_right(greater, cut)
            if below:
                pairs.append((cut, greater[below - 1]))
        # A larger cut with the same other half is redundant.
        return tuple(pair for number, pair in enumerate(pairs) if not number or pairs[number - 1][1] != pair[1])

    def _threshold(self, condition: Condition) -> float:
        value: float = getattr(self.thresholds, condition.threshold)
        return value

    def _side(self, condition: Condition, *, inside: bool) -> tuple[Variable, Interval]:
        """Return the interval in which a condition is true, or the one in which it is false."""
        value = self._threshold(condition)
        above = (condition.comparison == ">=") == inside
        return condition.variable, Interval(start=value) if above else Interval(end=value)

    def _needed(self, boxes: list[Box]) -> list[Box]:
        """Return the boxes without those that others cover: first impossible ones, then those with the most sides."""
        cells = {id(box): self._cells(box) for box in boxes}
        kept = list(boxes)
        for box in sorted(boxes, key=lambda box: (not self._forbidden(box), -len(box.sides), len(cells[id(box)]))):
            others = [cells[id(other)] for other in kept if other is not box]
            if cells[id(box)] <= frozenset[tuple[int, ...]]().union(*others):
                kept.remove(box)
        return kept

    def _cells(self, box: Box) -> frozenset[tuple[int, ...]]:
        """Return the cells between neighbouring thresholds that a box consists of."""
        return frozenset(product(*(self._range(variable, box.side(variable)) for variable in VARIABLES)))

    def _range(self, variable: Variable, side: Interval) -> range:
        cuts = self.cuts[variable]
        return range(bisect_right(cuts, side.start), bisect_left(cuts, side.end) + 1)

    def _split(self, boxes: list[Box]) -> Region:
        allowed = tuple(box for box in boxes if not self._forbidden(box))
        return Region(allowed, tuple((box, found) for box in boxes if (found := self._forbidden(box))))

    def _forbidden(self, box: Box) -> tuple[tuple[Order, ...], ...]:
        """Return the chains of one or two orders that no point of the box satisfies."""
        return tuple(chain for chain in _CHAINS if not self._obeyed_somewhere(box, chain))

    def _obeyed_somewhere(self, box: Box, chain: tuple[Order, ...]) -> bool:
        """Return whether a point of the box satisfies a chain: the classifier's propagation of the lower bound."""
        floor = box.side(chain[0][0]).start
        for _, greater in chain:
            cuts = self.cuts[greater]
            cell = bisect_right(cuts, floor)
            floor = cuts[cell - 1] if cell else -math.inf
        return cell <= self._range(greater, box.side(greater))[-1]


_CHAINS: tuple[tuple[Order, ...], ...] = (
    *((order,) for order in AT_MOST),
    *((first, second) for first in AT_MOST for second in AT_MOST if first[1] == second[0]),
)


def _cut(boxes: Sequence[Box], sides: Sequence[tuple[Variable, Interval]]) -> list[Box]:
    """Return the parts of the boxes that are within one of the sides."""
    return [part for box in boxes for side in sides if (part := box.cut(*side)) is not None]


def _largest(boxes: list[Box]) -> list[Box]:
    """Return the boxes that no other one contains."""
    kept: list[Box] = []
    for box in sorted(boxes, key=lambda box: len(box.sides)):
        if not any(box.within(other) for other in kept):
            kept = [other for other in kept if not other.within(box)]
            kept.append(box)
    return kept
