"""Render the chapter of docs/metrics.md about the quantities from the table of DCGM fields."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pulsed.model.vocabulary import QUANTITIES, Group
from pulsed.present.exposition.families import QUANTITY_FAMILIES
from pulsed.reader.nvml.calls import CALLS, FIELD_VALUES, GPM_METRICS
from pulsed.reader.nvml.device import GPM_SUPPORT
from pulsed.reader.nvml.session import XID
from pulsed.translate.fields import ANY, GROUPS, DcgmField, sources
from pulsed.translate.fields import DERIVED as COMPOSED
from tools.metric_rows import Row, joined_rows, mark_of

_NVML = {name for call in CALLS for name in call.names} | {field.name for field in FIELD_VALUES} | {GPM_SUPPORT, XID}
_GPM = {metric.name for metric in GPM_METRICS}

HEAD = """
## Quantities

The first field that the source has is the value; without one the metric is absent. `dcgmi` reads numbered fields only
if `source.dcgmi.fields` lists them. *exporter*: the oldest dcgm-exporter that accepts the field. *nvml*: `GPM`: Hopper
and newer."""

CHAPTERS: dict[Group, str] = {
    "activity": "Activity",
    "traffic": "Traffic",
    "memory": "Memory",
    "power": "Power, heat and clocks",
    "errors": "Errors and limits",
    "state": "State",
}


def quantities() -> Iterator[str]:
    """Yield the lines of the chapter."""
    yield HEAD
    for group, title in CHAPTERS.items():
        yield f"\n### {title}\n\n|metric|type|unit|meaning|absent|DCGM field|exporter|nvml|\n{'|-' * 8}|"
        numbered: dict[tuple[str, str, str], list[Row]] = {}
        for (name, quantity), family in zip(QUANTITIES.items(), QUANTITY_FAMILIES, strict=True):
            if quantity.group == group:
                row = Row(
                    (family.name,),
                    quantity.meaning,
                    mark=mark_of(family),
                    origins=(_origin(name),),
                    since=_since(name),
                    nvml=_nvml(name),
                )
                numbered.setdefault(_without_number(row), []).append(row)
        yield from map(str, joined_rows(_engines(rows) for rows in numbered.values()))


def _fields(quantity: str) -> list[DcgmField]:
    """Return the fields of a quantity and of what it is composed of."""
    parts = COMPOSED[quantity].split(" ")[::2] if quantity in COMPOSED else []
    return [*sources(quantity), *(field for part in parts for field in sources(part))]


def _is_watched(quantity: str) -> bool:
    ids = {field.id for field in _fields(quantity)}
    return any(not ids.isdisjoint((*group.fast, *group.slow, *group.superchip)) for group in GROUPS.values())


def _origin(quantity: str) -> str:
    """Return the fields of a quantity, with their numbers if `dcgmi` reads them only on request."""
    is_watched = _is_watched(quantity)
    origins = [str(field).partition(" ")[2] if is_watched else str(field) for field in sources(quantity)]
    return ", ".join([*origins, COMPOSED[quantity]] if quantity in COMPOSED else origins)


def _since(quantity: str) -> str:
    """Return the oldest dcgm-exporter that accepts one of the fields; empty for any."""
    since = min(field.since for field in _fields(quantity))
    return "" if since == ANY else f"{since}"


def _nvml(quantity: str) -> str:
    """Return which GPUs the source `nvml` reads a quantity of; empty for all."""
    names = {name for field in _fields(quantity) for name in field.names}
    return "" if names & _NVML else "GPM" if names & _GPM else "no"


def _without_number(row: Row) -> tuple[str, str, str]:
    """Return a key that the rows of engines of one kind share (`nvdec0`, `nvdec1`); others have their own."""
    name, meaning, origin = row.names[0], row.meaning, row.origins[0]
    if not re.search(r"_nv[a-z]+\d_", name):
        return name, meaning, origin
    return re.sub(r"\d", "N", name), re.sub(r"\d", "N", meaning), re.sub(r"^\d+|\d", "N", origin)


def _engines(rows: list[Row]) -> Row:
    """Return the row of all engines of a kind, `[0-7]` in place of their numbers."""
    first, last = rows[0], rows[-1]
    if len(rows) == 1:
        return first
    engines = f"[0-{len(rows) - 1}]"
    number, field = first.origins[0].split()
    origin = f"{number} to {last.origins[0].split()[0]} {re.sub(r'[0-9]', engines, field)}"
    name, meaning = re.sub(r"\d", engines, first.names[0]), re.sub(r"\d", "N", first.meaning)
    return first._replace(names=(name,), meaning=meaning, origins=(origin,))
