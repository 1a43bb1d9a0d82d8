"""The text of `dcgmi dmon`, line by line, to ticks.

dmon prints no time and no mark between two ticks, so a tick is cut where an entity comes again or a header is
repeated. This module does no I/O and has no clock: its caller stamps the ticks.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pulsed.errors import TooManyGpus
from pulsed.model.raw_tick import MAX_GPUS, Layout, RawValue, Series
from pulsed.reader.dmon.rows import BadRow, DmonEntity, DmonRow, SplitTable
from pulsed.reader.dmon.tables import Table, is_header, is_unit_line, table_of


@dataclass(frozen=True, slots=True)
class DmonTick:
    """One tick of dmon: a row per entity.

    Attributes:
        layout: dialect `dmon`; a series per entity and column. The same object as long as columns and entities stay.
        values: one per series: a number, a text in the string columns, None for `N/A`, a blank cell, a number that
            dcgmi cut with `...`, NaN and infinity.
        rejected: what could not be read since the tick before, by reason: `short_row`, `misaligned`, `half_row`,
            `no_header`, `not_a_row` count lines, `bad_cell` counts cells.
    """

    layout: Layout
    values: list[RawValue]
    rejected: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class DmonMessage:
    """A line that is not data.

    Attributes:
        kind: `error`, or `stopped` for dcgmi's notice that a signal ended it.
        code: DCGM's result code (-37) if the text has one; otherwise None: versions before 2.4 print no codes.
    """

    kind: Literal["error", "stopped"]
    text: str
    code: int | None = None


_STOPPED = "dmon was stopped"
_ERRORS = (
    # Beginnings of dcgmi's error messages (dcgmi/*.cpp, DCGM 2.1 to 4.6; `Enable` is its own slip).
    "Error",
    "PARSE ERROR",
    "An error occurred",
    "Unable to ",
    "Enable to retrieve",
    "Expected a numerical groupId",
    "Got error",
    "Only one of --",
    "No data returned from the hostengine",
)
_CODE = re.compile(r"(?:Result:|Return:?|Error:) *(-[0-9]{1,9})\b")
_LEFT_OUT = frozenset({"", "^C", "...", "…"})
_MAX_MESSAGES = 64


def message_of(line: str) -> DmonMessage | None:
    """Return the message in a line of dcgmi's stdout or stderr, or None if it is not a message of dcgmi."""
    text = line.strip()
    if text.startswith(_STOPPED):
        return DmonMessage("stopped", text)
    if text.startswith(_ERRORS):
        code = _CODE.search(text)
        return DmonMessage("error", text, int(code[1]) if code else None)
    return None


