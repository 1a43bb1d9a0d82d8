"""From a header of `dcgmi dmon` to the table below it.

dcgmi has printed four layouts (DeviceMonitor.cpp, DCGM 1.7 to 4.6): right-aligned up to 2.3, then left-aligned with an
entity cell of 10, 11 and 16 characters. A line is sliced at the columns of its header, because cells may be blank or
hold spaces; only where that fails (a capture that passed through other hands) it is split at blanks, and then every
column must be there. Independent of ticks.
"""

from __future__ import annotations

import re
from itertools import pairwise

from pulsed.reader.dmon.left_aligned import LeftAlignedTable
from pulsed.reader.dmon.right_aligned import RightAlignedTable
from pulsed.reader.dmon.rows import SplitTable, Table

_HEADER = re.compile(r"\s*(?P<hash>#)(?P<gap>\s*)Entity(?P<joined>\s?I[dD])?(?=\s|$)")
_UNITS = re.compile(r"\s*I[dD](?:\s|$)")
_NAME = re.compile(r"\S+")
_OLDEST_LEFT_CELL = 10


def is_header(line: str) -> bool:
    """Return whether a line is the first of the two header lines."""
    return _HEADER.match(line) is not None


def is_unit_line(line: str) -> bool:
    """Return whether a line is the second header line: unit texts, sparse and not to be trusted."""
    return _UNITS.match(line) is not None


def table_of(header: str) -> Table | None:
    """Return the table that a header line announces; None if it has no columns."""
    marker = _HEADER.match(header)
    names = list(_NAME.finditer(header, marker.end())) if marker else []
    if not marker or not names:
        return None
    columns = tuple(name.group() for name in names)
    hash_at = marker.start("hash")
    if "\t" in header:
        return SplitTable(columns)
    if marker["gap"]:
        # `# Entity` is 8 wide and a row's id hangs over it. Authors who join the two header lines to `# EntityId` line
        # the columns up with the rows instead, and so with an id of one digit.
        entity_end = hash_at + (9 if marker["joined"] else 8)
        return RightAlignedTable(
            columns, tuple(b - a for a, b in pairwise([entity_end, *(name.end() for name in names)]))
        )
    starts = tuple(name.start() for name in names)
    entity_width = starts[0] - hash_at
    if entity_width < _OLDEST_LEFT_CELL:
        return SplitTable(columns)
    return LeftAlignedTable(columns, starts, blank_cells=entity_width > _OLDEST_LEFT_CELL, width=len(header))
