"""The unit of shares on an exporter's page: DCGM's percentages, which relays convert to ratios under the same names.

DCGM's percentages are integers, so that a fraction up to 1 proves a ratio (odh-observability#51). A value above 1
proves percent; if it has a fraction, values are means over time, and small ones also have fractions. A value of 0 or
1 on a page without any proof may be either: 0 is 0, and 1 counts as missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pulsed.model.raw_tick import Layout, RawValue
from pulsed.translate.fields import AMBIGUOUS_NAME, DcgmField, fields_named, spelling
from pulsed.translate.units import HUNDREDTHS, PERCENT, RATIO, ROUNDING, UNDECIDED, Unit, is_blank

MAX_PERCENT = 200.0
"""Of fans; larger values are garbage and prove nothing, except as multiples of 100."""

MAX_HUNDREDTHS = 10000.0
"""A relay that multiplies integer percentages by 100 writes multiples of 100 alone."""


class ShareUnits:
    """What the values of a target prove about the unit of its percentages, by name in the table."""

    def __init__(self) -> None:
        self._percent: set[str] = set()
        self._whole: set[str] = set()
        self._hundredths: set[str] = set()
        self._fractions: set[str] = set()
        self._are_means = False

    def learn(self, positions: Mapping[str, Sequence[int]], values: Sequence[RawValue]) -> bool:
        """Take the values at the positions of percentages, by name; return whether a unit may be another one."""
        before = self._proofs()
        for name, of_name in positions.items():
            for value in [values[position] for position in of_name]:
                if not value or isinstance(value, str) or value == 1.0 or is_blank(value, "int64"):
                    continue
                if MAX_PERCENT < value <= MAX_HUNDREDTHS and not value % 100.0:
                    self._hundredths.add(name)
                elif ROUNDING < value <= MAX_PERCENT:
                    if value % 100.0:
                        self._whole.add(name)
                    self._percent.add(name)
                    self._are_means |= not float(value).is_integer()
                elif 0.0 < value < 1.0:
                    self._fractions.add(name)
        return before != self._proofs()

    def _proofs(self) -> tuple[object, ...]:
        return len(self._percent), len(self._fractions), self._are_means, self._hundredths - self._whole

    def is_proven(self, name: str) -> bool:
        """Return whether the values of a name were in percent."""
        return spelling(name) in self._whole

    def unit_of(self, name: str, field: DcgmField) -> Unit:
        """Return the unit of a field under one of its names."""
        if not is_integer_share(field.unit):
            return field.unit
        name = spelling(name)
        if name in self._hundredths and name not in self._whole:
            return HUNDREDTHS
        are_ratios = self._fractions - self._percent if not self._are_means else set()
        if name in are_ratios:
            return RATIO
        is_percent = name in self._percent or (not are_ratios and (self._percent or name in self._fractions))
        return field.unit if is_percent else UNDECIDED


def is_integer_share(unit: Unit) -> bool:
    """Return whether a unit is DCGM's percentage without decimals."""
    return unit.name == PERCENT.name and unit.type == "int64"


def unproven_shares(layout: Layout, units: ShareUnits) -> Mapping[str, Sequence[int]]:
    """Return the positions of percentages that are not proven to be so, by name."""
    positions: dict[str, list[int]] = {}
    if layout.dialect == "exporter":
        for position, series in enumerate(layout.series):
            is_share = any(is_integer_share(field.unit) for field in fields_named(series.name))
            if is_share and series.name != AMBIGUOUS_NAME and not units.is_proven(series.name):
                positions.setdefault(spelling(series.name), []).append(position)
    return positions
