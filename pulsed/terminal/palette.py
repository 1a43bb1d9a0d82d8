"""Colours and attributes of the styles: the colours of the web page, or 16 that the terminal's theme defines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

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
