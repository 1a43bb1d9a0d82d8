"""Texts of a width in terminal cells; without the rest of rich, as the daemon renders tables too."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

ELLIPSIS = "…"


def left(text: str, width: int) -> str:
    """Return a text of exactly `width` cells, aligned to the left; an ellipsis marks what was left out."""
    if cell_len(text) > width > 0:
        text = set_cell_size(text, width - 1) + ELLIPSIS
    return set_cell_size(text, width)


def right(text: str, width: int) -> str:
    """Return a text of exactly `width` cells, aligned to the right."""
    return " " * (width - cell_len(text)) + text if cell_len(text) <= width else left(text, width)
