"""Text for a terminal: cut and padded by the cells that it occupies."""

from __future__ import annotations

from unicodedata import east_asian_width

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
