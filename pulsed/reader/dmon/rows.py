"""A line of a `dcgmi dmon` table as a row, or the reason why not: its cells, and how they are split at blanks.

This module depends on how DCGM prints values, not on the position of a cell or the meaning of a column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from pulsed.model.raw_tick import RawValue

_STRINGS = """
CPUMN CPUVN CSERIAL CUVID DRVER DVBRN DVNAM EIVER FCUID IBGUID IIVER IMEXD NVVER OEMVR PCBID PIVER PRNAM SRNUM
SWFRMVER SWNVDVUID SWNVLNSID SWNVLNUID UUID# VBVER VDVER VLCIST VMNAM VPCIID VUUID VVMID
"""

STRING_COLUMNS = frozenset(_STRINGS.split())
"""Short names of the fields that DCGM declares as strings (dcgm_fields.cpp, 2.x to 4.6).

`SWFRMVER` is a number up to 4.5 (field 864) and a text from 4.6 on (field 1524): read as text, which loses nothing.
"""

_PLAIN = "0123456789.-"
"""The only characters of a number: DCGM prints no exponent and no plus sign."""

_STRICT_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+|(?:\.[0-9]*)?\.\.\.)?")
_CUT_NUMBER = re.compile(r"-?[0-9]*(?:\.[0-9]*)?\.\.\.")
_FIXED_DOUBLE = re.compile(r"-?[0-9]+\.[0-9]{3}")
_NOT_A_VALUE = frozenset({"", "N/A", "nan", "-nan", "inf", "-inf", "NAN", "-NAN", "INF", "-INF"})

_LABELS = "GPU [0-9]+ LINK|SW [0-9]+ LINK|GPU-CI|GPU-I|GPU|vGPU|Switch|LINK|CPU Core|CPU|CX|UNKNOWN"
ENTITY = re.compile(rf"\s*({_LABELS}) (0|[1-9][0-9]*)")
"""The start of every row: the measured object and its DCGM entity id. A value may touch the id."""

_MAX_ID_DIGITS = 10  # of `dcgm_field_eid_t`, which has 32 bits


class DmonEntity(NamedTuple):
    """The entity of a row.

    Attributes:
        label: the words before the last number, as printed: `GPU`, `GPU-I`, `CPU Core`; DCGM 4.6 prints the links of
            GPU 0 as `GPU 0 LINK`, older ones as `LINK` with a packed number.
        id: DCGM's entity id, in decimal. Of `GPU-I` and `GPU-CI` this is not NVML's instance id.
    """

    label: str
    id: str


class BadCell(ValueError):
    """A cell of a number column holds something that DCGM does not print there."""


def entity_of(text: str) -> DmonEntity | None:
    """Return the entity that `text`, a whole entity cell, names; None if it names none."""
    match = ENTITY.fullmatch(text.rstrip())
    return DmonEntity(*match.groups()) if match and len(match[2]) <= _MAX_ID_DIGITS else None


def read_number(text: str) -> float | None:
    """Return the number in a stripped cell; None for `N/A`, blank, NaN, infinity and numbers cut with `...`.

    Raises:
        BadCell: it has none of these forms, for example a note after the number.
    """
    if text in _NOT_A_VALUE:
        return None
    if not text.strip(_PLAIN):
        try:
            number = float(text)
        except ValueError:
            pass
        else:
            return number if math.isfinite(number) else None
    # A string marker in a column that we take for a number: a field whose type DCGM changed.
    if text.startswith("<<<") or _CUT_NUMBER.fullmatch(text):
        return None
    raise BadCell(text)


def read_text(text: str) -> str | None:
    """Return the text in a stripped cell as printed, even if DCGM truncated it with `...`; None for DCGM's blank
    markers."""
    # Blanks are `<<<NULL>>>`, `<<<NOT_SUPPORTED>>>`, ...; narrow columns show only their beginning.
    return None if text in ("", "N/A") or text.startswith("<<<") else text


def read_cell(text: str, is_text: bool) -> RawValue:
    """Return the value of a stripped cell. Raises `BadCell` as `read_number` does."""
    return read_text(text) if is_text else read_number(text)


def is_strict_number(text: str) -> bool:
    """Return whether a cell is as DCGM prints it, whole or cut: no leading zero, a digit before the point; or N/A."""
    return text in _NOT_A_VALUE or _STRICT_NUMBER.fullmatch(text) is not None


def is_surely_whole(text: str) -> bool:
    """Return whether a number at the end of an unfinished line is complete: doubles have exactly 3 decimals."""
    return text == "N/A" or _FIXED_DOUBLE.fullmatch(text) is not None


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


class SplitTable:
    """Columns without places: no header (names from the configuration), or one that lost its blanks.

    Without names every row is refused. `names` are the short names in the order of the columns; they are not always
    unique (`MEMRES` is 350 and 356).
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._texts = text_flags(names)

    def read(self, line: str, terminated: bool = True) -> DmonRow | BadRow | None:
        """Return a line as a row; None if it does not begin with an entity.

        If the stream ended before the line did (not `terminated`), it counts only if surely nothing is cut.
        """
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
    """Read a line with misplaced cells as tokens; it must have one token per column, and no text."""
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
        return DmonRow(entity, [read_number(token) for token in tokens])
    except ValueError:
        return BadRow(entity, "misaligned")
