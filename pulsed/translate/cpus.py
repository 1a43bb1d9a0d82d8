"""Readings of the processors of superchips, which dcgm-exporter serves in rows of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pulsed.model.host import CpuReading
from pulsed.model.raw_tick import Layout, RawValue
from pulsed.translate.identity import clean_labels, host_of

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
        if (quantity := _QUANTITIES.get(series.name)) is not None:
            labels = clean_labels(series.labels)
            if labels.get("cpu") and "cpucore" not in labels:
                slots.append(CpuSlot(position, host_of(labels) or node, labels["cpu"], quantity))
    return tuple(slots)


def read_cpus(slots: Sequence[CpuSlot], values: Sequence[RawValue]) -> tuple[CpuReading, ...]:
    """Return the readings of processors of which a value is known."""
    by_cpu: dict[tuple[str, str], dict[str, float]] = {}
    for position, node, cpu, quantity in slots:
        value = values[position]
        if isinstance(value, (int, float)) and 0.0 <= value <= HIGHEST:
            by_cpu.setdefault((node, cpu), {})[quantity] = float(value)
    return tuple(CpuReading(node, cpu, **quantities) for (node, cpu), quantities in by_cpu.items())
