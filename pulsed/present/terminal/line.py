"""Lines of styled segments, cut and padded by the cells that their texts occupy, and tables of them.

Styles have the colours of the web page, or 16 that the terminal's theme defines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, NamedTuple, TypeVar
from unicodedata import east_asian_width

ELLIPSIS = "…"

BRAILLE = 0x2800
"""The braille character without dots; its 8 dots are the 8 bits above."""

_ASCII_MARKS = str.maketrans("█▒·▏▁▂▃▄▅▆▇┌┐└┘─│━…", "#=.|_.,-~+*++++-|-~")


def cells(text: str) -> int:
    """Return how many cells a clean text occupies."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(each) in "WF" else 1 for each in text)


def cut(text: str, width: int) -> str:
    """Return the beginning of a text that fits into `width` cells; an ellipsis marks what was left out."""
    if cells(text) <= width:
        return text
    if width <= 0:
        return ""
    kept, used = [], 0
    for each in text:
        used += cells(each)
        if used > width - 1:
            break
        kept.append(each)
    return "".join(kept) + ELLIPSIS


def distinguished(texts: Iterable[str], width: int) -> dict[str, str]:
    """Return for each text what fits into `width` cells, without what all have in common if one of them is longer.

    Common words at the beginning and common domains are left out as a whole; an ellipsis marks the former.
    """
    names = sorted(set(texts))
    if all(cells(name) <= width for name in names):
        return {name: name for name in names}
    shared = _shared(names[0], names[-1])
    ends = sorted(name[shared:][::-1] for name in names)
    end = _shared(ends[0], ends[-1])
    while end and ends[0][end - 1] not in ".-":  # of a domain, not the number of a GPU
        end -= 1
    shown = {name: name[: len(name) - end] for name in names}
    words = [at for at in range(2, shared + 1) if not names[0][at - 1].isalnum()]
    longest = max(cells(text) for text in shown.values())
    start = next((at for at in words if longest - cells(names[0][:at]) < width), words[-1] if words else 0)
    if longest > width and start:
        shown = {name: ELLIPSIS + text[start:] for name, text in shown.items()}
    return {name: _without_middle(text, width) for name, text in shown.items()}


def _shared(one: str, other: str) -> int:
    """Return how many characters two texts have in common at the beginning; 0 for the same text."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)


def _without_middle(text: str, width: int) -> str:
    """Return a text of at most `width` cells, without its middle if it is longer."""
    if cells(text) <= width or cells(text) != len(text) or width < 3:
        return cut(text, width)
    head = (width - 1) // 3
    return text[:head] + ELLIPSIS + text[len(text) - (width - 1 - head) :]


def left(text: str, width: int) -> str:
    """Return a text of exactly `width` cells, aligned to the left."""
    text = cut(text, width)
    return text + " " * (width - cells(text))


def right(text: str, width: int) -> str:
    """Return a text of exactly `width` cells, aligned to the right."""
    text = cut(text, width)
    return " " * (width - cells(text)) + text


class Segment(NamedTuple):
    """A text with the name of its style in `palette`."""

    text: str
    style: str = ""


class Line(tuple[Segment, ...]):
    """Segments from left to right. Their texts must be clean: no control characters."""

    __slots__ = ()

    @property
    def text(self) -> str:
        """The text without styles."""
        return "".join(segment.text for segment in self)

    @property
    def width(self) -> int:
        """The cells that it occupies."""
        return sum(cells(segment.text) for segment in self)

    def fitted(self, width: int) -> Line:
        """Return the line cut or padded to exactly `width` cells."""
        kept: list[Segment] = []
        for segment in self:
            size = cells(segment.text)
            if size > width:
                shown = cut(segment.text, width)
                kept.append(Segment(shown, segment.style))
                width -= cells(shown)
                break
            kept.append(segment)
            width -= size
        return Line([*kept, Segment(" " * width)] if width else kept)

    def styled(self, style: str) -> Line:
        """Return the line in one style."""
        return Line([Segment(segment.text, style) for segment in self])


def line(*parts: Segment | str) -> Line:
    """Return a line of segments and plain texts."""
    return Line([part if isinstance(part, Segment) else Segment(part) for part in parts])


def styled(text: str, style: str) -> Line:
    """Return a line of one text in a style."""
    return Line([Segment(text, style)])


def joined(parts: Iterable[Line], separator: str = "") -> Line:
    """Return the lines as one."""
    between = (Segment(separator, "dim"),) if separator else ()
    return Line([segment for number, part in enumerate(parts) for segment in (*between[:number], *part)])


def fitting(items: Iterable[tuple[int, Line]], width: int, separator: str = "  ") -> Line:
    """Return as many lines as fit side by side as one, in their order. Empty ones are left out.

    Args:
        items: lines with their importance; the least important ones are left out first.
    """
    shown = [item for item in items if item[1]]
    kept = chosen([item[0] for item in shown], [item[1].width for item in shown], width, len(separator))
    return joined([shown[at][1] for at in kept], separator)


def chosen(importances: Sequence[int], widths: Sequence[int], width: int, gap: int) -> list[int]:
    """Return the positions of parts that fit side by side, the most important first; at least one, in their order."""
    kept: list[int] = []
    unused = width + gap
    for at in sorted(range(len(widths)), key=lambda at: -importances[at]):
        if not kept or widths[at] + gap <= unused:
            kept.append(at)
            unused -= widths[at] + gap
    return sorted(kept)


def wrapped(text: str, width: int, indent: str) -> Iterator[Line]:
    """Yield a text in lines, all of them indented."""
    row = ""
    for word in text.split():
        if row and len(indent) + len(row) + 1 + len(word) > width:
            yield line(indent + row)
            row = word
        else:
            row = f"{row} {word}" if row else word
    if row:
        yield line(indent + row)


def ascii_line(given: Line) -> Line:
    """Return a line of the same width without characters outside ASCII."""
    if given.text.isascii():
        return given
    return Line([Segment("".join(map(_ascii, text.translate(_ASCII_MARKS))), style) for text, style in given])


def _ascii(character: str) -> str:
    if character.isascii():
        return character
    dots = ord(character) - BRAILLE
    if not 0 < dots < 256:
        return "?" * cells(character)
    return "'" if dots & 0x09 else ":" if dots & 0x12 else "-" if dots & 0x24 else "."  # at the highest dot


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
        is_name: whether it is a text or a segment that names the row, and is shortened to what distinguishes it.
    """

    title: str
    width: int
    importance: int
    cell: Callable[[Row], Line | Segment | str]
    align: Callable[[str, int], str] = right
    most: int = 0
    is_name: bool = False

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


