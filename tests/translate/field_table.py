"""What each DCGM field means, written down once more: `fields.tsv`, a line per field in the order of preference."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

from pulsed.translate.fields import DcgmField


class FieldRow(NamedTuple):
    """A line of the table.

    Attributes:
        id: DCGM's number.
        quantity: that it fills.
        unit: DCGM's unit; `>0` where 0 means that there is none, `±` where it may be negative.
        type: `int64` or `double`.
        level: `board`, `instance` or `vgpu`.
        short: its column in dmon; empty when not known.
        names: on a page, the classic one first.
    """

    id: str
    quantity: str
    unit: str
    type: str
    level: str
    short: str
    names: str

    @classmethod
    def of(cls, field: DcgmField) -> FieldRow:
        """Return the line of a field."""
        unit = field.unit
        sign = ">0 " if unit.low > 0 else "± " if unit.low < 0 else ""
        names = " ".join(field.names)
        return cls(str(field.id), field.quantity, sign + unit.name, unit.type, field.level, field.short, names)


with Path(__file__).with_name("fields.tsv").open(newline="") as _file:
    _LINES = list(csv.DictReader(_file, delimiter="\t"))

FIELD_ROWS = [FieldRow(*(line[name] for name in FieldRow._fields)) for line in _LINES]
WATCHED = {int(line["id"]): line["watched"] for line in _LINES}
"""Group and speed with which `dcgmi` reads a field by default, such as `core fast`; empty for none."""
SINCE = {int(line["id"]): line["since"] for line in _LINES}
"""The first dcgm-exporter that accepts a field."""
