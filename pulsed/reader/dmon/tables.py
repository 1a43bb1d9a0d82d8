"""From a header of `dcgmi dmon` to the rows below it.

dcgmi has printed four layouts (DeviceMonitor.cpp, DCGM 1.7 to 4.6): right-aligned up to 2.3, then left-aligned with an
entity cell of 10, 11 and 16 characters. A line is sliced at the columns of its header, because cells may be blank or
hold spaces; only where that fails (a capture that passed through other hands) it is split at blanks, and then every
column must be there. Independent of ticks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter

from pulsed.model.raw_tick import RawValue
from pulsed.reader.dmon.rows import (
    ENTITY,
    BadCell,
    BadRow,
    DmonEntity,
    DmonRow,
    SplitTable,
    check_blanks,
    entity_of,
    is_strict_number,
    is_surely_whole,
    read_cell,
    read_number,
    read_text,
    split_row,
    text_flags,
)

_HEADER = re.compile(r"\s*(?P<hash>#)(?P<gap>\s*)Entity(?P<joined>\s?I[dD])?(?=\s|$)")
_UNITS = re.compile(r"\s*I[dD](?:\s|$)")
_NAME = re.compile(r"\S+")
_OLDEST_LEFT_CELL = 10
_MAX_ENTITY_CELLS = 4096  # remembered; a node has hundreds of entities at most
_MAX_STRING_LENGTH = 256  # DCGM_MAX_STR_LENGTH


def is_header(line: str) -> bool:
    """Return whether a line is the first of the two header lines."""
    return _HEADER.match(line) is not None


def is_unit_line(line: str) -> bool:
    """Return whether a line is the second header line: unit texts, sparse and not to be trusted."""
    return _UNITS.match(line) is not None


def table_of(header: str, requested: Sequence[str] = ()) -> Table | None:
    """Return the table that a header line announces; None if it has no columns.

    Args:
        header: the first of the two lines.
        requested: the names of the requested columns, in their order; empty names are taken from the header.
    """
    marker = _HEADER.match(header)
    names = list(_NAME.finditer(header, marker.end())) if marker else []
    if not marker or not names:
        return None
    columns = _distinct([name.group() for name in names], requested)
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


def _distinct(names: Sequence[str], requested: Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns: those that were asked for, otherwise the second one of a name as `NAME.2`.

    dmon cuts names to 9 characters, so that two fields may have the same one.

    >>> _distinct(["C2CLNKERR", "POWER", "C2CLNKERR"], [])
    ('C2CLNKERR', 'POWER', 'C2CLNKERR.2')
    >>> _distinct(["C2CLNKERR", "POWER"], ["C2CLNKERR.2", ""])
    ('C2CLNKERR.2', 'POWER')
    """
    if len(requested) == len(names):
        return tuple(column or name for column, name in zip(requested, names, strict=True))
    seen: Counter[str] = Counter()
    distinct = []
    for name in names:
        seen[name] += 1
        distinct.append(name if seen[name] == 1 else f"{name}.{seen[name]}")
    return tuple(distinct)


