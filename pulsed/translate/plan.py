"""Compile a layout: the meaning of its positions, so that translating a tick is little more than one loop.

A layout's series are sorted by device and quantity into plans; reading a tick then iterates over each plan. Plans
depend on the field table and the entities of the layout, not on earlier ticks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pulsed.model.raw_tick import Layout, RawValue
from pulsed.model.vocabulary import NOTHING, POSITION, Reading
from pulsed.translate.fields import (
    AMBIGUOUS_NAME,
    BY_NAME,
    BY_SHORT,
    FIELDS,
    FIRST_BASE_UNIT_ID,
    TEXT_COLUMNS,
    DcgmField,
    fields_named,
    spelling,
)
from pulsed.translate.identity import SeriesEntity
from pulsed.translate.page_units import PageUnits
from pulsed.translate.units import PERCENT, RATIO, UNDECIDED, OutOfRangeRule, Unit, out_of_range_rule

_SIZE = POSITION["memory_bytes"]
_USED = POSITION["memory_used_bytes"]
_FREE = POSITION["memory_free_bytes"]
_RESERVED = POSITION["memory_reserved_bytes"]
_USED_RATIO = POSITION["memory_used_ratio"]
_CRC = POSITION["nvlink_crc_errors_total"]
_CRC_FLIT = POSITION["nvlink_crc_flit_errors_total"]
_CRC_DATA = POSITION["nvlink_crc_data_errors_total"]

_PREFERENCE: Mapping[tuple[int, str], int] = {
    (field.id, field.quantity): preference for preference, field in enumerate(FIELDS)
}

_OF_A_BOARD_ONLY = frozenset(
    {
        "power_watts",
        "energy_joules_total",
        "temperature_celsius",
        "graphics_engine_active_ratio",
        "tensor_active_ratio",
        "dram_active_ratio",
    }
)
"""Default metrics of dcgm-exporter that no vGPU guest has."""

_INSTANCE_RANK = 2
"""A board's own rows, of ranks 0 and 1, come before what its MIG instances repeat of it."""


Conversion = tuple[int, float, float, float, float, OutOfRangeRule]
"""Of a value: position in `Reading`, the unit's `multiply`, `divide`, `low` and `certain`, and what to do with a value
outside these two. A bare tuple: unpacking a named one would cost half as much as all the rest."""

Slot = tuple[int, Conversion]
"""One series as a source of one quantity: position behind the device's first series, and the conversion."""


_Sources = dict[int, dict[tuple[int, int], list[Slot]]]
"""By position in `Reading`, then by preference: the field's place in the table, then the row's rank."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How to read one device from the values of a layout. Devices whose series follow each other alike share it.

    Attributes:
        single: quantities with one source.
        contested: the others; groups of series by preference. The largest value of a group counts.
        texts: positions of texts that identify the device, behind its first series.
        reserved_known: whether the source reports reserved memory at all. Before 4.3, dcgm-exporter's default page did
            not; there used plus free is the best available estimate of the size.
    """

    single: tuple[Slot, ...]
    contested: tuple[tuple[int, tuple[tuple[Slot, ...], ...]], ...]
    reserved_known: bool
    texts: tuple[int, ...]

    def read(self, values: Sequence[RawValue], first: int, anomalies: list[str]) -> Reading:
        """Return the device's reading.

        Args:
            values: of the layout.
            first: position of the device's first series.
            anomalies: filled with the reasons why values were cut or left out.
        """
        numbers = list(NOTHING)
        try:
            for series, (quantity, multiply, divide, low, certain, rule) in self.single:
                value = values[first + series]
                if value is not None:
                    # A text raises TypeError here: numbers, the usual case, need no check.
                    numbers[quantity] = (
                        value * multiply / divide  # type: ignore[operator]
                        if low <= value <= certain  # type: ignore[operator]
                        else rule(value, anomalies)  # type: ignore[arg-type]
                    )
        except TypeError:
            anomalies.clear()
            return self.read([None if isinstance(value, str) else value for value in values], first, anomalies)
        for quantity, groups in self.contested:
            for group in groups:
                group_numbers = [
                    number for slot in group if (number := read_slot(slot, values, first, anomalies)) is not None
                ]
                if group_numbers:
                    numbers[quantity] = max(group_numbers)
                    break
        self._derive(numbers)
        return Reading._make(numbers)

    def _derive(self, numbers: list[float | None]) -> None:
        """Compute the quantities of `fields.DERIVED`."""
        used = numbers[_USED]
        if used is not None:
            size, free = numbers[_SIZE], numbers[_FREE]
            if size is None and free is not None:
                reserved = numbers[_RESERVED] if self.reserved_known else 0.0
                if reserved is not None:
                    size = numbers[_SIZE] = used + free + reserved
            if size:
                numbers[_USED_RATIO] = min(used / size, 1.0)
        if numbers[_CRC] is None:
            flit, data = numbers[_CRC_FLIT], numbers[_CRC_DATA]
            if flit is not None and data is not None:
                numbers[_CRC] = flit + data


