"""Workload class: what kind of work a GPU does, by the first rule of the class table that matches.

A class is only named when every possible filling-in of the missing inputs leads to it. The thresholds cut the range of
every variable into cells within which no rule distinguishes two values, so what the inputs can be is a box of whole
cells: some thousand at most. The class of each cell that physics allows is a candidate. This module must not depend on
sources.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from pulsed.compute.activity import PERCENT_ROUNDING, media_of
from pulsed.compute.class_table import VARIABLES, ClassRule, ClassThresholds, Condition, Profile, Variable, rules_of
from pulsed.compute.products import PCIE_BYTES_PER_SECOND, ChipToChipLink, memory_bandwidth_of
from pulsed.compute.settings import ComputeSettings
from pulsed.model.gpu import Device
from pulsed.model.interval import Interval, between, exactly
from pulsed.model.result import Bounds, Inputs, Workload
from pulsed.model.vocabulary import CLASSES, UNKNOWN, Reading

ORDERED_INPUTS: tuple[tuple[Variable, Variable], ...] = (
    ("tensor", "graphics_engine"),
    ("fp64", "graphics_engine"),
    ("tensor", "sm"),
    ("fp64", "sm"),
    ("sm", "graphics_engine"),
)
"""The physics of `pulsed.compute.activity` between the variables of the rules: the first is at most the second."""

REMEMBERED = 4096
"""Boxes whose answer a classifier keeps. Complete inputs that obey physics have at most 1,000."""

Cell = tuple[int, ...]
"""By variable, the number of its thresholds that are not above the value."""

Box = tuple[Cell, Cell]
"""What the inputs can be: the lowest and the highest cell of each of `VARIABLES`, both included."""


def traffic(
    device: Device,
    reading: Reading,
    high: Inputs,
    settings: ComputeSettings,
    link: ChipToChipLink | None,
    rounding: float = 0.0,
) -> Interval:
    """Bound the largest direction of PCIe and the chip-to-chip link, bytes/s.

    A part of a GPU has no such traffic: exactly 0. Traffic reads or writes device memory, or a kernel causes it: where
    neither shows activity, given the highest that the inputs can be, missing traffic is what `rounding` hides. Missing
    traffic of a superchip's link is limited by how active both can be; other products have no such link. The profile
    `kempnerpulse` has PCIe alone: a busy copy engine counts as traffic without limit, and an unknown
    `memory_utilization_ratio` leaves the traffic open.

    Args:
        high: the highest that the inputs can be.
        rounding: how much higher a printed input may be.
    """
    if not device.whole:
        return exactly(0.0)
    sent = reading.pcie_transmit_bytes_per_second
    received = reading.pcie_receive_bytes_per_second
    low = max(sent or 0.0, received or 0.0)
    limit = math.inf if sent is None or received is None else low
    if settings.workload.profile == "kempnerpulse":
        copying = reading.memory_utilization_ratio
        if copying is None:
            limit = math.inf
        elif copying >= settings.workload.thresholds.io_memory_utilization_ratio:
            return exactly(math.inf)
    elif limit == math.inf:
        limit = _hidden_traffic(device, reading, high, rounding)
    most = max(low, limit) if settings.missing == "bounds" else low
    if settings.workload.profile == "kempnerpulse":
        return between(low, most)
    sent, received = reading.c2c_transmit_bytes_per_second, reading.c2c_receive_bytes_per_second
    if sent is None and received is None and link is None:
        return between(low, most)
    low = max(low, sent or 0.0, received or 0.0)
    if link is not None and (sent is None or received is None) and settings.missing == "bounds":
        most = max(most, link.limit(high.dram + rounding, high.graphics_engine + rounding))
    return between(low, max(low, most))


def _hidden_traffic(device: Device, reading: Reading, high: Inputs, rounding: float) -> float:
    """Return the most PCIe traffic that activity of 0 hides, bytes/s; without limit where there is activity.

    DRAM activity counts cycles, and so is traffic over the bandwidth of device memory; the driver's utilization counts
    the time in which memory is accessed, during which traffic is no faster than PCIe.
    """
    dram, utilization = reading.dram_active_ratio, reading.memory_utilization_ratio
    is_still = high.dram <= (PERCENT_ROUNDING if dram is None else 0.0) and high.graphics_engine <= (
        PERCENT_ROUNDING if reading.graphics_engine_active_ratio is None else 0.0
    )
    if not is_still:
        return math.inf
    copied = (high.dram + rounding) * memory_bandwidth_of(device.model)
    if dram is None and utilization is not None:
        copied = min(copied, (utilization + PERCENT_ROUNDING) * PCIE_BYTES_PER_SECOND)
    return copied + (high.graphics_engine + rounding) * PCIE_BYTES_PER_SECOND


def has_other_work(device: Device, reading: Reading, thresholds: ClassThresholds) -> bool:
    """Return whether a measured engine works that the rules may not consider: NVLink, and media engines.

    With the class this decides whether the GPU is used (`Workload.used`). Traffic below the limit of `io` is noise.
    """
    if media_of(reading) >= thresholds.idle_media_ratio:
        return True
    if not device.whole:
        return False
    transmit, receive = reading.nvlink_transmit_bytes_per_second, reading.nvlink_receive_bytes_per_second
    both = reading.nvlink_bandwidth_bytes_per_second
    return max(transmit or 0.0, receive or 0.0, (both or 0.0) / 2.0) >= thresholds.io_bytes_per_second


class Classifier:
    """The class table of a profile, compiled for one set of thresholds. It remembers the answers for boxes of cells."""

    def __init__(self, thresholds: ClassThresholds, profile: Profile = "pulsed") -> None:
        self._rules = rules_of(profile)
        cuts: dict[Variable, set[float]] = {variable: set() for variable in VARIABLES}
        for rule in self._rules:
            for condition in rule.conditions:
                cuts[condition.variable].add(getattr(thresholds, condition.threshold))
        self._cuts = tuple(tuple(sorted(cuts[variable])) for variable in VARIABLES)
        self._comparisons = tuple(tuple(self._compiled(c, thresholds) for c in rule.conditions) for rule in self._rules)
        self._orders = tuple(self._order(VARIABLES.index(low), VARIABLES.index(high)) for low, high in ORDERED_INPUTS)
        self._remembered: dict[Box, Workload] = {}

    def classify(self, bounds: Bounds, real_utilization: Interval, io: Interval, media: float = 0.0) -> Workload:
        """Return the class that every filling-in of the missing inputs leads to, or the candidates.

        Real utilization is bounded on its own, though it follows from the inputs. That is sound, and with thresholds
        as the default ones it loses nothing: the other conditions of `idle` imply this one.
        """
        box = self._box(bounds, real_utilization, io, media)
        workload = self._remembered.get(box)
        if workload is None:
            if len(self._remembered) >= REMEMBERED:
                self._remembered.clear()
            workload = self._remembered[box] = _answer(self._candidates(box))
        return workload

    def reached(self, bounds: Bounds, real_utilization: Interval, io: Interval, media: float = 0.0) -> list[ClassRule]:
        """Return the rules that a filling-in of the missing inputs leads to, in their order; as `classify` does."""
        return self._candidates(self._box(bounds, real_utilization, io, media))

    def _box(self, bounds: Bounds, real_utilization: Interval, io: Interval, media: float) -> Box:
        low = tuple(map(bisect_right, self._cuts, (*bounds.low, real_utilization.low, io.low, media)))
        if bounds.low is bounds.high and io.low == io.high:
            return (low, low)
        return (low, tuple(map(bisect_right, self._cuts, (*bounds.high, real_utilization.high, io.high, media))))

    def _compiled(self, condition: Condition, thresholds: ClassThresholds) -> _Comparison:
        position = VARIABLES.index(condition.variable)
        least = bisect_right(self._cuts[position], getattr(thresholds, condition.threshold))
        return _Comparison(position, condition.comparison == ">=", least)

    def _order(self, lesser: int, greater: int) -> _Order:
        starts = (0.0, *self._cuts[lesser])
        return _Order(lesser, greater, tuple(bisect_right(self._cuts[greater], start) for start in starts))

    def _candidates(self, box: Box) -> list[ClassRule]:
        """Return the rules that match a cell of the box first."""
        # An order that the inputs contradict (noise) is not applied.
        orders = [order for order in self._orders if order.allows(box[0]) and order.allows(box[1])]
        cells = product(*[range(low, high + 1) for low, high in zip(*box, strict=True)])
        matching = {self._first_match(cell) for cell in cells if all(order.allows(cell) for order in orders)}
        return [self._rules[number] for number in sorted(matching)]

    def _first_match(self, cell: Cell) -> int:
        return next(
            number
            for number, comparisons in enumerate(self._comparisons)
            if all((cell[position] >= least) is at_least for position, at_least, least in comparisons)
        )


@lru_cache(maxsize=8)
def classifier(thresholds: ClassThresholds, profile: Profile) -> Classifier:
    """Compile the class table, once per set of thresholds and profile."""
    return Classifier(thresholds, profile)


def _answer(candidates: list[ClassRule]) -> Workload:
    """Return what the candidates have in common: the class of a single one, and the bottleneck if all share it."""
    bottlenecks = {rule.bottleneck for rule in candidates}
    bottleneck = bottlenecks.pop() if len(bottlenecks) == 1 else UNKNOWN
    names = {rule.name for rule in candidates}
    if len(names) == 1:
        return Workload(names.pop(), bottleneck)
    return Workload(UNKNOWN, bottleneck, tuple(name for name in CLASSES if name in names))


class _Comparison(NamedTuple):
    """A condition in cells: whether the variable must be in the cell `least` or above, or below it."""

    position: int
    at_least: bool
    least: int


class _Order(NamedTuple):
    """One variable is at most another; `floor` has the lowest cell of the greater by cell of the lesser."""

    lesser: int
    greater: int
    floor: Cell

    def allows(self, cell: Cell) -> bool:
        return cell[self.greater] >= self.floor[cell[self.lesser]]
