"""Rows of the tables of metrics; neighbours with similar meanings are joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from pulsed.model.vocabulary import is_counter
from pulsed.present.exposition.catalog import form_of
from pulsed.present.exposition.families import Family
from pulsed.present.exposition.text_format import UNITS

ABSENT = {
    "brief": "",
    "current": "other states",
    "raised": "ok",
    "differing": "bounds equal",
    "counted": "0",
    "recent": "0 for 10 min",
    "full": "lean",
}
"""When a lean page lacks series that a full one has, by mark."""


class Row(NamedTuple):
    """One or more metrics in a table.

    Attributes:
        names: of the metrics.
        meaning: the HELP text.
        labels: those besides the labels of the GPU.
        mark: of the lean page; empty where it has the same series as a full one.
        origins: DCGM fields of each metric; empty in tables without them, which have labels instead.
        since: the oldest dcgm-exporter that accepts the fields; empty for all.
        nvml: which GPUs `nvml` reads it of; empty for all.
        type: empty for a counter or gauge, which the name distinguishes.
    """

    names: tuple[str, ...]
    meaning: str
    labels: tuple[str, ...] = ()
    mark: str = ""
    type: str = ""
    origins: tuple[str, ...] = ()
    since: str = ""
    nvml: str = ""

    def __str__(self) -> str:
        names = "<br>".join(f"`{name}`" for name in self.names)
        labels = ",<br>".join(f"`{label}`" for label in self.labels)
        cells = [names, self.kind, self.unit, labels, self.meaning, ABSENT[self.mark] if self.mark else ""]
        if self.origins:
            cells = [*cells[:3], *cells[4:], "<br>".join(self.origins), self.since, self.nvml]
        return f"|{'|'.join(cells)}|"

    @property
    def kind(self) -> str:
        """The type."""
        return self.type or ("counter" if is_counter(self.names[0]) else "gauge")

    @property
    def unit(self) -> str:
        """The unit that the name ends with; empty for a number without one."""
        if self.names[0].endswith("_bytes_per_second"):
            return "bytes/s"
        unit = self.names[0].removesuffix("_total").rpartition("_")[2]
        return unit if unit in UNITS else ""


_MARKS = {"every": "", "zero_first": "", "events": "counted"}
"""Marks of forms that differ from their names; empty where a lean page has the series of a full one."""


def mark_of(family: Family) -> str:
    """Return the mark of a family's form on a lean page; empty without one."""
    form = form_of(family.name)
    return "full" if form is None else "raised" if family.name.endswith("health_check") else _MARKS.get(form, form)


TABLE_HEAD = "|metric|type|unit|labels|meaning|absent|"


def table(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of a table of metrics."""
    yield f"{TABLE_HEAD}\n{'|-' * 6}|"
    yield from map(str, joined_rows(rows))


def joined_rows(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows, neighbours with the same mark and limits and similar meanings as one."""
    group: list[Row] = []
    for row in rows:
        if group and not _one([*group, row]):
            yield from _one(group)
            group = []
        group.append(row)
    yield from _one(group)


def _one(rows: list[Row]) -> list[Row]:
    """Return the row that stands for all; none if they differ too much."""
    meaning = joined_meaning([row.meaning for row in rows])
    if not meaning or len({(row.labels, row.mark, row.kind, row.unit, row.since, row.nvml) for row in rows}) > 1:
        return []
    names, origins = (tuple(chain(*column)) for column in zip(*((row.names, row.origins) for row in rows), strict=True))
    return [rows[0]._replace(names=names, meaning=meaning, origins=origins)]


def joined_meaning(meanings: Sequence[str]) -> str:
    """Return texts that differ in one place or two words as one text; empty if they have too few words in common.

    `Data sent over PCIe` and `Data received over PCIe` are `Data sent / received over PCIe`.
    """
    first, *others = texts = [meaning.split() for meaning in meanings]
    if not others:
        return meanings[0]
    if words := _joined_words(texts):
        return words
    shortest = min(map(len, texts))
    start = next((i for i in range(shortest) if len({text[i] for text in texts}) > 1), shortest)
    end = next((i for i in range(shortest - start) if len({text[-1 - i] for text in texts}) > 1), shortest - start)
    places = [text[start : len(text) - end] for text in texts]
    lengths = {len(place) for place in places}
    if 0 in lengths or start + end < max(2, max(lengths) - 1) or (start == 0 and len(lengths) > 1):
        return ""
    return " ".join([*first[:start], " / ".join(map(" ".join, places)), *first[len(first) - end :]])


def _joined_words(texts: Sequence[Sequence[str]]) -> str:
    """Return texts that differ in two separate words as one text; empty for others.

    `Data sent, see sent_total` and `Data received, see received_total` are `Data sent / received, see sent_total /
    received_total`.
    """
    if len({len(text) for text in texts}) > 1:
        return ""
    columns = [tuple(dict.fromkeys(words)) for words in zip(*texts, strict=True)]
    places = [place for place, words in enumerate(columns) if len(words) == len(texts)]
    same = sum(len(words) == 1 for words in columns)
    if len(places) != 2 or places[1] == places[0] + 1 or same != len(columns) - 2 or same < 4:
        return ""
    return " ".join(" / ".join(words) for words in columns)
