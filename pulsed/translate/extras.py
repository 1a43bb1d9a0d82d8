"""dcgm-exporter's own metrics, which carry codes in labels: XIDs, health watches, clock events.

Their series are many and appear and disappear, so they are not quantities of a `Reading`. All are off in the exporter's
default page; a page without them costs nothing here. Source: dcgm-exporter's collectors (`DCGM_EXP_*`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pulsed.model.canonical_tick import Extras
from pulsed.model.gpu import Device, Entity
from pulsed.model.raw_tick import Layout, RawValue
from pulsed.translate.identity import SeriesEntity
from pulsed.translate.units import is_blank

_FAMILIES: Mapping[str, tuple[str, str]] = {
    "DCGM_EXP_XID_ERRORS_COUNT": ("xid_counts", "xid"),
    "DCGM_EXP_XID_ERRORS_TOTAL": ("xid_totals", "xid"),
    "DCGM_EXP_GPU_HEALTH_STATUS": ("health_watches", "health_watch"),
    "DCGM_EXP_CLOCK_EVENTS_COUNT": ("clock_events", "clock_event"),
}
"""By metric: the attribute of `Extras` that it fills, and the label with its code."""

_CODE = re.compile(r"[0-9]{1,9}")

_Slot = tuple[int, str]
"""Position in the layout, and the value of the label; empty on the one series that an exporter gives for no XID."""


@dataclass(frozen=True, slots=True)
class ExtrasPlan:
    """Where the extras of one device are among the values of a layout, by attribute of `Extras`."""

    slots: Mapping[str, tuple[_Slot, ...]]

    def read(self, values: Sequence[RawValue]) -> Extras | None:
        """Return what is present, or None. Of several series with the same label, such as of several pods, the largest
        counts."""
        found = {name: read for name, slots in self.slots.items() if (read := _read(slots, values)) is not None}
        if not found:
            return None
        return Extras(
            xid_counts=_codes(found.get("xid_counts")),
            xid_totals=_codes(found.get("xid_totals")),
            health_watches=_texts(found.get("health_watches")),
            clock_events=_texts(found.get("clock_events")),
        )


class ExtrasReader:
    """Reads the extras of all devices of a layout; the same numbers again are not read anew."""

    def __init__(self, plans: Mapping[Entity, ExtrasPlan]) -> None:
        self._plans = plans
        self._positions = [
            position for plan in plans.values() for slots in plan.slots.values() for position, _ in slots
        ]
        self._devices: Sequence[Device] = ()
        self._seen: list[RawValue] = []
        self._extras: Mapping[int, Extras] = {}

    def read(self, devices: Sequence[Device], values: Sequence[RawValue]) -> Mapping[int, Extras]:
        """Return the extras by position in `devices`."""
        now = [values[position] for position in self._positions]
        if now != self._seen or devices is not self._devices:
            self._seen, self._devices = now, devices
            self._extras = {
                position: extras
                for position, device in enumerate(devices)
                if (plan := self._plans.get(device.entity)) and (extras := plan.read(values))
            }
        return self._extras


def extras_plans(layout: Layout, entities: Sequence[SeriesEntity]) -> Mapping[Entity, ExtrasPlan]:
    """Return the plans of the entities that have extras. What a MIG instance repeats goes to its board."""
    if layout.dialect != "exporter":
        return {}
    slots: dict[Entity, dict[str, list[_Slot]]] = {}
    for subject in entities:
        owner = subject.parent or subject
        for position, _ in subject.series:
            series = layout.series[position]
            if family := _FAMILIES.get(series.name):
                attribute, label = family
                slot = (position, dict(series.labels).get(label, ""))
                slots.setdefault(owner.entity, {}).setdefault(attribute, []).append(slot)
    return {
        entity: ExtrasPlan({attribute: tuple(of_attribute) for attribute, of_attribute in of_entity.items()})
        for entity, of_entity in slots.items()
    }


def _read(slots: Sequence[_Slot], values: Sequence[RawValue]) -> dict[str, float] | None:
    """Return the largest value by label, or None if no series has a value."""
    found: dict[str, float] = {}
    is_there = False
    for position, label in slots:
        value = values[position]
        if isinstance(value, (int, float)) and value >= 0 and not is_blank(value, "int64"):
            is_there = True
            if label:
                found[label] = max(value, found.get(label, 0.0))
    return found if is_there else None


def _codes(found: Mapping[str, float] | None) -> tuple[tuple[int, float], ...] | None:
    if found is None:
        return None
    codes = ((int(label), value) for label, value in found.items() if _CODE.fullmatch(label))
    return tuple(sorted((code, value) for code, value in codes if code))


def _texts(found: Mapping[str, float] | None) -> tuple[tuple[str, float], ...] | None:
    return None if found is None else tuple(sorted(found.items()))
