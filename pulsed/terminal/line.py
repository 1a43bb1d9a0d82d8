"""A line of styled segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from unicodedata import east_asian_width

STYLES = (
    "", "bold", "dim", "title", "key", "select",
    "compute", "memory", "io", "mixed", "idle", "unknown",
    "ok", "info", "warn", "hot", "crit", "stale",
    *(f"series{number}" for number in range(8)),
)  # fmt: skip
"""Names of styles; their colours are the palette's."""


class Segment(NamedTuple):
    """A text with the name of its style."""

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
        left = width
        found: list[Segment] = []
        for segment in self:
            size = cells(segment.text)
            if size > left:
                text = cut(segment.text, left)
                found.append(Segment(text, segment.style))
                left -= cells(text)
                break
            found.append(segment)
            left -= size
        if left > 0:
            found.append(Segment(" " * left))
        return Line(found)

    def selected(self) -> Line:
        """Return the line as that of the selected row."""
        return Line([Segment(segment.text, "select") for segment in self])


def line(*parts: Segment | str) -> Line:
    """Return a line of segments and plain texts."""
    return Line([part if isinstance(part, Segment) else Segment(part) for part in parts])


def joined(parts: Iterable[Line], separator: str = "") -> Line:
    """Return the lines as one."""
    return Line(_joined(parts, separator))


def _joined(parts: Iterable[Line], separator: str) -> Iterator[Segment]:
    for number, part in enumerate(parts):
        if number and separator:
            yield Segment(separator, "dim")
        yield from part


class Item(NamedTuple):
    """A part of a line that is left out where the line is too narrow for it and for more important ones."""

    importance: int
    line: Line


def fitting(items: Iterable[Item], width: int, separator: str = "  ") -> Line:
    """Return as many items as fit, the most important first, in their order. Empty ones are left out."""
    shown = [item for item in items if item.line]
    kept = chosen([item.importance for item in shown], [item.line.width for item in shown], width, len(separator))
    return joined([shown[at].line for at in kept], separator)


def chosen(importances: Sequence[int], widths: Sequence[int], width: int, gap: int) -> list[int]:
    """Return the positions of parts that fit side by side, the most important first; at least one, in their order."""
    kept: list[int] = []
    left = width + gap
    for at in sorted(range(len(widths)), key=lambda at: -importances[at]):
        if not kept or widths[at] + gap <= left:
            kept.append(at)
            left -= widths[at] + gap
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


ELLIPSIS = "…"


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


def left(text: str, width: int) -> str:
    """Return a text of exactly `width` cells, aligned to the left."""
    text = cut(text, width)
    return text + " " * (width - cells(text))


def right(text: str, width: int) -> str:
    """Return a text of exactly `width` cells, aligned to the right."""
    text = cut(text, width)
    return " " * (width - cells(text)) + text


_MARKS = str.maketrans("█▒·▏▁▂▃▄▅▆▇┌┐└┘─│━…", "#=.|_.,-~+*++++-|-~")

_BRAILLE = 0x2800


def ascii_line(given: Line) -> Line:
    """Return a line without characters outside ASCII."""
    if given.text.isascii():
        return given
    return Line([Segment(_ascii(segment.text), segment.style) for segment in given])


def _ascii(text: str) -> str:
    return "".join(_shown(each) for each in text.translate(_MARKS))


def _shown(character: str) -> str:
    if character.isascii():
        return character
    if _BRAILLE < ord(character) < _BRAILLE + 256:
        return _dots(ord(character) - _BRAILLE)
    return "?" * cells(character)


def _dots(bits: int) -> str:
    """Return a mark at the height of the highest dots."""
    if bits & 0x09:
        return "'"
    return ":" if bits & 0x12 else "-" if bits & 0x24 else "."
