"""What dcgm-exporter serves in rows of their own: XIDs, health watches, clock events, NVLinks, and processors.

Their codes are in labels. Their series are many and appear and disappear, so they are not quantities of a `Reading`.
Only processors of superchips are on in the exporter's default page; a page without extras costs nothing
here. Source: dcgm-exporter's collectors (`DCGM_EXP_*`). The number of an NVLink is a label, or in the name of DCGM's
fields per lane.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pulsed.model.gpu import Entity
from pulsed.model.host import CpuReading
from pulsed.model.label_names import with_known_names
from pulsed.model.raw_tick import Layout, RawValue, Series
from pulsed.model.tick import Extras, LinkCounters
from pulsed.translate.fields import BY_SHORT, FIELDS, TEXT_NAMES, fields_named, spelling
from pulsed.translate.identity import SeriesEntity, clean_labels, host_of
from pulsed.translate.units import is_blank

_FAMILIES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "DCGM_EXP_XID_ERRORS_COUNT": ("xid_counts", ("xid",)),
    "DCGM_EXP_XID_ERRORS_TOTAL": ("xid_totals", ("xid",)),
    "DCGM_EXP_XID_ERRORS": ("xid_totals", ("xid",)),
    "DCGM_EXP_GPU_HEALTH_STATUS": ("health_watches", ("health_watch", "health_error_code")),
    "DCGM_EXP_CLOCK_EVENTS_COUNT": ("clock_events", ("clock_event",)),
    "DCGM_FI_DEV_NVLINK_GET_STATE": ("nvlink_states", ("nvlink",)),
    "DCGM_FI_DEV_NVLINK_LINK_STATUS": ("nvlink_states", ("nvlink",)),
}
"""By metric: the attribute of `Extras` that it fills, and the labels with its code, the first one is needed.
A relay may have removed the `_TOTAL`."""

_COUNTER_KINDS: Mapping[str, str] = {
    field.quantity: field.quantity.removeprefix("nvlink_").removesuffix("_total")
    for field in FIELDS
    if field.quantity.startswith("nvlink_") and re.search(r"_(errors|recoveries|waits)_", field.quantity)
}
"""By quantity, the kind of counter that it is of one link."""

_LANE = re.compile(r"(?P<count>_COUNT)?_L(?P<lane>[0-9]{1,2})(_TOTAL)?|_PER_LINK_TOTAL")
_DMON_LANE = re.compile(r"(?P<stem>NFEL|NDEL|NREL|NRCL)(?P<lane>[0-9]{1,2})")

_CODE = re.compile(r"[0-9]{1,9}")

_Code = tuple[str, ...]
"""The values of the labels; the first is empty on the one series that an exporter gives for no XID."""

_Slot = tuple[int, _Code]
"""Position in the layout, and the code."""


@dataclass(frozen=True, slots=True)
class ExtrasPlan:
    """Where the extras of one device are among the values of a layout, by attribute of `Extras`."""

    slots: Mapping[str, tuple[_Slot, ...]]

    def read(self, values: Sequence[RawValue]) -> Extras | None:
        """Return what is present, or None. Of several series with the same label, such as of several pods, the largest
        counts."""
        numbers = {name: read for name, slots in self.slots.items() if (read := _read(slots, values)) is not None}
        if not numbers:
            return None
        return Extras(
            xid_counts=_codes(numbers.get("xid_counts")),
            xid_totals=_codes(numbers.get("xid_totals")),
            health_watches=_watches(numbers.get("health_watches")),
            clock_events=_texts(numbers.get("clock_events")),
            nvlink_states=_numbers(numbers.get("nvlink_states")),
            nvlink_counters=_by_link(numbers.get("nvlink_counters")),
        )


class ExtrasReader:
    """Reads the extras of all devices of a layout, if their numbers changed: 144 NVLinks take some ms."""

    def __init__(self, plans: Mapping[Entity, ExtrasPlan]) -> None:
        self._plans = plans
        self._positions = [
            position for plan in plans.values() for slots in plan.slots.values() for position, _ in slots
        ]
        self._seen: list[RawValue] = []
        self._extras: Mapping[Entity, Extras] = {}

    def read(self, values: Sequence[RawValue]) -> Mapping[Entity, Extras]:
        """Return the extras by entity."""
        now = [values[position] for position in self._positions]
        if now != self._seen:
            self._seen = now
            self._extras = {entity: extras for entity, plan in self._plans.items() if (extras := plan.read(values))}
        return self._extras


def extras_plans(layout: Layout, entities: Sequence[SeriesEntity]) -> Mapping[Entity, ExtrasPlan]:
    """Return the plans of the entities that have extras. Values repeated by a MIG instance go to its board."""
    slots: dict[Entity, dict[str, list[_Slot]]] = {}
    owners = {position: subject.parent or subject for subject in entities for position, _ in subject.series}
    boards = [subject for subject in entities if subject.parent is None]
    for position, series in enumerate(layout.series):
        attribute_code = _code_of(series)
        if attribute_code is not None:
            attribute, code = attribute_code
            is_of_link = attribute.startswith("nvlink")  # such a row names the GPU by `gpu_uuid` or `gpu`
            owner = owners.get(position) or (_board_of(clean_labels(series.labels), boards) if is_of_link else None)
            if owner is not None:
                slots.setdefault(owner.entity, {}).setdefault(attribute, []).append((position, code))
    return {
        entity: ExtrasPlan({attribute: tuple(of_attribute) for attribute, of_attribute in of_entity.items()})
        for entity, of_entity in slots.items()
    }


def _code_of(series: Series) -> tuple[str, _Code] | None:
    """Return the attribute of `Extras` that a series is of, and its code; None for other series."""
    name = spelling(series.name)
    if family := _FAMILIES.get(name) or _FAMILIES.get(name.removesuffix("_TOTAL")):
        attribute, names = family
        labels = dict(with_known_names(series.labels))
        return attribute, tuple([labels.get(label, "") for label in names])
    if match := _DMON_LANE.fullmatch(name):
        fields, link = BY_SHORT.get(f"{match['stem']}T", ()), match["lane"]
    elif "_NVLINK_" in name:
        lane = _LANE.search(name)
        total = f"{name[: lane.start()]}{lane['count'] or ''}_TOTAL" if lane else name
        fields = fields_named(total)
        link = (lane and lane["lane"]) or dict(with_known_names(series.labels)).get("nvlink", "")
    else:
        return None
    kind = _COUNTER_KINDS.get(fields[0].quantity) if fields else None
    return ("nvlink_counters", (link, kind)) if kind and link else None


def _board_of(labels: Mapping[str, str], boards: Sequence[SeriesEntity]) -> SeriesEntity | None:
    """Return the GPU of a link: by UUID, or without one by an index that only one GPU has."""
    uuid, gpu = labels.get("gpu_uuid", ""), labels.get("gpu", "")
    matches = [board for board in boards if (board.entity.uuid == uuid if uuid else gpu and board.entity.gpu == gpu)]
    return matches[0] if len(matches) == 1 else None


def _read(slots: Sequence[_Slot], values: Sequence[RawValue]) -> dict[_Code, float] | None:
    """Return the largest value by code, or None if no series has a value."""
    numbers: dict[_Code, float] = {}
    is_there = False
    for position, code in slots:
        value = values[position]
        if isinstance(value, (int, float)) and value >= 0 and not is_blank(value, "int64"):
            is_there = True
            if code[0]:
                numbers[code] = max(value, numbers.get(code, 0.0))
    return numbers if is_there else None


def _numbers(numbers: Mapping[_Code, float] | None) -> tuple[tuple[int, float], ...] | None:
    if numbers is None:
        return None
    return tuple(sorted((int(label), value) for (label,), value in numbers.items() if _CODE.fullmatch(label)))


def _by_link(numbers: Mapping[_Code, float] | None) -> LinkCounters | None:
    if numbers is None:
        return None
    links: dict[int, list[tuple[str, float]]] = {}
    for (link, kind), value in sorted(numbers.items()):
        if _CODE.fullmatch(link):
            links.setdefault(int(link), []).append((kind, value))
    return tuple(sorted((link, tuple(counters)) for link, counters in links.items()))


def _codes(numbers: Mapping[_Code, float] | None) -> tuple[tuple[int, float], ...] | None:
    return None if numbers is None else tuple([each for each in _numbers(numbers) or () if each[0]])


def _texts(numbers: Mapping[_Code, float] | None) -> tuple[tuple[str, float], ...] | None:
    return None if numbers is None else tuple(sorted((label, value) for (label,), value in numbers.items()))


def _watches(numbers: Mapping[_Code, float] | None) -> tuple[tuple[tuple[str, str], float], ...] | None:
    return (
        None if numbers is None else tuple(sorted(((watch, code), value) for (watch, code), value in numbers.items()))
    )


_QUANTITIES: Mapping[str, str] = {
    "DCGM_FI_DEV_CPU_TEMP_CURRENT": "temperature_celsius",
    "DCGM_FI_DEV_CPU_TEMP_CELSIUS": "temperature_celsius",
    "DCGM_FI_DEV_CPU_POWER_UTIL_CURRENT": "power_watts",
    "DCGM_FI_DEV_CPU_POWER_WATTS": "power_watts",
    "DCGM_FI_DEV_CPU_POWER_LIMIT": "power_limit_watts",
    "DCGM_FI_DEV_CPU_POWER_LIMIT_WATTS": "power_limit_watts",
    "DCGM_FI_DEV_SYSIO_POWER_UTIL_CURRENT": "io_power_watts",
    "DCGM_FI_DEV_MODULE_POWER_UTIL_CURRENT": "module_power_watts",
}
"""By metric, the attribute of a `CpuReading`."""

HIGHEST = 1e5
"""Upper bound of watts and degrees of a processor; blanks are above."""


class CpuSlot(NamedTuple):
    """Where a quantity of a processor is among the values of a layout."""

    position: int
    node: str
    cpu: str
    quantity: str


def cpu_slots(layout: Layout, node: str) -> tuple[CpuSlot, ...]:
    """Return the quantities of the processors of a page; `node` is the host of rows that do not name one."""
    if layout.dialect != "exporter":
        return ()
    slots = []
    for position, series in enumerate(layout.series):
        if (quantity := _QUANTITIES.get(spelling(series.name))) is not None:
            labels = clean_labels(series.labels)
            if labels.get("cpu") and "cpucore" not in labels:
                slots.append(CpuSlot(position, host_of(labels) or node, labels["cpu"], quantity))
    return tuple(slots)


def read_cpus(slots: Sequence[CpuSlot], values: Sequence[RawValue]) -> tuple[CpuReading, ...]:
    """Return the readings of processors with a known value."""
    by_cpu: dict[tuple[str, str], dict[str, float]] = {}
    for position, node, cpu, quantity in slots:
        value = values[position]
        if isinstance(value, (int, float)) and 0.0 <= value <= HIGHEST:
            by_cpu.setdefault((node, cpu), {})[quantity] = float(value)
    return tuple(CpuReading(node, cpu, **quantities) for (node, cpu), quantities in by_cpu.items())


def unknown_fields(layout: Layout) -> tuple[str, ...]:
    """Return the names of a page that begin as DCGM's and that no table has, in their order."""
    if layout.dialect != "exporter":
        return ()
    firsts = {
        series.name: series for series in reversed(layout.series) if spelling(series.name).upper().startswith("DCGM_")
    }
    return tuple([name for name, series in reversed(firsts.items()) if not _is_known(series)])


def _is_known(series: Series) -> bool:
    name = spelling(series.name)
    return bool(
        fields_named(name)
        or name in _QUANTITIES
        or any(name in names for names in TEXT_NAMES.values())
        or _code_of(replace(series, labels=(*series.labels, ("nvlink", "0"))))
    )
