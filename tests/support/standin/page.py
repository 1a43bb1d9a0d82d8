"""The text of a tick, put together from pieces that were formatted before.

A row is formatted once per state of what it depends on; only counters are printed anew. 8 GPUs with 40 fields then
cost some tens of microseconds per tick.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tests.support.dmon_writer import ABSENT, ERAS, Absent, Era, Field, cell, row_text, value_text
from tests.support.standin.board import Row, signal_of
from tests.support.standin.entities import all_rows
from tests.support.standin.fields import NOT_OF_A_GPU, KnownField
from tests.support.standin.scenario import GPM_ARCHES, PROFILING, Scenario
from tests.support.standin.signals import Clock, Constant, Counter, Signal, Square, Stream
from tests.support.standin.signals import Sequence as Rows

Column = tuple[Field, Signal | Absent]
Key = tuple[int, ...]


def _columns(scenario: Scenario, row: Row, fields: Sequence[KnownField]) -> list[Column]:
    columns: list[Column] = []
    for known in fields:
        # A compute instance has no DRAM counter of its own, and DCGM asks no parent for it.
        lacks = known.level in NOT_OF_A_GPU or (row.compute is not None and known.level == "GPU_I")
        signal = ABSENT if lacks else signal_of(scenario, row, known.field.id, known.field.kind)
        columns.append((known.field, signal))
    return columns


@dataclass
class _RowText:
    """One row: the pieces between its counters, kept by state."""

    era: Era
    label: str
    columns: list[Column]
    is_gpm: bool
    clocks: list[Clock] = field(default_factory=list)
    counters: list[tuple[Field, Counter]] = field(default_factory=list)
    pieces: dict[Key, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for column, signal in self.columns:
            if isinstance(signal, Counter):
                self.counters.append((column, signal))
            elif isinstance(signal, (Square, Stream, Rows)) and signal.clock not in self.clocks:
                self.clocks.append(signal.clock)

    def text(self, now: float, tick: int, baseline: bool) -> str:
        key = (baseline, *(clock.state(now, tick) for clock in self.clocks))
        pieces = self.pieces.get(key)
        if pieces is None:
            pieces = self.pieces[key] = self._format(key)
        if not self.counters:
            return pieces[0]
        cells = [cell(self.era, column, str(counter.count(now))) for column, counter in self.counters]
        return "".join(part for pair in zip(pieces, cells, strict=False) for part in pair) + pieces[-1]

    def _format(self, key: Key) -> list[str]:
        baseline, *states = key
        of_clock = dict(zip(self.clocks, states, strict=True))
        pieces = [row_text(self.era, [], self.label, []).rstrip("\n")]
        for column, signal in self.columns:
            if isinstance(signal, Counter):
                pieces.append("")
            elif isinstance(signal, Absent):
                pieces[-1] += cell(self.era, column, "") if self.era.blank_cells else ""
            else:
                early = baseline and self.is_gpm and column.id in PROFILING
                value = (
                    None
                    if early
                    else signal.value
                    if isinstance(signal, Constant)
                    else signal.at(of_clock[signal.clock])
                )
                pieces[-1] += cell(self.era, column, value_text(self.era, column, value))
        pieces[-1] += "\n"
        return pieces


class Page:
    """All rows of a run of dmon.

    Args:
        labels: of the rows that the run has, in order; the engine's group does not grow when a GPU is cut anew.
    """

    def __init__(self, scenario: Scenario, labels: Collection[str], fields: Sequence[KnownField]) -> None:
        era = ERAS[scenario.era]
        there = {row.label: row for row in all_rows(scenario) if row.gpu.state != "lost"}
        self._rows = []
        for row in (there[label] for label in labels if label in there):
            columns = _columns(scenario, row, fields)
            if any(signal is not ABSENT for _, signal in columns):
                self._rows.append(_RowText(era, row.label, columns, row.gpu.arch in GPM_ARCHES))
        self._every = scenario.update_every
        self._baseline_ticks = scenario.gpm_ticks

    def tick(self, now: float, tick: int) -> str:
        """The rows at a time, as the engine's cache has them; empty when no entity has any value."""
        if self._every:
            now = int(now / self._every) * self._every
        return "".join([row.text(now, tick, tick < self._baseline_ticks) for row in self._rows])