class LeftAlignedTable:
    """Left-aligned columns, DCGM 2.4 and newer: a value starts where the name of its column does.

    Args:
        blank_cells: whether a field that an entity does not have leaves its cell blank (4.0 and newer). Before that it
            had no cell at all and all later values moved left.
        width: length of the header, with the blanks at its end as far as the capture kept them.
    """

    def __init__(self, names: tuple[str, ...], starts: tuple[int, ...], *, blank_cells: bool, width: int) -> None:
        self.names = names
        self._starts = starts
        self._blank_cells = blank_cells
        self._width = width
        self._texts = text_flags(names)
        self._first = starts[0]
        bounds: list[int | None] = [0, *starts, None]
        # itemgetter slices a whole line in one call. With the entity cell it has at least two slices.
        self._slice: Callable[[str], tuple[str, ...]] = itemgetter(*(slice(a, b) for a, b in pairwise(bounds)))
        self._gaps: Callable[[str], Sequence[str]] = itemgetter(*(start - 1 for start in starts))
        self._no_gaps = self._gaps(" " * starts[-1])
        self._entities: dict[str, DmonEntity] = {}

    def read(self, line: str, terminated: bool = True) -> DmonRow | BadRow | None:
        """Read a line as a row. See `SplitTable.read`."""
        if terminated:
            cells = self._slice(line)
            entity = self._entities.get(cells[0])
            if entity is not None and len(line) > self._starts[-1] and self._gaps(line) == self._no_gaps:
                row = self._row(entity, cells[1:])
                if row is not None:
                    return row
        return self._read_slowly(line, terminated)

    def _read_slowly(self, line: str, terminated: bool) -> DmonRow | BadRow | None:
        """Read a line that is new, short, overflowing, hand-made, or no row at all."""
        match = ENTITY.match(line)
        if match is None:
            return None
        greedy = DmonEntity(*match.groups())
        cell = line[: self._first]
        touching = not cell[-1:].isspace() and len(cell) == self._first
        if not touching:
            entity = entity_of(cell)
            cells = self._cells(line, 0) if entity is not None else None
            if entity is None or cells is None:
                return split_row(line, self._texts) if terminated else BadRow(greedy, "half_row")
            if not terminated and not self._is_closed(line):
                return BadRow(entity, "half_row")
            if len(cell) == self._first and len(self._entities) < _MAX_ENTITY_CELLS:
                self._entities[cell] = entity
            return self._row(entity, cells) or (
                split_row(line, self._texts) if terminated else BadRow(entity, "half_row")
            )
        # `CPU Core 10` fills its cell and touches the first value; a longer label pushes all columns right.
        if not terminated:
            return BadRow(greedy, "half_row")
        readings = list(self._touching_rows(line))
        return readings[0] if len(readings) == 1 else split_row(line, self._texts)

    def _touching_rows(self, line: str) -> Iterator[DmonRow | BadRow]:
        """Return every way to split an entity that fills its cell from the value that follows without a blank."""
        shift = 0
        while True:
            entity = entity_of(line[: self._first + shift])
            if entity is None:  # nor with more digits
                return
            cells = self._cells(line, shift)
            # A line that kept the blanks at its end reveals the shift by its length.
            fits = not line.endswith("  ") or len(line) == self._width + shift
            if cells and fits and (self._texts[0] or is_strict_number(cells[0].strip())):
                row = self._row(entity, cells)
                if row is not None:
                    yield row
            if not line[self._first + shift : self._first + shift + 1].isdecimal():
                return
            shift += 1

    def _cells(self, line: str, shift: int) -> Sequence[str] | None:
        """Return the cells of a line, columns moved right by `shift`; None if a value crosses into another column."""
        for start in self._starts[1:]:
            if line[start + shift - 1 : start + shift].strip():
                return None
        bounds = [*self._starts, max(len(line), self._starts[-1])]
        return [line[a + shift : b + shift] for a, b in pairwise(bounds)]

    def _row(self, entity: DmonEntity, cells: Sequence[str]) -> DmonRow | BadRow | None:
        """Return the row that cells make; None if they do not stand under their columns."""
        values: list[RawValue] = []
        bad = 0
        for cell, is_text in zip(cells, self._texts, strict=True):
            text = cell.strip()
            if text and cell[0] != text[0]:
                return None
            try:
                values.append(read_text(text) if is_text else read_number(text))
            except BadCell:
                if " " in text:  # two values in one cell
                    return None
                values.append(None)
                bad += 1
        if not self._blank_cells and "" in (stripped := [cell.strip() for cell in cells]):
            return check_blanks(entity, stripped, self._texts) or DmonRow(entity, values, bad)
        return DmonRow(entity, values, bad)

    def _is_closed(self, line: str) -> bool:
        """Return whether the last cell of an unfinished line is whole."""
        tail = line[self._starts[-1] :]
        if not tail or tail[0] == " ":  # left-aligned: a first blank means that the cell is blank
            return bool(tail)
        if self._texts[-1]:
            return len(line) >= self._width and tail.endswith("  ")
        return tail[-1] == " " or is_surely_whole(tail)


