"""The epoch of an exporter, as its page has it: when its process was started."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from pulsed.model.raw_tick import UNKNOWN_EPOCH, Epoch, Layout, RawValue

PROCESS_START = "process_start_time_seconds"

_REPUBLISHED = "pulsed_"
"""Prefix of metrics on the page of another pulsed, whose process is not the one that counts."""


class PageEpoch:
    """Finds the start of the process on the pages of one target."""

    def __init__(self) -> None:
        self._layout: Layout | None = None
        self._position: int | None = None
        self._epoch = UNKNOWN_EPOCH

    def of(self, layout: Layout, values: Sequence[RawValue]) -> Epoch:
        """Return the epoch of a page, the same object until it changes; that of the page before if it has none."""
        if layout is not self._layout:
            self._layout, self._position = layout, _position(layout)
        value = None if self._position is None else values[self._position]
        if isinstance(value, float) and isfinite(value) and (start := repr(value)) != self._epoch.exporter:
            self._epoch = Epoch(exporter=start)
        return self._epoch


def _position(layout: Layout) -> int | None:
    if any(series.name.startswith(_REPUBLISHED) for series in layout.series):
        return None
    found = (at for at, series in enumerate(layout.series) if series.name == PROCESS_START and not series.labels)
    return next(found, None)
