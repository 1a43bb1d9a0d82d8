"""One tick out of a fast and a slow stream, and of what is known about the entities. Pure but for what it remembers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pulsed.model.raw_tick import Labels, Layout, RawValue, Series
from pulsed.reader.dcgmi.discovery import NOTHING_KNOWN, Topology


@dataclass(slots=True)
class Assembly:
    """Makes layouts, the same object for the same parts."""

    _fast: Layout | None = None
    _slow: Layout | None = None
    _topology: Topology = NOTHING_KNOWN
    _layout: Layout | None = None

    def layout(self, fast: Layout, slow: Layout | None, topology: Topology) -> Layout:
        """Return the series of both layouts, fast ones first, with what is known of their entities as labels."""
        if self._layout is None or fast is not self._fast or slow is not self._slow or topology is not self._topology:
            self._fast, self._slow, self._topology = fast, slow, topology
            series = (*fast.series, *(slow.series if slow else ()))
            self._layout = Layout(fast.dialect, _labelled(series, topology))
        return self._layout


def values(fast: Sequence[RawValue], slow: Sequence[RawValue] | None, slow_layout: Layout | None) -> Sequence[RawValue]:
    """Return the values to go with it; None for all of the slow ones if these are too old or not there."""
    if slow_layout is None:
        return fast
    return [*fast, *(slow if slow is not None else [None] * len(slow_layout.series))]


def entities(layout: Layout) -> frozenset[Labels]:
    """Return the entities that a stream has rows of."""
    return frozenset(series.labels for series in layout.series)


def _labelled(series: Sequence[Series], topology: Topology) -> tuple[Series, ...]:
    known: dict[Labels, Labels] = {}
    for labels in {one.labels for one in series}:
        pairs = dict(labels)
        known[labels] = (*labels, *topology.labels.get((pairs["entity"], pairs["id"]), ()))
    return tuple(Series(one.name, known[one.labels]) for one in series)