def read_slot(slot: Slot, values: Sequence[RawValue], first: int, anomalies: list[str]) -> float | None:
    """Return the value of one series in base units; None if it has none."""
    series, (_, multiply, divide, low, certain, rule) = slot
    value = values[first + series]
    if value is None or isinstance(value, str):
        return None
    return value * multiply / divide if low <= value <= certain else rule(value, anomalies)


def plans(layout: Layout, entities: Sequence[SeriesEntity], units: PageUnits) -> tuple[Plan, ...]:
    """Return the plan of each entity of a layout."""
    is_page = layout.dialect == "exporter"
    ambiguous = _unit_of_ambiguous_name(layout, entities)
    sources: dict[int, _Sources] = {id(subject): {} for subject in entities}
    for subject in entities:
        for series, row_rank in subject.series:
            name = layout.series[series].name
            for field in fields_named(name) if is_page else BY_SHORT.get(name, ()):
                owner, rank = _owner(subject, field, row_rank)
                if owner is None:
                    continue
                unit = field.unit
                if is_page:
                    unit = ambiguous if spelling(name) == AMBIGUOUS_NAME else units.unit_of(name, field)
                preference = (_PREFERENCE[field.id, field.quantity], rank)
                of_quantity = sources[id(owner)].setdefault(POSITION[field.quantity], {})
                slot = slot_of(series - first_series(owner), field, unit, whole=owner.entity.kind == "gpu")
                of_quantity.setdefault(preference, []).append(slot)
    reserved_known = any(_RESERVED in quantities for quantities in sources.values())
    return tuple(_shared(_plan(sources[id(subject)], reserved_known, _texts(layout, subject))) for subject in entities)


@lru_cache(maxsize=256)
def _shared(plan: Plan) -> Plan:
    """Return the same object for equal plans: nodes with equal pages share the plans of their GPUs."""
    return plan


def _plan(sources: _Sources, reserved_known: bool, texts: tuple[int, ...]) -> Plan:
    single: list[Slot] = []
    contested: list[tuple[int, tuple[tuple[Slot, ...], ...]]] = []
    for quantity, by_preference in sorted(sources.items()):
        groups = tuple(tuple(by_preference[preference]) for preference in sorted(by_preference))
        if len(groups) == 1 and len(groups[0]) == 1:
            single.append(groups[0][0])
        else:
            contested.append((quantity, groups))
    return Plan(tuple(single), tuple(contested), reserved_known, texts)


def _texts(layout: Layout, subject: SeriesEntity) -> tuple[int, ...]:
    if layout.dialect == "exporter":
        return ()
    first = first_series(subject)
    return tuple(position - first for position, _ in subject.series if layout.series[position].name in TEXT_COLUMNS)


def first_series(subject: SeriesEntity) -> int:
    """Return the position of an entity's first series, 0 if it has none of its own: its plan counts from there."""
    return subject.series[0][0] if subject.series else 0


def slot_of(series: int, field: DcgmField, unit: Unit, whole: bool) -> Slot:
    """Return how to read a series of a field, by its position."""
    position = POSITION[field.quantity]
    return series, (position, unit.multiply, unit.divide, unit.low, unit.certain, out_of_range_rule(unit, whole))


def _owner(subject: SeriesEntity, field: DcgmField, rank: int) -> tuple[SeriesEntity | None, int]:
    """Return the entity that a field on this entity's row belongs to, and its rank.

    DCGM answers for a MIG instance with the board's value where a field is not the instance's: that goes to the board,
    or nowhere if the board is not known, so that sums over devices are right.
    """
    kind = subject.entity.kind
    if kind == "gpu" or field.level == "instance" or field.level == kind:
        return subject, rank
    return subject.parent, _INSTANCE_RANK  # the board's value is the same on all of its instances


def _unit_of_ambiguous_name(layout: Layout, entities: Sequence[SeriesEntity]) -> Unit:
    """Return the unit of a utilization named ratio, decided per page: a value of 1 alone is ambiguous."""
    names = set().union(*(_names(layout, subject) for subject in entities)) - {AMBIGUOUS_NAME}
    if any(field.id >= FIRST_BASE_UNIT_ID for name in names for field in BY_NAME.get(name, ())):
        return RATIO
    help_ = next((text for name, text in layout.help.items() if spelling(name) == AMBIGUOUS_NAME), "").lower()
    if re.search(r"%|percent|\b100\b", help_):
        return PERCENT
    return RATIO if re.search(r"\bratio\b|\bfraction\b|\b0(\.0)?\s*(-|–|to|and|\.\.)\s*1\b", help_) else UNDECIDED


def unnamed_guests(layout: Layout, entities: Sequence[SeriesEntity]) -> list[int]:
    """Return the positions of entities that show a vGPU licence, and nothing that only a board has.

    Only for devices without a model name: a board's default page shows the licence too, and may lack the rest.
    """
    return [
        position
        for position, subject in enumerate(entities)
        if "vgpu_license_status" in (quantities := _quantities(layout, subject))
        and quantities.isdisjoint(_OF_A_BOARD_ONLY)
    ]


def _quantities(layout: Layout, subject: SeriesEntity) -> set[str]:
    return {field.quantity for name in _names(layout, subject) for field in BY_NAME.get(name, ())}


def _names(layout: Layout, subject: SeriesEntity) -> set[str]:
    return {spelling(layout.series[position].name) for position, _ in subject.series}
