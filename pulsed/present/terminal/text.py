"""Lines of styled text on rich, columns that fit a width, and names shortened to what distinguishes them.

Texts must be clean: no control characters. Styles have the colours of the web page, or 16 that the terminal defines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Generic, Literal, NamedTuple, TypeVar

from rich.cells import cell_len
from rich.text import Text
from rich.theme import Theme as Styles

from pulsed.number_text import ELLIPSIS, Number, left

Part = Text | str | tuple[str, str]
"""A text, or one with the name of its style."""

NO_BREAK = "\u00a0"
"""A blank at which `wrapped` does not break a line."""

Row = TypeVar("Row")
Kept = TypeVar("Kept")


class Drawn(NamedTuple):
    """The lines of a view: the first ones are titles, which stay when others scroll; `selected` are kept in sight."""

    lines: Sequence[Text]
    titles: int = 0
    selected: range = range(0)


def line(*parts: Part) -> Text:
    """Return parts as one line, which is cut where it does not fit."""
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def wrapped(text: str | None, width: int, indent: str = "  ", style: str = "") -> list[Text]:
    """Return a text in lines, all of them indented."""
    rows = wrap(text or "", width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    return [line((row.replace(NO_BREAK, " "), style)) for row in rows]


def fixed(part: Part, width: int, align: Literal["left", "right"] = "left") -> Text:
    """Return a part with exactly `width` cells."""
    cell = line(part if width > 0 else "")
    cell.align(align, width)
    return cell


def fitting(items: Iterable[tuple[int, Text]], width: int, separator: str = "  ") -> Text:
    """Return as many parts as fit side by side, in their order; the least important ones are left out first."""
    shown = [(importance, part.cell_len, part) for importance, part in items if part]
    return line(line((separator, "dim")).join(_chosen(shown, width, len(separator))))


def _chosen(items: Sequence[tuple[int, int, Kept]], width: int, gap: int) -> list[Kept]:
    """Return what fits side by side of items with importance and width; at least one, in their order."""
    kept: list[int] = []
    unused = width + gap
    for at in sorted(range(len(items)), key=lambda at: -items[at][0]):
        if not kept or items[at][1] + gap <= unused:
            kept.append(at)
            unused -= items[at][1] + gap
    return [items[at][2] for at in sorted(kept)]


def distinguished(texts: Iterable[str], width: int) -> dict[str, str]:
    """Return for each text what fits into `width` cells, without what all have in common if one of them is longer.

    Common words at the beginning and common domains are left out as a whole; an ellipsis marks the former.
    """
    shown = {name: name for name in texts}
    if all(cell_len(name) <= width for name in shown):
        return shown
    start = _common_start(shown)
    end = _common_start(name[len(start) :][::-1] for name in shown)[::-1]
    domain = re.search(r"[.-].*|$", end, re.DOTALL)  # not the number of a GPU
    shown = {name: name.removesuffix(domain[0] if domain else "") for name in shown}
    longest = max(map(cell_len, shown.values()))
    words = [at for at in range(2, len(start) + 1) if not start[at - 1].isalnum()]
    if longest > width and words:
        begin = next((at for at in words if longest - cell_len(start[:at]) < width), words[-1])
        shown = {name: ELLIPSIS + text[begin:] for name, text in shown.items()}
    return {name: _without_middle(text, width) for name, text in shown.items()}


def _common_start(texts: Iterable[str]) -> str:
    """Return what all texts begin with; nothing of a single one."""
    first, last = min(names := [*texts]), max(names)
    return first[: next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)]


def _without_middle(text: str, width: int) -> str:
    if cell_len(text) <= width or cell_len(text) != len(text) or width < 3:
        return text if cell_len(text) <= width else left(text, width)
    head = (width - 1) // 3
    return text[:head] + ELLIPSIS + text[len(text) - (width - 1 - head) :]


class TableColumn(NamedTuple, Generic[Row]):
    """A column of a table.

    Attributes:
        width: the least, in cells.
        importance: the columns with the smallest are left out first.
        most: width that it grows to where there is room.
        is_name: whether its cells name the row, and are shortened to what distinguishes them.
    """

    title: str
    width: int
    importance: int
    cell: Callable[[Row], Part]
    align: Literal["left", "right"] = "right"
    most: int = 0
    is_name: bool = False


def fitting_columns(columns: Sequence[TableColumn[Row]], width: int) -> list[TableColumn[Row]]:
    """Return the columns that fit, by importance."""
    return _chosen([(each.importance, each.width, each) for each in columns], width, 1)


def table(
    columns: Sequence[TableColumn[Row]], rows: Sequence[Row], width: int, among: Sequence[Row] | None = None
) -> list[Text]:
    """Return the line of titles and a line for each row, with the columns that fit.

    Those that can grow share what is left, the most important first. Names are shortened to what distinguishes them
    `among` these rows; None: among the shown ones.
    """
    chosen = fitting_columns(columns, width)
    unused = width - sum(each.width + 1 for each in chosen) + 1
    widths = {each.title: each.width for each in chosen}
    for each in sorted(chosen, key=lambda each: -each.importance):
        more = max(min(each.most - each.width, unused), 0)
        widths[each.title] += more
        unused -= more
    named = rows if among is None else among
    lines = zip(*(_column(each, rows, named, widths[each.title]) for each in chosen), strict=True)
    return [line(Text(" ").join(cells)) for cells in lines]


def _column(column: TableColumn[Row], rows: Sequence[Row], named: Sequence[Row], width: int) -> list[Text]:
    cells = [line(column.cell(row)) for row in rows]
    if column.is_name:
        names = distinguished((line(column.cell(row)).plain for row in named), width)
        for cell in cells:
            cell.plain = names[cell.plain]
    cells.insert(0, line((column.title, "title")))
    for cell in cells:
        cell.align(column.align, width)
    return cells


def row_text(columns: Iterable[TableColumn[Row]], row: Row) -> str:
    """Return all cells of a row, in lower case, however narrow the table is."""
    return " ".join(line(column.cell(row)).plain for column in columns).lower()


def bar(width: int, style: str, lower: Number, upper: Number = None, mark: Number = None) -> Text:
    """Return a bar with brackets, `width` cells in all.

    It is solid up to `lower` and hatched from there to `upper`; without any number it is hatched all over. A known 0 is
    a tick at the origin. `mark` is the place of another number, which is drawn where the bar is empty.
    """
    size = max(width - 2, 1)
    if lower is None:
        return line("[", (("/ " * size)[:size], "stale"), "]")
    solid, most = (min(max(round(each * size), each > 0), size) for each in (lower, max(lower, upper or 0)))
    empty = ["·"] * (size - most)
    if mark is not None and round(mark * size) > most:
        empty[min(round(mark * size), size) - 1 - most] = "|"
    if not most and empty[0] == "·":
        empty[0] = "▏"
    return line("[", ("█" * solid + "▒" * (most - solid), style), ("".join(empty), "dim"), "]")


Theme = Literal["dark", "light", "16", "none"]
THEMES: tuple[Theme, ...] = ("dark", "light", "16", "none")

_STYLES: Mapping[str, tuple[str, str, str]] = {
    "title": ("bold", "bold", "bold"),
    "select": ("reverse", "reverse", "reverse"),
    "key": ("bold #3D96EE", "bold #1466F0", "bold cyan"),
    "compute": ("#2FE6A0", "#024F3F", "green"),
    "memory": ("#E0609A", "#8E0070", "magenta"),
    "io": ("#3D96EE", "#1466F0", "blue"),
    "mixed": ("#FFC933", "#8A6516", "yellow"),
    "idle": ("#C9D1D9", "#707A86", "none"),
    "unknown": ("#B1B1C9", "#5A5A72", "cyan"),
    "ok": ("#2FE6A0", "#024F3F", "green"),
    "info": ("#409AE1", "#1466F0", "blue"),
    "warn": ("#F4C520", "#8A6516", "yellow"),
    "hot": ("bold #EB834C", "bold #A8400B", "bold bright_red"),
    "crit": ("bold #F63171", "bold #C00040", "bold red"),
    "stale": ("dim #B1B1C9", "dim #5A5A72", "dim"),
}
"""Styles of the themes dark, light and 16. Classes differ for all kinds of colour vision, and busy is not red."""


def styles(theme: Theme) -> Styles:
    """Return the styles of a theme by name; `none` has the styles of 16 colours, whose colours the console omits."""
    return Styles({name: by_theme[min(THEMES.index(theme), 2)] for name, by_theme in _STYLES.items()})