def named_columns(columns: Sequence[TableColumn[Row]], rows: Sequence[Row]) -> list[TableColumn[Row]]:
    """Return the columns, with the names of all rows shortened to what distinguishes them."""
    return [_named(each, rows) if each.is_name else each for each in columns]


def _named(column: TableColumn[Row], rows: Sequence[Row]) -> TableColumn[Row]:
    def segment(row: Row) -> Segment:
        made = column.cell(row)
        return made[0] if isinstance(made, Line) else made if isinstance(made, Segment) else Segment(made)

    names = distinguished((segment(row).text for row in rows), column.width)
    return replace(
        column, cell=lambda row: Segment(column.align(names[segment(row).text], column.width), segment(row).style)
    )


def title_line(columns: Sequence[TableColumn[Row]]) -> Line:
    """Return the titles."""
    return styled(" ".join(each.align(each.title, each.width) for each in columns), "title")


def row_line(columns: Sequence[TableColumn[Row]], row: Row) -> Line:
    """Return a row."""
    return joined([each.fitted(row) for each in columns], " ")


Theme = Literal["dark", "light", "16", "none"]
THEMES: tuple[Theme, ...] = ("dark", "light", "16", "none")


class Paint(NamedTuple):
    """Colour of the text, empty for the terminal's own, and attributes.

    Attributes:
        colour: `#RRGGBB`, or the number of one of 16 colours.
    """

    colour: str = ""
    bold: bool = False
    dim: bool = False
    reverse: bool = False


_STYLES: Mapping[str, tuple[str, str, str, str]] = {
    "": ("", "", "", ""),
    "bold": ("", "", "", "bold"),
    "dim": ("", "", "", "dim"),
    "title": ("", "", "", "bold"),
    "select": ("", "", "", "reverse"),
    "key": ("#3D96EE", "#1466F0", "6", "bold"),
    "compute": ("#2FE6A0", "#024F3F", "2", ""),
    "memory": ("#E0609A", "#8E0070", "5", ""),
    "io": ("#3D96EE", "#1466F0", "4", ""),
    "mixed": ("#FFC933", "#8A6516", "3", ""),
    "idle": ("#C9D1D9", "#707A86", "", ""),
    "unknown": ("#B1B1C9", "#5A5A72", "6", ""),
    "ok": ("#2FE6A0", "#024F3F", "2", ""),
    "info": ("#409AE1", "#1466F0", "4", ""),
    "warn": ("#F4C520", "#8A6516", "3", ""),
    "hot": ("#EB834C", "#A8400B", "9", "bold"),
    "crit": ("#F63171", "#C00040", "1", "bold"),
    "stale": ("#B1B1C9", "#5A5A72", "", "dim"),
    "series0": ("#2FE6A0", "#024F3F", "2", ""),
    "series1": ("#3D96EE", "#1466F0", "4", ""),
    "series2": ("#FFC933", "#8A6516", "3", ""),
    "series3": ("#E0609A", "#8E0070", "5", ""),
    "series4": ("#9AD0FF", "#0A7D8C", "6", ""),
    "series5": ("#EB834C", "#A8400B", "10", ""),
    "series6": ("#B99CFF", "#5B3FC4", "12", ""),
    "series7": ("#E6EDF3", "#1B1F24", "13", ""),
}
"""By style the colour of the themes dark, light and 16, and an attribute.

Classes differ for all kinds of colour vision, and busy is not red.
"""


def palette(theme: Theme) -> Mapping[str, Paint]:
    """Return the paint of every style."""
    return {
        name: Paint("" if theme == "none" else colours[THEMES.index(theme)], **{attribute: True} if attribute else {})
        for name, (*colours, attribute) in _STYLES.items()
    }


def escape_codes(paint: Paint) -> str:
    """Return the parameters of the escape sequence (SGR) of a paint; empty for none."""
    codes = [code for is_set, code in ((paint.bold, "1"), (paint.dim, "2"), (paint.reverse, "7")) if is_set]
    if paint.colour.startswith("#"):
        red, green, blue = (int(paint.colour[at : at + 2], 16) for at in (1, 3, 5))
        codes.append(f"38;2;{red};{green};{blue}")
    elif paint.colour:
        number = int(paint.colour)
        codes.append(str(30 + number if number < 8 else 82 + number))
    return ";".join(codes)