class DmonParser:
    """Reads the output of one `dcgmi dmon`, or a capture of it, of any DCGM version and any field list.

    Feed it the lines in order; at the end of the stream `feed_rest` what came after the last newline, then `finish`.
    `columns` are short names for a capture without header; a header overrides them. `requested` are the names of the
    columns requested from a live one: the names in its header are cut, and may be equal. The only error is
    `TooManyGpus`, for a tick with more than `max_gpus` entities; the parser then starts over.
    """

    def __init__(self, columns: Sequence[str] = (), max_gpus: int = MAX_GPUS, requested: Sequence[str] = ()) -> None:
        self._max_gpus, self._requested = max_gpus, requested
        self._table: Table = SplitTable(tuple(columns))
        self._header = ""
        self._rows: dict[DmonEntity, list[RawValue] | None] = {}  # None: the row came and could not be read
        self._known: set[DmonEntity] = set()
        self._layout: Layout | None = None
        self._entities: tuple[DmonEntity, ...] = ()  # of the tick before, in the order of its layout
        self._rejected: dict[str, int] = {}
        self._total: Counter[str] = Counter()
        self._messages: deque[DmonMessage] = deque(maxlen=_MAX_MESSAGES)

    @property
    def begun(self) -> bool:
        """Whether a tick is in progress."""
        return bool(self._rows)

    @property
    def complete(self) -> bool:
        """Whether the tick in progress already holds every entity of the tick before it.

        A live reader may then take it by `finish`, after a pause in which a new entity's row would arrive.
        """
        return bool(self._entities) and self._rows.keys() >= set(self._entities)

    @property
    def rejected(self) -> Mapping[str, int]:
        """Unreadable rows since the start, by reason, even if no tick followed."""
        return self._total

    def drain_messages(self) -> list[DmonMessage]:
        """Errors and notices since the last call, oldest first; of very many only the last 64."""
        messages = list(self._messages)
        self._messages.clear()
        return messages

    def feed(self, line: str) -> DmonTick | None:
        """Take one whole line, without its newline; returns the finished tick if this line begins the next one."""
        line = line.removesuffix("\r")  # a capture that was saved on Windows
        row = self._table.read(line)
        return self._other(line) if row is None else self._add(row)

    def feed_rest(self, rest: str) -> DmonTick | None:
        """Take what the stream left after its last newline. A row counts only if surely nothing of it is cut."""
        rest = rest.removesuffix("\r")
        row = self._table.read(rest, terminated=False)
        if row is not None:
            return self._add(row)
        message = message_of(rest)
        if message is not None:
            self._messages.append(message)
        elif rest.strip() not in _LEFT_OUT and not is_unit_line(rest) and not is_header(rest):
            self._reject("half_row")
        return None

    def _add(self, row: DmonRow | BadRow) -> DmonTick | None:
        entity = row.entity
        # A line that only looks like a row must not add a GPU that does not exist.
        tick = self.finish() if entity in self._rows else None
        if isinstance(row, DmonRow) or entity in self._known:
            self._known.add(entity)
            self._rows[entity] = row.values if isinstance(row, DmonRow) else None
            if len(self._rows) > self._max_gpus:
                self._rows, self._known = {}, set()
                raise TooManyGpus(self._max_gpus, "dcgmi dmon")
        if isinstance(row, BadRow):
            self._reject(row.reason)
        elif row.bad_cells:
            self._reject("bad_cell", row.bad_cells)
        return tick

    def _other(self, line: str) -> DmonTick | None:
        text = line.strip()
        # Era A prints a blank line before a repeated header, a stopped dmon before its notice: blank lines cut nothing.
        if text in _LEFT_OUT or is_unit_line(line):
            return None
        message = message_of(text)
        if message is not None:
            self._messages.append(message)
            return None
        if not is_header(line):
            self._reject("not_a_row")
            return None
        tick = self.finish()
        if line != self._header:
            self._change_header(line)
        return tick

    def _change_header(self, line: str) -> None:
        table = table_of(line, self._requested)
        if table is None:
            self._reject("not_a_row")
            return
        if table.names != self._table.names:
            self._layout = None
            self._rows.clear()
        self._table = table
        self._header = line

    def finish(self) -> DmonTick | None:
        """Return the tick in progress, which then counts as finished; None if it has no row."""
        rows = self._rows
        if not any(rows.values()):
            return None
        if self._layout is None or rows.keys() != set(self._entities):
            self._entities = tuple(rows)
            self._layout = _layout_of(self._table.names, self._entities)
        nothing: list[RawValue] = [None] * len(self._table.names)
        values: list[RawValue] = []
        for entity in self._entities:
            values += rows[entity] or nothing
        tick = DmonTick(self._layout, values, self._rejected)
        self._rows, self._rejected = {}, {}
        return tick

    def _reject(self, reason: str, count: int = 1) -> None:
        self._rejected[reason] = self._rejected.get(reason, 0) + count
        self._total[reason] += count


def _layout_of(names: Sequence[str], entities: Sequence[DmonEntity]) -> Layout:
    """Return the layout of a tick with these rows. A GPU with N/A only has series, one without a row has none."""
    labels = [(("entity", entity.label), ("id", entity.id)) for entity in entities]
    return Layout("dmon", tuple(Series(name, label) for label in labels for name in names))
