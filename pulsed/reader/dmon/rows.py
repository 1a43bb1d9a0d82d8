"""What becomes of a line of a `dcgmi dmon` table: a row, or the reason why not.

Also the rows whose columns have no places: those are split at blanks. Independent of headers and ticks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Protocol

from pulsed.model.raw_tick import RawValue
from pulsed.reader.dmon.cells import ENTITY, PLAIN, STRING_COLUMNS, DmonEntity, is_surely_whole, read_cell

Reason = Literal["short_row", "misaligned", "half_row", "no_header"]
"""Why a row cannot be read: fewer cells than columns where that leaves open which are missing; cells not under their
columns; cut before its end; no header seen and no columns configured."""


class DmonRow(NamedTuple):
    """A row that was read: one value per column, and how many cells held something unreadable (None there)."""

    entity: DmonEntity
    values: list[RawValue]
    bad_cells: int = 0


class BadRow(NamedTuple):
    """A line that begins like a row and cannot be read as one."""

    entity: DmonEntity
    reason: Reason


class Table(Protocol):
    """The columns under one header."""

    @property
    def names(self) -> tuple[str, ...]:
        """Short names in the order of the columns; not always unique (`MEMRES` is 350 and 356)."""

    def read(self, line: str, terminated: bool = True) -> DmonRow | BadRow | None:
        """Return a line as a row; None if it does not begin with an entity.

        If the stream ended before the line did (not `terminated`), it counts only if surely nothing is cut.
        """


class SplitTable:
    """Columns without places: no header (names from the configuration), or one that lost its blanks.

    Without names every row is refused.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._texts = text_flags(names)

    def read(self, line: str, terminated: bool = True) -> DmonRow | BadRow | None:
        """Read a line as a row. See `Table.read`."""
        row = split_row(line, self._texts)
        if not self.names and row is not None:
            return BadRow(row.entity, "no_header")
        if not terminated and row is not None and (isinstance(row, BadRow) or not is_surely_whole(line.split()[-1])):
            return BadRow(row.entity, "half_row")
        return row


def text_flags(names: Iterable[str]) -> tuple[bool, ...]:
    """Return for each column whether it holds texts; an unknown name counts as a number."""
    return tuple(name in STRING_COLUMNS for name in names)


def check_blanks(entity: DmonEntity, cells: Sequence[str], texts: Sequence[bool]) -> BadRow | None:
    """Refuse a row of DCGM before 4.0 whose values may have moved left: it is blank at its end."""
    last = max((i for i, cell in enumerate(cells) if cell), default=-1)
    lost = texts[last + 1 :]
    if lost and not (all(lost) and entity.label == "GPU"):
        return BadRow(entity, "short_row")
    if any(not cell and not is_text for cell, is_text in zip(cells[: last + 1], texts, strict=False)):
        return BadRow(entity, "misaligned")
    return None


def split_row(line: str, texts: Sequence[bool]) -> DmonRow | BadRow | None:
    """Read a line whose cells do not stand where they should: tokens, if there is one per column and none is text."""
    match = ENTITY.match(line)
    if match is None:
        return None
    entity = DmonEntity(*match.groups())
    body = line[match.end() :]
    tokens = body.split()
    if len(tokens) < len(texts):
        return BadRow(entity, "short_row")
    if len(tokens) > len(texts) or any(texts) or not body[:1].isspace():
        return BadRow(entity, "misaligned")
    try:
        if not body.strip(PLAIN):
            numbers = list(map(float, tokens))
            if math.isfinite(sum(numbers)):
                return DmonRow(entity, [*numbers])
        return DmonRow(entity, [read_cell(token, False) for token in tokens])
    except ValueError:
        return BadRow(entity, "misaligned")
