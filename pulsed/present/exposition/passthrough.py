"""The source's own series, republished so that dashboards made for dcgm-exporter keep working.

Names, labels, HELP and values are those of the source; for dmon, those that a dcgm-exporter would have. Left out are:
blanks, text, series that a target before has, and whatever is not DCGM's (an exporter's own `process_*` would collide
with ours).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import TypeGuard

from pulsed.model.computed_tick import ComputedTick
from pulsed.model.gpu import Device
from pulsed.model.raw_tick import Layout, RawValue, Series
from pulsed.present.exposition.exporter_rows import XID, exporter_layout
from pulsed.present.exposition.text_format import MetricType, header, label_pairs
from pulsed.translate.units import is_blank

_DCGM_NAME = re.compile(r"(?i:dcgm)_[a-zA-Z0-9_]+")
"""DCGM_FI_*, DCGM_EXP_*, and dcgm_* of the lists that are compatible with dcgm-exporter 1.x."""

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class TargetPassthrough:
    """The republished series of one target, kept as long as its tick is the same; `here` is this process's node."""

    def __init__(self, here: str) -> None:
        self.keys: list[str] = []
        self.layout: Layout | None = None  # before the first tick
        self._here = here
        self._source: Layout | None = None
        self._devices: tuple[Device, ...] = ()
        self._names: list[str] = []
        self._coded: frozenset[int] = frozenset()
        self._tick: ComputedTick | None = None
        self._hidden: frozenset[int] = frozenset()
        self._chunks: dict[str, bytes] = {}

    def update_layout(self, tick: ComputedTick) -> bool:
        """Update to the target's layout; return whether its series changed."""
        source, from_dmon = tick.layout, tick.layout.dialect == "dmon"
        if source is self._source and (tick.devices is self._devices or not from_dmon):
            return False
        self._source, self._devices, self._tick = source, tick.devices, None
        self.layout = layout = exporter_layout(source, tick.devices, self._here) if from_dmon else source
        self._names = [series.name for series in layout.series]
        self.keys = [
            _series_text(series) if _republishable(series.name, series.labels) else "" for series in layout.series
        ]
        self._coded = frozenset(position for position, name in enumerate(self._names) if from_dmon and name == XID)
        return True

    def render(self, tick: ComputedTick, hidden: frozenset[int]) -> Mapping[str, bytes]:
        """Return the sample lines by metric name, in the source's order; names without samples are omitted.

        The layout is that of the last `update_layout`; series at the positions `hidden` belong to other targets.
        """
        if tick is not self._tick or hidden != self._hidden:
            lines: dict[str, list[str]] = {}
            for position, (name, key, value) in enumerate(zip(self._names, self.keys, tick.values, strict=True)):
                if key and position not in hidden and _publishable(value):
                    if position in self._coded:
                        key = _with_code(key, value)
                    lines.setdefault(name, []).append(f"{key}{value!r}\n")
            self._chunks = {name: "".join(found).encode("utf-8", "replace") for name, found in lines.items()}
            self._tick, self._hidden = tick, hidden
        return self._chunks


def _series_text(series: Series) -> str:
    """Return a series up to its value, with labels in alphabetical order."""
    return f"{series.name}{{{label_pairs(sorted(series.labels))}}} " if series.labels else f"{series.name} "


def _with_code(key: str, value: float) -> str:
    """Return the series with the label that dcgm-exporter derives from the value of an XID."""
    return f'{key.removesuffix("} ")},err_code="{int(value)}"}} '


def passthrough_header(name: str, layouts: Iterable[Layout], openmetrics: bool) -> bytes:
    """Return HELP and TYPE of a republished family, as declared by the first layout that has it."""
    help = declared = ""
    for layout in layouts:
        if name in layout.types or name in layout.help:
            help, declared = layout.help.get(name, ""), layout.types.get(name, "")
            break
    return header(name, _type(declared, openmetrics), help, openmetrics).encode("utf-8", "replace")


def _type(declared: str, openmetrics: bool) -> MetricType:
    """Return a type that is valid in the format: OpenMetrics requires `_total` for counters, which DCGM's lack."""
    if declared == "gauge":
        return "gauge"
    return "counter" if declared == "counter" and not openmetrics else "unknown"


def _republishable(name: str, labels: tuple[tuple[str, str], ...]) -> bool:
    """Return whether the series is DCGM's and is valid on a page."""
    label_names = [label for label, _ in labels]
    return (
        _DCGM_NAME.fullmatch(name) is not None
        and len(set(label_names)) == len(label_names)
        and all(_LABEL_NAME.fullmatch(label) for label in label_names)
    )


def _publishable(value: RawValue) -> TypeGuard[float]:
    """Return whether a value is a number: exporters before 2020-07 printed DCGM's blanks.

    The blanks of int64 fields include those of the other types, which dcgm-exporter compares with.
    """
    return isinstance(value, (int, float)) and isfinite(value) and not is_blank(value, "int64")
