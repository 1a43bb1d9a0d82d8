"""The sample lines of the GPU families, made once per tick and target.

A page of 10,000 GPUs is put together from the chunks of some thousand targets, of which only those with a new tick are
written anew. Both text formats have the same sample lines, so that chunks serve both.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import inf, isfinite
from typing import cast

from pulsed.compute.tick import ComputedTick
from pulsed.present.exposition import label_pairs
from pulsed.present.families import DERIVED, QUANTITY_FAMILIES, DerivedFamily, Family, Samples, Subject, subjects
from pulsed.present.identity import Key, key_of, label_text, node_of
from pulsed.translate.tick import Device
from pulsed.translate.vocabulary import Value

FAMILIES: tuple[Family, ...] = (*QUANTITY_FAMILIES, *DERIVED)
"""The families in the order of the page; a target's chunks are in this order."""

_QUANTITY_COLUMNS = tuple(
    (family.name + "{", 0.0 if family.type == "counter" else -inf) for family in QUANTITY_FAMILIES
)
"""How the lines of a quantity begin, and the least value that it can have."""


_NO_COLUMNS: Sequence[tuple[Value, ...]] = ((),) * len(QUANTITY_FAMILIES)
_NO_SAMPLES: Sequence[list[Samples]] = ([],) * len(DERIVED)


class TargetChunks:
    """What one target adds to the page, kept as long as nothing of it changes.

    Most of what a GPU says is what it said a tick ago (limits, errors, its class): such a family's lines are kept too.
    Writing numbers is what a page costs.

    Args:
        here: this process's node, for devices whose source does not name one.
    """

    def __init__(self, here: str) -> None:
        self.keys: tuple[Key, ...] = ()
        self.nodes: frozenset[str] = frozenset()
        self._here = here
        self._devices: tuple[Device, ...] = ()
        self._tick: ComputedTick | None = None
        self._labels: list[str] = []
        self._hidden: frozenset[int] = frozenset()
        self._with_node = False
        self._chunks = [b""] * len(FAMILIES)
        self._columns: Sequence[tuple[Value, ...]] = _NO_COLUMNS
        self._samples: Sequence[list[Samples]] = _NO_SAMPLES

    def see(self, devices: tuple[Device, ...]) -> bool:
        """Take notice of the target's devices; tells whether they are others than before."""
        if devices is self._devices:
            return False
        self._devices, self._tick = devices, None
        self.keys = tuple(key_of(device, self._here) for device in devices)
        self.nodes = frozenset(key[0] for key in self.keys)
        return True

    def render(self, tick: ComputedTick, hidden: frozenset[int], with_node: bool) -> list[bytes]:
        """Give the sample lines of every family, empty for one without samples.

        Args:
            tick: the target's tick; its devices have been seen.
            hidden: positions of devices that another target shows.
            with_node: whether the series carry the label `node`.
        """
        if self._tick is None or hidden != self._hidden or with_node != self._with_node:
            self._hidden, self._with_node, self._tick = hidden, with_node, None
            self._labels = [
                label_text(device, node_of(device, self._here) if with_node else None) + "} "
                for position, device in enumerate(self._devices)
                if position not in hidden
            ]
            self._chunks = [b""] * len(FAMILIES)
            self._columns, self._samples = _NO_COLUMNS, _NO_SAMPLES
        if tick is not self._tick:
            self._tick = tick
            shown = subjects(tick)
            if hidden:
                shown = [subject for position, subject in enumerate(shown) if position not in hidden]
            if shown:
                self._update(shown)
        return self._chunks

    def _update(self, shown: Sequence[Subject]) -> None:
        """Write again what is not as it was."""
        chunks, labels = self._chunks, self._labels
        columns = list(zip(*[subject.reading for subject in shown], strict=True))
        for place, (column, before) in enumerate(zip(columns, self._columns, strict=True)):
            if column != before:
                chunks[place] = _column(*_QUANTITY_COLUMNS[place], labels, column)
        samples = [list(map(family.samples, shown)) for family in DERIVED]
        for place, (found, known) in enumerate(zip(samples, self._samples, strict=True)):
            if found != known:
                chunks[len(columns) + place] = _derived(DERIVED[place], labels, found)
        self._columns, self._samples = columns, samples


def _column(prefix: str, least: float, labels: Sequence[str], column: tuple[Value, ...]) -> bytes:
    """Write one quantity of all GPUs.

    Only finite numbers are readings, and OpenMetrics refuses a page with a negative counter. That a column needs no
    look at each value is found in C: by its sum, which None spoils, and by its minimum.
    """
    numbers = cast("tuple[float, ...]", column)  # or a TypeError
    try:
        whole = isfinite(sum(numbers)) and min(numbers) >= least
    except TypeError:
        whole = False
    if whole:
        lines = [f"{prefix}{label}{value!r}\n" for label, value in zip(labels, column, strict=True)]
    else:
        lines = [
            f"{prefix}{label}{value!r}\n"
            for label, value in zip(labels, column, strict=True)
            if value is not None and isfinite(value) and value >= least
        ]
    return _encoded(lines)


def _derived(family: DerivedFamily, labels: Sequence[str], samples: Sequence[Samples]) -> bytes:
    own, name = family.labels, family.name
    return _encoded(
        [
            f"{_prefix(name, own, values)}{label}{value!r}\n"
            for label, found in zip(labels, samples, strict=True)
            for values, value in found
            if isfinite(value)
        ]
    )


def _encoded(lines: list[str]) -> bytes:
    # A label may hold half a surrogate pair, which UTF-8 cannot; it must not cost the page.
    return "".join(lines).encode("utf-8", "replace")


@lru_cache(maxsize=4096)
def _prefix(name: str, labels: tuple[str, ...], values: tuple[str, ...]) -> str:
    pairs = label_pairs((label, value) for label, value in zip(labels, values, strict=True) if value)
    return f"{name}{{{pairs}," if pairs else name + "{"
