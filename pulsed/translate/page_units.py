"""The units on an exporter's page, as far as the values of a target prove others than those of the table.

Relays convert values and keep the names. A value that a unit cannot have shows another one, which is then taken if it
is certain; otherwise the values of the name count as missing. Percentages are in `share_units`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pulsed.model.raw_tick import Layout, RawValue
from pulsed.translate.fields import DcgmField, fields_named, spelling
from pulsed.translate.share_units import ShareUnits, unproven_shares
from pulsed.translate.units import MIB, PERCENT_OR_RATIO, SHARED_EXCESS, Unit, is_blank

MAX_CELSIUS = 125.0
"""No GPU or memory is as hot, and no limit as high: the hardware turns itself off before. 50 °C are 122 °F."""

COOL_CELSIUS = 50.0
"""No GPU is as cold in degrees Fahrenheit."""

MAX_FAHRENHEIT = 260.0

MAX_KIB = 3.2e8
"""No memory has more, in KiB; in bytes every memory from 512 MiB on has more."""

_PROOFS = {"temperature": 2, "profiled": 3}
"""Pages with a value beyond a unit that prove another one: one may be garbage."""

UNKNOWN = Unit("unknown", low=math.inf)
"""No value is valid."""

_MEMORY = frozenset({"memory_bytes", "memory_used_bytes", "memory_free_bytes"})
_SIZES = ({"memory_bytes"}, {"memory_used_bytes", "memory_free_bytes"})
"""Quantities whose largest value is at least half of the memory of a GPU."""


class UnitPositions(NamedTuple):
    """Positions of values in a layout whose unit may be another one.

    Attributes:
        shares: percentages whose unit is not proven, by name.
        temperatures: degrees, by name.
        memory: memory, if its size follows from it.
        profiled: profiled ratios.
    """

    shares: Mapping[str, Sequence[int]]
    temperatures: Mapping[str, Sequence[int]]
    memory: Sequence[int]
    profiled: Sequence[int]


class PageUnits:
    """What the values of a target prove about the units of its pages."""

    def __init__(self) -> None:
        self._shares = ShareUnits()
        self._hot: Counter[str] = Counter()
        self._profiled_pages = 0
        self._largest = 0.0

    def learn(self, positions: UnitPositions, values: Sequence[RawValue]) -> bool:
        """Take the values of a page at these positions; return whether a unit may be another one."""
        if not any(positions):  # not an exporter's page
            return False
        before = self._proofs()
        is_changed = bool(positions.shares) and self._shares.learn(positions.shares, values)
        for name, of_name in positions.temperatures.items():
            degrees = _numbers(of_name, values)
            if any(0.0 < value <= COOL_CELSIUS for value in degrees):
                del self._hot[name]
            elif any(MAX_CELSIUS < value <= MAX_FAHRENHEIT for value in degrees):
                self._hot[name] += 1
        if any(SHARED_EXCESS < value <= 100.0 * SHARED_EXCESS for value in _numbers(positions.profiled, values)):
            self._profiled_pages += 1
        larger = [value for value in _numbers(positions.memory, values) if value > self._largest]
        self._largest = max([value for value in larger if not is_blank(value, "int64")], default=self._largest)
        return is_changed or self._proofs() != before

    def _proofs(self) -> tuple[object, ...]:
        hot = [name for name, pages in self._hot.items() if pages >= _PROOFS["temperature"]]
        return hot, self._profiled_pages >= _PROOFS["profiled"], self._is_in_kib

    @property
    def _is_in_kib(self) -> bool:
        return MIB <= self._largest <= MAX_KIB

    def unit_of(self, name: str, field: DcgmField) -> Unit:
        """Return the unit of a field under one of its names."""
        unit, table_name = field.unit, spelling(name)
        if unit.name == "MiB" and self._is_in_kib:
            return replace(unit, name="KiB", multiply=1024.0, high=math.inf, otherwise=0.0)
        if is_temperature(unit) and self._hot[table_name] >= _PROOFS["temperature"]:
            return UNKNOWN
        if is_profiled(table_name, unit) and self._profiled_pages >= _PROOFS["profiled"]:
            return PERCENT_OR_RATIO
        return self._shares.unit_of(name, field)

    def positions(self, layout: Layout) -> UnitPositions:
        """Return the positions of values in a layout that may prove another unit."""
        temperatures: dict[str, list[int]] = {}
        memory: list[int] = []
        profiled: list[int] = []
        quantities: set[str] = set()
        for position, series in enumerate(layout.series if layout.dialect == "exporter" else ()):
            name = spelling(series.name)
            for field in fields_named(series.name):
                if is_temperature(field.unit):
                    temperatures.setdefault(name, []).append(position)
                elif is_profiled(name, field.unit):
                    profiled.append(position)
                elif field.unit.name == "MiB" and field.quantity in _MEMORY:
                    memory.append(position)
                    quantities.add(field.quantity)
        has_size = any(needed <= quantities for needed in _SIZES)
        return UnitPositions(
            unproven_shares(layout, self._shares), temperatures, memory if has_size else (), tuple(profiled)
        )


def is_temperature(unit: Unit) -> bool:
    """Return whether a unit is degrees Celsius, but not of a margin."""
    return unit.name == "°C"


def is_profiled(name: str, unit: Unit) -> bool:
    """Return whether a field is a ratio of the profiler, by its name in the table."""
    return unit.share and unit.name == "ratio" and "_PROF_" in name


def _numbers(positions: Sequence[int], values: Sequence[RawValue]) -> list[float]:
    """Return the numbers at positions."""
    return [value for position in positions if (value := values[position]) is not None and not isinstance(value, str)]
