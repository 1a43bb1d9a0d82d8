"""Rows with right-aligned columns: `dcgmi dmon` of DCGM 1.7 to 2.3. Independent of headers and ticks."""

from __future__ import annotations

from collections.abc import Iterator

from pulsed.reader.dmon.cells import ENTITY, BadCell, DmonEntity, is_surely_whole, read_cell
from pulsed.reader.dmon.rows import BadRow, DmonRow, check_blanks, split_row, text_flags

_LONGEST_STRING = 256  # DCGM_MAX_STR_LENGTH


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
        """Read a line as a row. See `Table.read`."""
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
        # the columns are followed, each as (way to get here, offset it came from, text of the cell).
        trail: list[dict[int, tuple[int, int, str]]] = []
        here = {body: 1}
        for width, is_text in zip(self._widths, self._texts, strict=True):
            steps: dict[int, tuple[int, int, str]] = {}
            for start, ways in here.items():
                for stop, text in _right_cells(line, start, width, is_text, spaced):
                    known = steps[stop][0] if stop in steps else 0
                    steps[stop] = (known + ways, start, text)
            trail.append(steps)
            here = {stop: ways for stop, (ways, _, _) in steps.items()}
        ends = [stop for stop in here if not line[stop:].strip()]
        if len(ends) != 1 or here[ends[0]] != 1:
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
    for stop in range(first + width, min(len(line), first + _LONGEST_STRING) + 1):
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
