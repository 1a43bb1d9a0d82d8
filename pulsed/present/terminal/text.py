"""Text for a terminal: made safe, cut and padded by the cells that it occupies."""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from unicodedata import category, combining, east_asian_width

ELLIPSIS = "…"


@lru_cache(maxsize=4096)
def clean(text: str) -> str:
    """Return a text from outside without anything that a terminal interprets.

    Control characters, among them those of escape sequences, and direction marks become `?`; combining marks are
    dropped.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(each) for each in text)


def cleaned(document: Any) -> Any:
    """Return a JSON document with all of its texts and keys clean."""
    if isinstance(document, str):
        return clean(document)
    if isinstance(document, list):
        return [cleaned(each) for each in document]
    if isinstance(document, dict):
        return {clean(key): cleaned(value) for key, value in document.items()}
    return document


def _shown(character: str) -> str:
    kind = category(character)
    if combining(character) or kind in ("Mn", "Me", "Mc"):
        return ""
    return "?" if kind in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") else character


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
