"""Reads the CSV of `pulsed export`: rows of one time are a tick.

The columns of time and identity become labels, those of quantities are series under their own names. All others are
left out: Compute works out again what pulsed computed. Times are in the file, to the millisecond, and so are the
distances between ticks.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import TextIOWrapper
from itertools import pairwise
from math import isfinite
from pathlib import Path
from statistics import median

from pulsed.errors import BadCapture
from pulsed.model.raw_tick import Labels, Layout, RawTick, RawValue, Series
from pulsed.model.vocabulary import QUANTITIES

TIME = "time"
IDENTITY = ("node", "gpu", "uuid", "mig_id", "mig_profile", "model")
"""Columns that identify the GPU of a row; empty where unknown."""

MAX_ROW_LENGTH = 64 * 1024
"""Characters after which a quotation mark was surely not closed."""

_COLUMNS = "Export with the columns `time` and `gpu` or `uuid`, as --columns default and all do"
_IDENTIFYING = "Export with the columns that identify GPUs: node, uuid and mig_id"
_REMEDY = "Correct or remove that line"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_STEPS_FOR_PACE = 32
_ROWS_FOR_PACE = 100_000
_BREATH = 1000  # rows without a tick after which other tasks may run

_Key = tuple[str, ...]


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


def csv_ticks(file: TextIOWrapper, path: Path, interval: float) -> Generator[RawTick | None, None, None]:
    """Yield the ticks of an open file in order, None to let other tasks run; `clock` is seconds since the first one.

    A last row without its line end is left out, and counted in the last tick's `rejected`. Older rows that were
    appended follow after `interval` seconds.
    """
    rows = _Rows(file, path)
    parser = _CsvTickParser(rows, path, interval)
    try:
        for number, cells in rows:
            if (tick := parser.feed(number, cells)) is not None:
                yield tick
            elif number % _BREATH == 0:
                yield None
    except (EOFError, BadCapture):
        if (tick := parser.finish()) is not None:
            yield tick
        raise
    if (tick := parser.finish({"half_row": 1} if rows.torn else {})) is not None:
        yield tick


def interval_of(file: TextIOWrapper, path: Path) -> float | None:
    """Return the usual seconds between two ticks of one GPU, from the first rows; None if there are no two.

    Raises `BadCapture` as `csv_ticks` does.
    """
    rows = _Rows(file, path)
    times: dict[_Key, list[int]] = {}
    try:
        for number, cells in rows:
            of_gpu = times.setdefault(rows.key(cells), [])
            of_gpu.append(_milliseconds(cells[rows.time]))
            if len(of_gpu) > _STEPS_FOR_PACE or number > _ROWS_FOR_PACE:
                break
    except (BadCapture, EOFError, IndexError, ValueError):
        pass  # the reader of the ticks gets the error
    steps = [later - sooner for of_gpu in times.values() for sooner, later in pairwise(of_gpu) if later > sooner]
    return median(steps) / 1000 if steps else None


class _Rows:
    """The rows of a file below its header as cells, each with the number of its first line; empty lines left out.

    Attributes:
        header: the column names.
        time: index of the column of time.
        torn: whether the last row had no line end, and was left out.

    Raises `BadCapture` if the rows cannot be replayed.
    """

    def __init__(self, file: TextIOWrapper, path: Path) -> None:
        self._file, self._path = file, path
        self._number = self._first = 1  # the line read last, and the first one of its row
        self._length = 0  # of that row, so far
        self.torn = False
        self.header = header_of(file.readline(MAX_ROW_LENGTH))
        if problem := problem_of(self.header):
            raise BadCapture(f"{path} is {problem[0]}", problem[1])
        self.time = self.header.index(TIME)
        self._identity = [(name, self.header.index(name)) for name in IDENTITY if name in self.header]

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        rows = csv.reader(self._lines())
        while True:
            self._first, self._length = self._number + 1, 0
            try:
                cells = next(rows, None)
            except csv.Error as error:
                raise _bad_line(self._path, self._first, str(error)) from error
            if cells is None or self.torn:
                return
            if cells:
                yield self._first, cells

    def _lines(self) -> Iterator[str]:
        while line := self._file.readline(MAX_ROW_LENGTH):
            if self._length > MAX_ROW_LENGTH:
                raise _bad_line(self._path, self._first, "a quotation mark is not closed")
            self._number += 1
            self._length += len(line)
            self.torn = not line.endswith("\n") and len(line) < MAX_ROW_LENGTH
            yield line
        self.torn = self.torn or self._length > 0  # it ends within a quoted cell

    def key(self, cells: Sequence[str]) -> _Key:
        """Return the key of the row's GPU."""
        return tuple([cells[place] for _, place in self._identity])

    def labels(self, key: _Key) -> Labels:
        """Return the identity of a key as labels; what is empty is left out."""
        return tuple((name, cell) for (name, _), cell in zip(self._identity, key, strict=True) if cell)


