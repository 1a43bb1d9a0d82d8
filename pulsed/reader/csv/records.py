"""The rows of a CSV file as cells, and what its header must name."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path

from pulsed.errors import BadCapture

TIME = "time"
IDENTITY = ("node", "gpu", "uuid", "mig_id", "mig_profile", "model")
"""Columns that identify the GPU of a row; empty where unknown."""

LONGEST_ROW = 64 * 1024
"""Characters after which a quotation mark was surely not closed."""

REMEDY = "Correct or remove that line"

_COLUMNS = "Export with the columns `time` and `gpu` or `uuid`, as --columns default and all do"


def header_of(first_line: str) -> tuple[str, ...]:
    """Return the column names that a file begins with; not what they are good for, see `problem_of`."""
    line = first_line.removeprefix("\ufeff").rstrip("\r\n")
    return tuple(sys.intern(name.strip()) for name in next(csv.reader([line]), []))


def problem_of(header: Sequence[str]) -> tuple[str, str] | None:
    """Return what is wrong with a header and the remedy, or None if its rows can be replayed."""
    if "timestamp" in header and "gpu_id" in header:
        return (
            "a CSV in KempnerPulse's columns, which are rounded and lack much of what was read",
            "Replay takes what `pulsed export` writes without --schema kempnerpulse",
        )
    if TIME not in header or ("gpu" not in header and "uuid" not in header):
        return "a CSV file that replay cannot read: its first line names no time or no GPU", _COLUMNS
    if twice := [name for name, count in Counter(header).items() if count > 1]:
        return f"a CSV file with two columns {twice[0]!r}", _COLUMNS
    if "" in header:
        return "a CSV file with a column without a name", _COLUMNS
    return None


def read_header(records: Records, path: Path) -> tuple[str, ...]:
    """Return the first row as column names. Raises `BadCapture` if the rows cannot be replayed."""
    _, header = next(records, (0, []))
    if problem := problem_of(header):
        raise BadCapture(f"{path} is {problem[0]}", problem[1])
    return tuple(header)


class Records(Iterator[tuple[int, list[str]]]):
    """The rows of a file as cells, with the number of their first line; empty lines left out.

    `torn` is true if the last row had no line end.
    """

    def __init__(self, file: TextIOWrapper, path: Path) -> None:
        self.torn = False
        self._file, self._path, self._number = file, path, 0

    def __next__(self) -> tuple[int, list[str]]:
        while True:
            first, text = self._number + 1, self._line()
            if first == 1:
                return first, list(header_of(text))
            while text.count('"') % 2 and not self.torn:  # a quoted cell may hold line ends
                if len(text) > LONGEST_ROW:
                    raise BadCapture(f"{self._path}, line {first}: a quotation mark is not closed", REMEDY)
                text += self._line(within=True)
            if self.torn:
                raise StopIteration
            try:
                cells = next(csv.reader([text]), [])
            except csv.Error as error:
                raise BadCapture(f"{self._path}, line {first}: {error}", REMEDY) from error
            if cells:
                return first, cells

    def _line(self, *, within: bool = False) -> str:
        line = self._file.readline(LONGEST_ROW)
        self._number += 1
        if not line and not within:
            raise StopIteration
        self.torn = not line.endswith("\n") and len(line) < LONGEST_ROW and self._number > 1
        return line
