"""Reads the series of a page in the text format without timestamps. Must not depend on what they mean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_LABEL = re.compile(rb',?([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(rb"\\(.)")
_ESCAPES = {b"n": b"\n"}


class PageFamily(NamedTuple):
    """A family of a page, with its samples: each a series and its value."""

    name: str
    type: str
    help: str
    samples: list[tuple[bytes, float]]


def families_of(page: bytes) -> Iterator[PageFamily]:
    """Yield the families of a page that have a type."""
    help, family = b"", None
    for line in page.splitlines():
        if line[:2] == b"# ":
            _, word, name, text = line.split(b" ", 3)
            if word == b"HELP":
                help = text
            elif word == b"TYPE":
                if family is not None:
                    yield family
                family = PageFamily(name.decode(), text.decode(), help.decode("utf-8", "replace"), [])
                help = b""
        elif line and family is not None:
            series, _, value = line.rpartition(b" ")
            family.samples.append((series, float(value)))
    if family is not None:
        yield family


def labels_of(series: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the labels of a series, with the values that they stand for."""
    rest = series.partition(b"{")[2]
    at = 0
    while matched := _LABEL.match(rest, at):
        label, value = matched.groups()
        yield label, _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), value) if b"\\" in value else value
        at = matched.end()
