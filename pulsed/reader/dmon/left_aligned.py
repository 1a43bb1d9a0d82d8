"""Rows with left-aligned columns: `dcgmi dmon` of DCGM 2.4 and newer. Independent of headers and ticks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter

from pulsed.model.raw_tick import RawValue
from pulsed.reader.dmon.cells import (
    ENTITY,
    PLAIN,
    BadCell,
    DmonEntity,
    entity_of,
    is_strict_number,
    is_surely_whole,
    read_cell,
)
from pulsed.reader.dmon.rows import BadRow, DmonRow, check_blanks, split_row, text_flags

_MOST_ENTITY_CELLS = 4096  # remembered; a node has hundreds of entities at most


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
        self._only_numbers = not any(self._texts)
        self._first = starts[0]
        bounds: list[int | None] = [0, *starts, None]
        # itemgetter slices a whole line in one call. The entity cell comes first, so that there are always two or more.
        self._slice: Callable[[str], tuple[str, ...]] = itemgetter(*(slice(a, b) for a, b in pairwise(bounds)))
        self._heads: Callable[[str], Sequence[str]] = itemgetter(*starts)
        self._gaps: Callable[[str], Sequence[str]] = itemgetter(*(start - 1 for start in starts))
        self._no_gaps = self._gaps(" " * starts[-1])
        self._entities: dict[str, DmonEntity] = {}

    def read(self, line: str, terminated: bool = True) -> DmonRow | BadRow | None:
        """Read a line as a row. See `Table.read`."""
        if terminated:
            cells = self._slice(line)
            entity = self._entities.get(cells[0])
            if entity is not None and len(line) > self._starts[-1] and self._gaps(line) == self._no_gaps:
                if self._only_numbers and " " not in self._heads(line) and not line[self._first :].strip(PLAIN):
                    try:
                        numbers = list(map(float, cells[1:]))
                    except ValueError:
                        numbers = []
                    if numbers and math.isfinite(sum(numbers)):
                        return DmonRow(entity, [*numbers])
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
            if len(cell) == self._first and len(self._entities) < _MOST_ENTITY_CELLS:
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
                values.append(read_cell(text, is_text))
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
