"""Colours of the styles: 16 colours that the terminal's theme defines, or those of the web page."""

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


_ATTRIBUTES: Mapping[str, Paint] = {
    "": Paint(),
    "bold": Paint(bold=True),
    "dim": Paint(dim=True),
    "title": Paint(bold=True),
    "key": Paint(bold=True),
    "select": Paint(reverse=True),
    "stale": Paint(dim=True),
    "crit": Paint(bold=True),
    "hot": Paint(bold=True),
}

_NAMES = ("compute", "memory", "io", "mixed", "idle", "unknown", "ok", "info", "warn", "hot", "crit", "stale", "key")

_COLOURS: Mapping[Theme, tuple[str, ...]] = {
    "dark": (
        "#2FE6A0", "#E0609A", "#3D96EE", "#FFC933", "#C9D1D9", "#B1B1C9",
        "#2FE6A0", "#409AE1", "#F4C520", "#EB834C", "#F63171", "#B1B1C9", "#3D96EE",
    ),
    "light": (
        "#024F3F", "#8E0070", "#1466F0", "#8A6516", "#707A86", "#5A5A72",
        "#024F3F", "#1466F0", "#8A6516", "#A8400B", "#C00040", "#5A5A72", "#1466F0",
    ),
    "16": ("2", "5", "4", "3", "", "6", "2", "4", "3", "9", "1", "", "6"),
    "none": ("",) * len(_NAMES),
}  # fmt: skip
"""By theme, the colours of `_NAMES`; classes differ for all kinds of colour vision, and busy is not red."""

_SERIES: Mapping[Theme, tuple[str, ...]] = {
    "dark": ("#2FE6A0", "#3D96EE", "#FFC933", "#E0609A", "#9AD0FF", "#EB834C", "#B99CFF", "#E6EDF3"),
    "light": ("#024F3F", "#1466F0", "#8A6516", "#8E0070", "#0A7D8C", "#A8400B", "#5B3FC4", "#1B1F24"),
    "16": ("2", "4", "3", "5", "6", "10", "12", "13"),
    "none": ("",) * 8,
}


def palette(theme: Theme) -> Mapping[str, Paint]:
    """Return the paint of every style."""
    colours = dict(zip(_NAMES, _COLOURS[theme], strict=True))
    colours |= {f"series{number}": colour for number, colour in enumerate(_SERIES[theme])}
    names = dict.fromkeys((*_ATTRIBUTES, *colours))
    return {name: _ATTRIBUTES.get(name, Paint())._replace(colour=colours.get(name, "")) for name in names}


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
