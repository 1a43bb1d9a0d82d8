"""Bounds of a board's activity from its MIG instances, where the board's own activity is not measured.

An instance's activity is relative to the instance. Its share of the board follows from its profile: `3g.40gb` has 3
compute slices and as many memory slices as 40 GB are of the board's memory. The parts of the board that belong to no
instance are not active. This module must not depend on readings over time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

from pulsed.model.gpu import Device, is_product, product_name
from pulsed.model.interval import Interval, between, exactly
from pulsed.model.result import Bounds, Inputs
from pulsed.model.vocabulary import Reading


class InstanceShares(NamedTuple):
    """The part of a board that an instance has, 0..1.

    Attributes:
        compute: of the SMs, with their pipes and the engine in front of them.
        memory: of device memory and its bandwidth.
        slices: its compute slices; None if the profile is unknown.
    """

    compute: Interval
    memory: Interval
    slices: int | None


ALL = exactly(1.0)

UNKNOWN_PROFILE = InstanceShares(between(0.0, 1.0), between(0.0, 1.0), None)


class Partitioning(NamedTuple):
    """How boards are divided.

    Attributes:
        pattern: found in the names of the products, and no earlier one.
        compute_slices: that instances can have.
        memory_slices: that instances can have.
        max_slices: SMs of the whole board, in compute slices; some boards have more SMs than instances can use.
        by_memory: whether the SMs of an instance follow its memory slices where these are more.
    """

    pattern: str
    compute_slices: int
    memory_slices: int
    max_slices: float
    by_memory: bool


# NVIDIA MIG user guide, and `nvidia-smi mig -lgip`. A100: 14 of 108 SMs a slice, and DCGM's own value of a board is
# based on sevenths. H100: 16 of 132 SMs, but 1g.20gb has 26 and 3g.40gb has 60. RTX PRO 5000 and 4500: two instances at
# most (MIG user guide for r610).
PARTITIONINGS = (
    Partitioning(r"RTX PRO (4500|5000)|\bThor\b", 2, 2, 2.0, False),
    Partitioning(r"\bA30X?\b|RTX PRO", 4, 4, 4.0, False),
    Partitioning(r"\bA[18]00", 7, 8, 8.0, False),
    Partitioning("", 7, 8, 8.5, True),
)

CONTRADICTION = 0.1
"""A board whose own bounds are this far from its instances' bounds has instances that are not in the tick. Noise is
less: counters of a tick are not read at the same instant."""

_ROUNDING = 1e-9
_PROFILE = re.compile(r"([1-7])g\.([0-9]{1,4})gb")
_BOARD_MEMORY = re.compile(r"\b([1-9][0-9]{0,5})GB\b", re.IGNORECASE)
_BOARD_MEMORIES = (
    (r"\bGB300\b", 278),
    (r"\bB300\b", 269),
    (r"\bGB200\b", 186),
    (r"\bB200\b", 180),
    (r"\bH200\b", 141),
    (r"\bH100 NVL", 94),
)
"""GB by product whose name does not have it, as in the profile of the whole board (`7g.186gb`)."""

_MIN_SMS_PER_MEMORY = 0.75
"""An instance with one compute slice has at least this share of the SMs that its memory slices stand for, where SMs
follow memory: 1g.20gb of H100 has 26 of 33."""

_MEMORY_SLICES = {1: (1, 2), 2: (2, 2), 3: (4, 4), 4: (4, 4), 7: (8, 8)}
"""By compute slices, the fewest and the most memory slices of a board that has eight."""


_GUEST_SLICES = re.compile(r" ([1-7]) [0-9]+[ABCQ][0-9]?(ME)?$", re.IGNORECASE)
"""The slices in the name of a vGPU that has a MIG instance of its host: `DC-4-96Q`."""


def with_memory(board: Reading, instances: Sequence[Reading]) -> Reading:
    """Return the reading of a board with the memory of its instances, where its own is not measured."""
    sums = {
        name: sum(values)
        for name in ("memory_bytes", "memory_used_bytes")
        if getattr(board, name) is None
        and len(values := [each for each in (getattr(part, name) for part in instances) if each is not None])
        == len(instances)
    }
    if not sums:
        return board
    filled = board._replace(**sums)
    if filled.memory_bytes and filled.memory_used_bytes is not None:
        filled = filled._replace(memory_used_ratio=filled.memory_used_bytes / filled.memory_bytes)
    return filled


def partitioning_of(model: str) -> Partitioning:
    """Return how boards of a product are divided; the board of a vGPU guest is the part that it has of one."""
    if guest := _GUEST_SLICES.search(product_name(model)):
        slices = int(guest[1])
        return Partitioning("", slices, slices, float(slices), False)
    return next(row for row in PARTITIONINGS if is_product(row.pattern, model))  # the last one fits all


def shares_of(profile: str, model: str) -> InstanceShares:
    """Return the part of a board that an instance has.

    Args:
        profile: of the instance, such as `1g.10gb+me`; empty when unknown.
        model: product name of the board; empty when unknown.
    """
    row = partitioning_of(model)
    match = _PROFILE.match(profile)
    if match is None or int(match[1]) > row.compute_slices:
        return UNKNOWN_PROFILE
    slices = int(match[1])
    memory = _memory_share(row, slices, int(match[2]), model)
    high = slices / row.compute_slices
    if row.by_memory:
        high = max(high, memory.high)
    low = high if slices == row.compute_slices else slices / row.max_slices
    if row.by_memory and slices == 1:
        low = max(low, _MIN_SMS_PER_MEMORY * memory.low)
    return InstanceShares(between(low, high), memory, slices)


def _memory_share(row: Partitioning, slices: int, gigabytes: int, model: str) -> Interval:
    if row.memory_slices == row.compute_slices:
        return exactly(slices / row.memory_slices)
    fewest, most = _MEMORY_SLICES.get(slices, (slices, row.memory_slices))
    board = _board_gigabytes(model)
    if board is not None and fewest < most:
        # The name of a superchip has the memory of its processor: then no number of slices fits.
        by_size = gigabytes / board * row.memory_slices
        fitting = [number for number in range(fewest, most + 1) if abs(by_size - number) < 0.25]
        if fitting:
            fewest = most = fitting[0]
    return between(fewest / row.memory_slices, most / row.memory_slices)


def _board_gigabytes(model: str) -> int | None:
    if (named := _BOARD_MEMORY.search(product_name(model))) is not None:
        return int(named[1])
    return next((size for pattern, size in _BOARD_MEMORIES if is_product(pattern, model)), None)


class MigRollup:
    """The instances of one board.

    Args:
        instances: all of them, in their order; at least one.

    Attributes:
        unpartitioned: share of the compute slices that no instance has, 0..1; None if a profile is unknown. 0 where SMs
            follow memory and the instances have all of it.
    """

    __slots__ = ("_sums", "unpartitioned")

    def __init__(self, instances: Sequence[Device]) -> None:
        shares = [shares_of(device.entity.mig_profile, device.model) for device in instances]
        if len(instances) == 1 and instances[0].guest:  # all that the guest has
            shares = [InstanceShares(ALL, ALL, partitioning_of(instances[0].model).compute_slices)]
        compute = _WeightedSum(_fitted([share.compute for share in shares]))
        memory = _WeightedSum(_fitted([share.memory for share in shares]))
        self._sums = tuple(memory if name == "dram" else compute for name in Inputs._fields)
        slices = [share.slices for share in shares if share.slices is not None]
        row = partitioning_of(instances[0].model)
        left = max(row.compute_slices - sum(slices), 0) / row.compute_slices
        if row.by_memory and sum(share.memory.low for share in shares) >= 1.0:
            left = 0.0
        self.unpartitioned = left if len(slices) == len(shares) else None

    def bounds(self, instances: Sequence[Bounds]) -> Bounds:
        """Return the bounds of the board's inputs from the bounds of its instances, in their order."""
        lows = zip(*[bounds.low for bounds in instances], strict=True)
        highs = zip(*[bounds.high for bounds in instances], strict=True)
        return Bounds(
            Inputs._make([each.lowest(values) for each, values in zip(self._sums, lows, strict=True)]),
            Inputs._make([each.highest(values) for each, values in zip(self._sums, highs, strict=True)]),
        )


