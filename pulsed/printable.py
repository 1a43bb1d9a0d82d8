"""Text from outside for terminals, logs and tables: without characters that those interpret. Must not import any layer.

Names of GPUs, nodes, users, jobs and files, messages of other programs and answers of servers are chosen by others.
Control characters, C1 ones included, begin escape sequences; marks of direction and invisible characters make a text
look like another one.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache
from io import TextIOWrapper
from typing import Any, TextIO
from unicodedata import category, combining, east_asian_width

_ASCII_MARKS = str.maketrans("█▒·▏▁▂▃▄▅▆▇┌┐└┘─│━…•▔▎", "#=.|_.,-~+*++++-|-~*-|")


@lru_cache(maxsize=4096)
def clean(text: str) -> str:
    """Return a text without anything that a terminal interprets.

    Control characters, including escape sequences, and direction marks become `?`; combining marks are
    dropped.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(each) for each in text)


_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")  # full-width forms count, too
_NUMBER = re.compile(r"[-+]?[0-9]{1,20}(?:\.[0-9]{1,20})?")


@lru_cache(maxsize=4096)
def text_cell(text: str) -> str:
    """Return a clean text, with a `'` before one that spreadsheets would take for a formula (OWASP: CSV injection)."""
    text = clean(text)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text


def clean_lines(text: str) -> str:
    """Return a text of several lines as `clean` does; it ends with a line feed."""
    return "".join(f"{clean(line)}\n" for line in text.removesuffix("\n").split("\n"))


def cleaned(document: Any) -> Any:
    """Return a JSON document with all of its texts and keys clean."""
    if isinstance(document, str):
        return clean(document)
    if isinstance(document, list):
        return [cleaned(each) for each in document]
    if isinstance(document, dict):
        return {clean(key): cleaned(value) for key, value in document.items()}
    return document


def escaped(text: str) -> str:
    """Return the text of a JSON document with escapes, such as `\\u202e`, for what is not printable."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _shown(character: str) -> str:
    kind = category(character)
    if combining(character) or kind in ("Mn", "Me", "Mc"):
        return ""
    return "?" if kind in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") else character


def ascii_text(text: str) -> str:
    """Return a text of the same width without characters outside ASCII; escape sequences stay."""
    return text if text.isascii() else "".join(map(_ascii, text.translate(_ASCII_MARKS)))


def _ascii(character: str) -> str:
    if character.isascii():
        return character
    return "??" if east_asian_width(character) in "WF" else "?"


def is_unicode(stream: TextIO) -> bool:
    """Return whether every character can be written to a stream."""
    return (stream.encoding or "utf-8").lower().replace("-", "").startswith("utf")


def write_ascii_marks(stream: TextIO) -> None:
    """Write characters that the encoding of a stream lacks as `ascii_text` does, instead of raising an error."""
    if isinstance(stream, TextIOWrapper) and not is_unicode(stream):
        codecs.register_error("ascii_marks", _marks)
        stream.reconfigure(errors="ascii_marks")


def _marks(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return ascii_text(error.object[error.start : error.end]), error.end