class RightAlignedTable:
    """Right-aligned columns, DCGM 1.7 to 2.3: a value ends below the end of its column's name, moved by the entity id.

    A value as wide as its column or wider is printed whole and moves the rest of its line to the right. Widths include
    the two blanks before each column.
    """

    def __init__(self, names: tuple[str, ...], widths: tuple[int, ...]) -> None:
        self.names = names
        self._widths = widths
        self._texts = text_flags(names)
        self._has_text = any(self._texts)

    def read(self, line: str, terminated: bool = True) -> DmonRow | BadRow | None:
        """Read a line as a row. See `SplitTable.read`."""
        match = ENTITY.match(line)
        if match is None:
            return None
        entity = DmonEntity(*match.groups())
        body = match.end()
        if terminated and not self._has_text:
            # Without texts no cell can be blank or hold one, so cells are tokens, overflow or not.
            row = split_row(line, self._texts)
            if isinstance(row, DmonRow):
                return row
        cells = self._cells(line, body, spaced=True)
        if not terminated:
            whole = cells is not None and self._is_closed(cells[-1])
        else:
            # DCGM 1.x printed no blank before an overflowing value: `N/A1612621234`. With texts that could be anything.
            cells = cells or (None if self._has_text else self._cells(line, body, spaced=False))
            whole = True
        if cells is None or not whole:
            short = len(line[body:].split()) < len(self.names)
            return BadRow(entity, "half_row" if not terminated else "short_row" if short else "misaligned")
        values = [read_cell(cell, is_text) for cell, is_text in zip(cells, self._texts, strict=True)]
        return check_blanks(entity, cells, self._texts) or DmonRow(entity, values)

    def _cells(self, line: str, body: int, *, spaced: bool) -> list[str] | None:
        """Return the cells of a line from offset `body` on; None if there is no reading, or more than one."""
        # Texts hold blanks, so where an overflowing one ends follows only from what comes after it: all ways to place
        # the columns are followed, each as (ways to reach it, offset it came from, text of the cell).
        trail: list[dict[int, tuple[int, int, str]]] = []
        reached = {body: 1}
        for width, is_text in zip(self._widths, self._texts, strict=True):
            steps: dict[int, tuple[int, int, str]] = {}
            for start, ways in reached.items():
                for stop, text in _right_cells(line, start, width, is_text, spaced):
                    earlier_ways = steps[stop][0] if stop in steps else 0
                    steps[stop] = (earlier_ways + ways, start, text)
            trail.append(steps)
            reached = {stop: ways for stop, (ways, _, _) in steps.items()}
        ends = [stop for stop in reached if not line[stop:].strip()]
        if len(ends) != 1 or reached[ends[0]] != 1:
            return None
        cells = []
        at = ends[0]
        for steps in reversed(trail):
            _, at, text = steps[at]
            cells.append(text)
        return cells[::-1]

    def _is_closed(self, last: str) -> bool:
        """Return whether the last cell of an unfinished line is whole: it ends at its edge and cannot overflow."""
        return 0 < len(last) <= self._widths[-1] - 2 or (not self._texts[-1] and is_surely_whole(last))


def _right_cells(line: str, start: int, width: int, is_text: bool, spaced: bool) -> Iterator[tuple[int, str]]:
    """Yield every cell that may begin at `start` of a right-aligned line, as (its end, its text)."""
    edge = start + width
    cell = line[start:edge]
    text = cell.strip()
    if not text:
        if is_text:  # an empty text; the blanks may have been lost at the end of the line
            yield min(edge, len(line)), ""
        return
    # In DCGM 1.x the next value may touch. A value with a single blank before it could be the beginning of one that
    # overflows as in 2.x; two blanks rule that out.
    ends = line[edge : edge + 1] in ("", " ") or (not spaced and cell[:2] == "  ")
    if len(cell) == width and cell[0] == " " and cell[-1] != " " and ends and _may_be(text, is_text):
        yield edge, text
    if spaced != (cell[0] == " "):
        return
    first = start + spaced
    if line[first : first + 1] in ("", " "):
        return
    for stop in range(first + width, min(len(line), first + _MAX_STRING_LENGTH) + 1):
        text = line[first:stop]
        if "  " in text or (not is_text and " " in text):
            return
        if ">>> " in text or " <<<" in text:  # a blank string, `<<<NULL>>>`, is a whole cell and no part of a text
            return
        if text[-1] != " " and line[stop : stop + 1] in ("", " ") and _may_be(text, is_text):
            yield stop, text


def _may_be(text: str, is_text: bool) -> bool:
    try:
        read_cell(text, is_text)
    except BadCell:
        return False
    return True


Table = SplitTable | LeftAlignedTable | RightAlignedTable
"""The columns under one header."""
