"""The source's own series, republished so that dashboards made for dcgm-exporter keep working.

Names, labels, HELP and values come from the source; for dmon, they match dcgm-exporter's. Left out are:
blanks, text, series that a target before has, and whatever is not DCGM's (an exporter's own `process_*` would collide
with ours).

dmon's values pass as they are, because dmon and the exporter print DCGM's own numbers. Their rows have the form
of dcgm-exporter 4 up to 4.8.2: classic field names, `Hostname`. Columns that fill no quantity are left out, and
so are rows of a device that the tick does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypeGuard

from pulsed.model.gpu import LABEL_NAME, Device, Entity, node_of
from pulsed.model.raw_tick import Labels, Layout, RawValue, Series
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import QUANTITIES, is_counter
from pulsed.present.exposition.text_format import MetricType, header, label_pairs
from pulsed.translate.fields import BY_SHORT, DcgmField, Level, sources
from pulsed.translate.identity import blocks_of, dmon_entities
from pulsed.translate.units import CODE, COUNT, PSTATE, RATIO, is_blank

_DCGM_NAME = re.compile(r"(?i:dcgm)_[a-zA-Z0-9_]+")
"""DCGM_FI_*, DCGM_EXP_*, and dcgm_* of the lists that are compatible with dcgm-exporter 1.x."""

_LABEL_NAME = re.compile(LABEL_NAME)


def passthrough_lines(ticks: Sequence[Tick], here: str, openmetrics: bool) -> Iterator[str]:
    """Yield the families of the sources, each series of the first tick that has it; `here` is this process's node."""
    families: dict[str, list[str]] = {}
    used_names: set[str] = set()
    layouts = []
    for tick in ticks:
        from_dmon = tick.layout.dialect == "dmon"
        layout = exporter_layout(tick.layout, tick.devices, here) if from_dmon else tick.layout
        layouts.append(layout)
        for series, value in zip(layout.series, tick.values, strict=True):
            if not _republishable(series.name, series.labels):
                continue
            text = _series_text(series, tick.raw.target_labels)
            if text in used_names:
                continue
            used_names.add(text)
            if _publishable(value):
                if from_dmon and series.name == XID:
                    text = _with_code(text, value)
                families.setdefault(series.name, []).append(f"{text}{value!r}\n")
    for name, lines in families.items():
        yield _header(name, layouts, openmetrics)
        yield from lines


def _series_text(series: Series, added: Labels) -> str:
    """Return a series up to its value, with labels in alphabetical order; those that are added replace none."""
    labels = {**dict(added), **dict(series.labels)}
    return f"{series.name}{{{label_pairs(sorted(labels.items()))}}} " if labels else f"{series.name} "


def _with_code(key: str, value: float) -> str:
    """Return the series with the label that dcgm-exporter derives from the value of an XID."""
    return f'{key.removesuffix("} ")},err_code="{int(value)}"}} '


def _header(name: str, layouts: Iterable[Layout], openmetrics: bool) -> str:
    """Return HELP and TYPE of a republished family, as declared by the first layout that has it."""
    help = declared = ""
    for layout in layouts:
        if name in layout.types or name in layout.help:
            help, declared = layout.help.get(name, ""), layout.types.get(name, "")
            break
    return header(name, _type(declared, openmetrics), help, openmetrics)


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

    The blanks of int64 fields include the blanks of the other types, with which dcgm-exporter compares.
    """
    return isinstance(value, (int, float)) and isfinite(value) and not is_blank(value, "int64")


XID = sources("xid_last_code")[0].names[0]
"""The family whose samples also carry their value as a label: `err_code`."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of dmon as a family of a dcgm-exporter page.

    Types follow dcgm-exporter's etc/default-counters.csv, but decreasing counters are gauges:
    NVLink's rate and the flag for pending page retirements.
    """

    name: str
    type: str
    help: str
    level: Level


_WITHOUT_UNIT = frozenset(unit.name for unit in (RATIO, COUNT, CODE, PSTATE))


def _column(fields: Sequence[DcgmField]) -> _Column:
    # A field that also stands in for another one is described by the quantity that it is itself.
    field = next((field for field in fields if sources(field.quantity)[0] is field), fields[0])
    meaning = QUANTITIES[field.quantity].meaning
    return _Column(
        name=field.names[0],
        type="counter" if is_counter(field.quantity) else "gauge",
        help=meaning if field.unit.name in _WITHOUT_UNIT else f"{meaning}, in {field.unit.name}",
        level=field.level,
    )


_COLUMNS: Mapping[str, _Column] = {short: _column(fields) for short, fields in BY_SHORT.items()}

_ALL: frozenset[Level] = frozenset(column.level for column in _COLUMNS.values())

_NOTHING = Series("")
"""Placeholder of a position without a republished series."""


def exporter_layout(layout: Layout, devices: Sequence[Device], here: str) -> Layout:
    """Return dmon's layout with the names of dcgm-exporter, position by position; empty where nothing is served.

    On a board that is split by MIG every value has one series, so that sums are right: an instance's own value comes
    with the instance's labels and not from the board's row, all else comes once, from the board's row. (dcgm-exporter
    has no board rows there and repeats the board's values on every instance.)
    """
    devices_by_place = {_place(device.entity): device for device in devices}
    series = [_NOTHING] * len(layout.series)
    for subject in dmon_entities(blocks_of(layout), "", {}):
        device = devices_by_place.get(_place(subject.entity))
        if device is None:
            continue
        labels = _labels(device, here)
        levels = _levels(device.entity, devices)
        for position, _ in subject.series:
            column = _COLUMNS.get(layout.series[position].name)
            if column is not None and column.level in levels:
                series[position] = Series(column.name, labels)
    served = {one.name for one in series}
    columns = [column for column in _COLUMNS.values() if column.name in served]
    return Layout(
        "exporter",
        tuple(series),
        help={column.name: column.help for column in columns},
        types={column.name: column.type for column in columns},
    )


def _place(entity: Entity) -> tuple[str, str, str]:
    """Return the key of an entity of one dmon: not the UUID, which may be in a text column."""
    return entity.kind, entity.gpu, entity.mig_id


def _levels(entity: Entity, devices: Sequence[Device]) -> frozenset[Level]:
    """Return the levels that an entity's row serves."""
    others = [device.entity for device in devices]
    if entity.kind == "gpu":
        split = any(other.kind == "mig" and other.gpu == entity.gpu for other in others)
        return _ALL - {"instance"} if split else _ALL
    # An instance without a known board would be counted in addition to it. dcgm-exporter has no vGPUs of a host.
    orphan = not entity.gpu and any(other.kind == "gpu" for other in others)
    return frozenset() if orphan or entity.kind == "vgpu" else frozenset({"instance"})


def _labels(device: Device, here: str) -> tuple[tuple[str, str], ...]:
    """Return the known labels in dcgm-exporter's order."""
    entity = device.entity
    labels = (
        ("gpu", entity.gpu),
        ("UUID", entity.uuid),
        ("pci_bus_id", device.pci_bus_id),
        # dcgm-exporter makes it from the index, not from the minor number.
        ("device", device.device or (f"nvidia{entity.gpu}" if entity.gpu else "")),
        ("modelName", device.model),
        ("GPU_I_PROFILE", entity.mig_profile),
        ("GPU_I_ID", entity.mig_id),
        ("Hostname", node_of(device, here)),
        ("DCGM_FI_DRIVER_VERSION", device.driver_version),
    )
    return tuple((name, text) for name, text in labels if text)