def have_room(instances: Sequence[Device]) -> bool:
    """Return whether instances have room on one board; true if a profile is unknown."""
    slices = [shares_of(device.entity.mig_profile, device.model).slices for device in instances]
    return None in slices or sum(slices) <= partitioning_of(instances[0].model).compute_slices  # type: ignore[arg-type]


class _WeightedSum:
    """Bounds of a sum of values, each weighted with a share of a board."""

    __slots__ = ("_all_fit", "_highs", "_left", "_lows", "_more")

    def __init__(self, shares: Sequence[Interval]) -> None:
        self._lows = tuple(share.low for share in shares)
        self._highs = tuple(share.high for share in shares)
        self._more = tuple(share.width for share in shares)
        self._left = 1.0 - sum(self._lows)
        self._all_fit = sum(self._highs) <= 1.0 + _ROUNDING

    def lowest(self, values: Sequence[float]) -> float:
        total: float = sum(map(mul, self._lows, values))
        return total

    def highest(self, values: Sequence[float]) -> float:
        """Return the largest sum: what the lowest shares leave of the board goes to the most active instances."""
        total: float = sum(map(mul, self._highs if self._all_fit else self._lows, values))
        if self._all_fit:
            return min(total, 1.0)
        left = self._left
        for value, more in sorted(zip(values, self._more, strict=True), reverse=True):
            total += min(more, left) * value
            left -= min(more, left)
        return min(total, 1.0)


def narrowed(own: Bounds, rolled_up: Bounds) -> Bounds:
    """Return the bounds that satisfy both; a measured input, whose own bounds are equal, is kept.

    Where they contradict each other, the own ones are returned.
    """
    lows, highs = [], []
    for low, high, rolled_low, rolled_high in zip(own.low, own.high, rolled_up.low, rolled_up.high, strict=True):
        if max(low - rolled_high, rolled_low - high) > CONTRADICTION:
            return own
        if low != high:
            low, high = max(low, rolled_low), min(high, rolled_high)
            if low > high:  # by noise
                low, high = high, low
        lows.append(low)
        highs.append(high)
    return Bounds(Inputs._make(lows), Inputs._make(highs))


def _fitted(shares: Sequence[Interval]) -> tuple[Interval, ...]:
    """Return the shares without what the others' lowest shares leave no room for."""
    total = sum(share.low for share in shares)
    if total > 1.0:  # more than a board: a mixture of two partitionings, or compute instances
        return tuple(between(0.0, share.high) for share in shares)
    return tuple(between(share.low, min(share.high, 1.0 - total + share.low)) for share in shares)
