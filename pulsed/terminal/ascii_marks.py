"""The lines with ASCII characters only, of the same width."""

from __future__ import annotations

from pulsed.terminal.line import Line, Segment
from pulsed.terminal.text import cells

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
