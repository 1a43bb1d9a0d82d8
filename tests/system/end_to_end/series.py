"""Pages read by a regex of our own, so that what pulsed and prometheus_client make of them can be held against it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_ROW = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})? +(\S.*?) *$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Row(NamedTuple):
    """One sample line; label values are left escaped."""

    name: str
    labels: frozenset[tuple[str, str]]
    value: str

    def label(self, *names: str) -> str:
        """The first of these labels that is there."""
        found = dict(self.labels)
        return next((found[name] for name in names if name in found), "")


def rows(page: str) -> Iterator[Row]:
    """Every sample line of a page."""
    for name, labels, value in _ROW.findall(page):
        yield Row(name, frozenset(_LABEL.findall(labels)), value)


def values(page: str, name: str, label: str = "gpu") -> dict[str, float]:
    """The samples of one name, by the value of one of their labels."""
    return {row.label(label): float(row.value) for row in rows(page) if row.name == name}
