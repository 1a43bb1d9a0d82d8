"""Which fields each DCGM version knows: id, short name, width, type, level, by `fields.tsv` beside this module."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from tests.support.dmon_writer import FIELD_TABLE, FIELDS, Field, Kind

NOT_OF_A_GPU = frozenset({"SWITCH", "LINK", "CPU", "CPU_CORE", "CONNECTX"})
"""Levels that a row of a GPU or a MIG instance has no value of."""

_RENAMED = (4, 6)
_SWITCH_FIELDS_CHANGED = (3, 0)
_FIRST_SWITCH_FIELD, _LAST_SWITCH_FIELD = 700, 855


@dataclass(frozen=True)
class KnownField:
    """A field of one DCGM version.

    Attributes:
        level: what it is about: `GPU`, `GPU_I`, `GPU_CI` (with everything above), `GLOBAL`, ...
    """

    field: Field
    level: str
    name: str


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def known_fields(release: tuple[int, ...], wanted: frozenset[int] | None = None) -> Iterator[KnownField]:
    """The fields of a version by ascending id, all or those that are wanted.

    A version that stands in the table as the last one seen has the field in all its patch releases.
    """
    for line in FIELD_TABLE.read_text().splitlines():
        number, rest = line.split("\t", 1)
        field_id = int(number)
        if wanted is not None and field_id not in wanted:
            continue
        short, former, width, kind, level, since, until, name = rest.split("\t")
        if release[:2] < _release(since) or (until and release[:2] > _release(until)):
            continue
        of_switch = _FIRST_SWITCH_FIELD <= field_id <= _LAST_SWITCH_FIELD
        if former and release[:2] < (_SWITCH_FIELDS_CHANGED if of_switch else _RENAMED):
            short = former
        written = FIELDS.get(field_id)
        unit = written.unit if written else ""
        yield KnownField(Field(field_id, short, int(width), unit, cast("Kind", kind)), level, name)
