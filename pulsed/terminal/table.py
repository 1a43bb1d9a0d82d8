"""Columns of a table, the less important of which are left out where it is too wide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from pulsed.terminal.line import Line, Segment, chosen, joined, line, right, styled

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class TableColumn(Generic[Row]):
    """A column.

    Attributes:
        title: on the left or right as `align` does it.
        width: the least, in cells.
        importance: the columns with the smallest are left out first.
        cell: returns a text, which `align` aligns, or styled segments.
        most: width that it grows to where there is room.
    """

    title: str
    width: int
    importance: int
    cell: Callable[[Row], Line | Segment | str]
    align: Callable[[str, int], str] = right
    most: int = 0

    def fitted(self, row: Row) -> Line:
        """Return the cell of a row with exactly the width of the column."""
        made = self.cell(row)
        if isinstance(made, str):
            return line(self.align(made, self.width))
        return (line(made) if isinstance(made, Segment) else made).fitted(self.width)


def fitting_columns(columns: Sequence[TableColumn[Row]], width: int) -> list[TableColumn[Row]]:
    """Return the columns that fit; those that can grow share what is left, the most important first."""
    kept = chosen([each.importance for each in columns], [each.width for each in columns], width, 1)
    fitting = [columns[at] for at in kept]
    unused = width - sum(each.width + 1 for each in fitting) + 1
    for at, each in sorted(enumerate(fitting), key=lambda pair: -pair[1].importance):
        more = max(min(each.most - each.width, unused), 0)
        fitting[at] = replace(each, width=each.width + more)
        unused -= more
    return fitting


def title_line(columns: Sequence[TableColumn[Row]]) -> Line:
    """Return the titles."""
    return styled(" ".join(each.align(each.title, each.width) for each in columns), "title")


def row_line(columns: Sequence[TableColumn[Row]], row: Row) -> Line:
    """Return a row."""
    return joined([each.fitted(row) for each in columns], " ")
