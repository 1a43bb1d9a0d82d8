"""GPUs as metrics `hw.*` of OpenTelemetry's semantic conventions for hardware, version 1.44: a table without state.

Energy, traffic and errors are counted by compute, where one misread value is neither a fall nor a jump. A missing
reading has no point, nor has a GPU of a stale target; a GPU whose health is unknown has no status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from pulsed.model.clocks import Monotonic
from pulsed.model.gpu import Device, node_of
from pulsed.model.health import Health
from pulsed.model.target_store import TargetStore
from pulsed.model.tick import GpuRow, shown_rows
from pulsed.model.vocabulary import WORKLOAD_CLASSES, Value

STATUSES = ("ok", "degraded", "predicted_failure", "failed")
"""The values of `hw.state`."""

WEAR = ("row_remap_growth", "smoothing_wear")
"""Checks on what wears out before it fails."""


class MetricHead(NamedTuple):
    """A metric without its points; `updown` is a sum that may fall."""

    name: str
    unit: str
    help: str
    kind: Literal["gauge", "counter", "updown"]


HardwarePoint = tuple[str, MetricHead, tuple[tuple[str, str], ...], float]
"""A node, a metric of its hardware, attributes, and a value."""

Points = Callable[[GpuRow], Iterable[tuple[str, Value]]]
"""Returns the values of a metric for one GPU, by the metric's own attribute."""


def status_of(health: Health) -> str | None:
    """Return the status in the words of the conventions; None if the health is unknown."""
    if health.state == "unknown":
        return None
    if health.state == "crit":
        return "failed"
    if any(check.severity > 0 for check in health.checks if check.id in WEAR):
        return "predicted_failure"
    return "ok" if health.state in ("ok", "info") else "degraded"


def _readings(sources: Mapping[str, tuple[str, ...]]) -> Points:
    """Return a function for attribute value → candidate quantities; the first available one is used."""

    def points(row: GpuRow) -> Iterator[tuple[str, Value]]:
        for own, names in sources.items():
            values = (getattr(row.reading, name) for name in names)
            yield own, next((value for value in values if value is not None), None)

    return points


def _traffic(row: GpuRow) -> Iterator[tuple[str, Value]]:
    for way in ("receive", "transmit"):
        yield way, row.result.counters.value(f"observed_pcie_{way}_bytes")


def _energy(row: GpuRow) -> Iterator[tuple[str, Value]]:
    counters = row.result.counters
    yield "", sum(counters.value("class_energy_joules", each) or 0.0 for each in WORKLOAD_CLASSES) or None


def _statuses(row: GpuRow) -> Iterator[tuple[str, Value]]:
    if (status := status_of(row.result.health)) is not None:
        yield from ((each, float(each == status)) for each in STATUSES)


_UTILIZATIONS = {
    "general": ("gpu_utilization_ratio", "graphics_engine_active_ratio"),
    "encoder": ("encoder_utilization_ratio",),
    "decoder": ("decoder_utilization_ratio",),
}
_TEMPERATURES = {"die": ("temperature_celsius",), "memory": ("memory_temperature_celsius",)}

# fmt: off
OF_INSTANCES: Sequence[tuple[MetricHead, str, Points]] = (
    (MetricHead("hw.gpu.utilization", "1", "Fraction of time spent in a specific task.", "gauge"),
     "hw.gpu.task", _readings(_UTILIZATIONS)),
    (MetricHead("hw.gpu.memory.limit", "By", "Size of the GPU memory.", "updown"),
     "", _readings({"": ("memory_bytes",)})),
    (MetricHead("hw.gpu.memory.usage", "By", "GPU memory used.", "updown"),
     "", _readings({"": ("memory_used_bytes",)})),
    (MetricHead("hw.gpu.memory.utilization", "1", "Fraction of GPU memory used.", "gauge"),
     "", _readings({"": ("memory_used_ratio",)})),
)
"""Metrics of boards and MIG instances: each with the name of its own attribute, empty for none, and its points."""

OF_BOARDS = (
    *OF_INSTANCES,
    (MetricHead("hw.gpu.io", "By", "Received and transmitted bytes by the GPU, over PCIe.", "counter"),
     "network.io.direction", _traffic),
    (MetricHead("hw.errors", "{error}", "Number of errors encountered by the component.", "counter"),
     "error.type", lambda row: row.result.errors),
    (MetricHead("hw.power", "W", "Instantaneous power consumed by the component.", "gauge"),
     "", _readings({"": ("power_instant_watts", "power_watts")})),
    (MetricHead("hw.energy", "J", "Energy consumed by the component.", "counter"), "", _energy),
    (MetricHead("hw.temperature", "Cel", "Temperature in degrees Celsius.", "gauge"),
     "hw.sensor_location", _readings(_TEMPERATURES)),
    (MetricHead("hw.status", "1", "Operational status: 1 or 0 for each of the possible states.", "updown"),
     "hw.state", _statuses),
)
# fmt: on


def hardware_points(store: TargetStore, now: Monotonic) -> Iterator[HardwarePoint]:
    """Yield the points of all GPUs of targets that are fresh at `now` (monotonic seconds), each GPU once."""
    rows = [row for _, row in shown_rows(store.fresh_ticks(now), store.node)]
    for row in sorted(rows, key=lambda row: node_of(row.device, store.node)):
        node, common = node_of(row.device, store.node), attributes_of(row.device)
        for head, attribute, points in OF_BOARDS if row.device.entity.kind == "gpu" else OF_INSTANCES:
            for own, value in points(row):
                if value is not None:
                    yield node, head, (*common, (attribute, own)) if own else common, value


def attributes_of(device: Device) -> tuple[tuple[str, str], ...]:
    """Return the attributes of every point of a GPU or MIG instance, as far as they are known."""
    entity = device.entity
    board = entity.uuid or f"gpu-{entity.gpu}"
    pairs = {
        "hw.id": (device.mig_uuid or f"{board}/{entity.mig_id}") if entity.mig_id else board,
        "hw.type": "gpu",
        "hw.name": f"GPU {entity.name}",
        "hw.parent": board if entity.mig_id else "",
        "hw.model": device.model,
        "hw.vendor": "NVIDIA",
        "hw.driver_version": device.driver_version,
        "hw.serial_number": device.serial,
        "hw.firmware_version": device.vbios_version,
    }
    return tuple((name, value) for name, value in pairs.items() if value)
