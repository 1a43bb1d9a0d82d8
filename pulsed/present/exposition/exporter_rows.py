"""dmon's values as rows of a dcgm-exporter page: its names, units, labels, TYPE and HELP.

The shape is that of dcgm-exporter 4 up to 4.8.2: classic field names, `Hostname`. dmon and the exporter print DCGM's
own numbers, so that values pass as they are. Columns that fill no quantity are left out, and so are rows of a device
that the tick does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pulsed.model.gpu import Device, Entity, node_of
from pulsed.model.raw_tick import Layout, Series
from pulsed.model.vocabulary import QUANTITIES, is_counter
from pulsed.translate.fields import BY_SHORT, DcgmField, Level, sources
from pulsed.translate.identity import blocks_of, dmon_entities
from pulsed.translate.units import CODE, COUNT, PSTATE, RATIO

XID = sources("xid_last_code")[0].names[0]
"""The family whose samples carry their value as a label, too: `err_code`."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of dmon as a family of a dcgm-exporter page.

    Types are those of dcgm-exporter's etc/default-counters.csv, but for what it calls a counter though it goes down:
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

    On a board that is split by MIG every value has one series, so that sums are right: what is an instance's own comes
    with the instance's labels and not from the board's row, all else comes once, from the board's row. (dcgm-exporter
    has no board rows there and repeats the board's values on every instance.)
    """
    known = {_place(device.entity): device for device in devices}
    series = [_NOTHING] * len(layout.series)
    for subject in dmon_entities(blocks_of(layout), "", {}):
        device = known.get(_place(subject.entity))
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
    # An instance without a known board would be counted beside its board. dcgm-exporter has no vGPUs of a host.
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