def _bad_line(path: Path, number: int, what: str) -> BadCapture:
    """Return the error of a line."""
    return BadCapture(f"{path}, line {number}: {what}", _REMEDY)


@dataclass(slots=True)
class _Gpu:
    """State of a GPU.

    Attributes:
        filled: the columns that have had a value; a layout has no series for columns that are always empty.
        last: time of its latest row in milliseconds; None before the first one of an export.
        clock: the clock of its latest row in milliseconds.
    """

    labels: Labels
    filled: tuple[int, ...] = ()
    last: int | None = None
    clock: int | None = None


class _CsvTickParser:
    """Gathers rows to ticks. Each row is a series `time`, so that a GPU without any value is there, and its values."""

    def __init__(self, rows: _Rows, path: Path, interval: float) -> None:
        self._rows, self._header, self._path, self._interval = rows, rows.header, path, interval
        self._numbers = [place for place, name in enumerate(self._header) if name in QUANTITIES]
        self._gpus: dict[_Key, _Gpu] = {}
        self._layout: Layout | None = None
        self._layout_keys: list[_Key] = []
        self._time = 0  # of the tick that is gathered
        self._keys: list[_Key] = []  # of its rows, and their values
        self._values: list[RawValue] = []
        self._shift = self._clock = 0
        self._joined = False

    def feed(self, number: int, cells: Sequence[str]) -> RawTick | None:
        """Take a row; give the tick that it ends."""
        if len(cells) != len(self._header):
            raise _bad_line(self._path, number, f"{len(cells)} cells under a header of {len(self._header)}")
        if tuple(cells) == self._header:  # one export was appended to another
            self._joined = True
            for known_gpu in self._gpus.values():
                known_gpu.last = None
            return self.finish()
        try:
            time = _milliseconds(cells[self._rows.time])
        except ValueError:
            what = f"{cells[self._rows.time]!r} in column time is not an RFC 3339 time"
            raise _bad_line(self._path, number, what) from None
        values = {place: self._number(number, place, cells[place]) for place in self._numbers if cells[place]}
        key = self._rows.key(cells)
        gpu = self._gpus.get(key)
        if gpu is None:
            gpu = self._gpus[key] = _Gpu(self._rows.labels(key))
        if time == gpu.last:
            if not values:
                return None  # a GPU that is lost: until it returns, its rows have the time of its last sample
            raise BadCapture(f"{self._path}, line {number}: the GPU of this row comes twice at this time", _IDENTIFYING)
        tick, is_older = None, gpu.clock is not None and time + self._shift <= gpu.clock
        if not self._keys or time != self._time or is_older:
            tick = self.finish()
            self._begin(time, older=self._joined or is_older)
        if not values.keys() <= set(gpu.filled):
            gpu.filled = tuple(sorted({*gpu.filled, *values}))
            self._layout = None
        gpu.last, gpu.clock = time, time + self._shift
        self._keys.append(key)
        self._values += [time / 1000, *(values.get(place) for place in gpu.filled)]
        return tick

    def finish(self, rejected: Mapping[str, int] | None = None) -> RawTick | None:
        """Return the tick of the rows so far, if any."""
        keys, values, self._keys, self._values = self._keys, self._values, [], []
        if not keys:
            return None
        if self._layout is None or keys != self._layout_keys:
            self._layout_keys = keys
            self._layout = Layout("pulsed", tuple(series for key in keys for series in self._series(key)))
        time, clock = self._time / 1000, (self._time + self._shift) / 1000
        return RawTick(str(self._path), time, clock, self._interval, self._layout, values, rejected or {})

    def _begin(self, time: int, *, older: bool) -> None:
        """Begin a tick; `older`: it may be, and if so follows the newest one by an interval."""
        if not self._layout_keys:
            self._shift = -time
        elif older and time + self._shift <= self._clock:
            self._shift = self._clock + round(self._interval * 1000) - time
        self._clock = max(self._clock, time + self._shift)
        self._time, self._joined = time, False

    def _series(self, key: _Key) -> list[Series]:
        gpu = self._gpus[key]
        return [Series(name, gpu.labels) for name in (TIME, *(self._header[place] for place in gpu.filled))]

    def _number(self, number: int, place: int, cell: str) -> float:
        try:
            value = float(cell)
        except ValueError:
            value = float("nan")
        if not isfinite(value):
            raise _bad_line(self._path, number, f"{cell!r} in column {self._header[place]} is not a number")
        return value


def _milliseconds(text: str) -> int:
    """Return an RFC 3339 time as Unix milliseconds. Raises `ValueError`."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if moment.tzinfo is None:
        raise ValueError("no time zone")
    return round((moment - _EPOCH) / _MILLISECOND)
