"""GPUs as metrics `hw.*` of OpenTelemetry's semantic conventions for hardware, version 1.44: a table without state.

Energy and traffic are pulsed's own counters, which neither fall with the driver's nor jump with a misread value. A
missing reading has no point, nor has a GPU of a stale target; a GPU whose health is unknown has no status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from pulsed.model.gpu import Device, node_of
from pulsed.model.health import Health
from pulsed.model.target_store import TargetStore
from pulsed.model.tick import GpuRow, shown_rows
from pulsed.model.vocabulary import WORKLOAD_CLASSES, Reading, Value

STATUSES = ("ok", "degraded", "predicted_failure", "failed")
"""The values of `hw.state`."""

WEAR = ("row_remap_growth", "smoothing_wear")
"""Checks on what wears out before it fails."""

MetricKind = Literal["gauge", "counter", "updown"]


class MetricHead(NamedTuple):
    """A metric without its points; `updown` is a sum that may fall."""

    name: str
    unit: str
    help: str
    kind: MetricKind


HardwarePoint = tuple[str, MetricHead, tuple[tuple[str, str], ...], float]
"""A node, a metric of its hardware, attributes, and a value."""


class HardwareMetric(NamedTuple):
    """A metric of the conventions.

    Attributes:
        attribute: its own, in addition to the attributes of every GPU; empty for none.
        points: returns its values for one GPU, by the attribute.
        of_instances: whether MIG instances have it as well.
    """

    head: MetricHead
    attribute: str
    points: Callable[[GpuRow], Iterable[tuple[str, Value]]]
    of_instances: bool = False


def status_of(health: Health) -> str | None:
    """Return the status in the words of the conventions; None if the health is unknown."""
    if health.state == "unknown":
        return None
    if health.state == "crit":
        return "failed"
    if any(check.severity > 0 for check in health.checks if check.id in WEAR):
        return "predicted_failure"
    return "ok" if health.state in ("ok", "info") else "degraded"


def _first(reading: Reading, *names: str) -> Value:
    return next((value for name in names if (value := getattr(reading, name)) is not None), None)


def _reading(
    name: str, unit: str, help: str, kind: MetricKind, attribute: str, quantities: str, *, of_instances: bool = False
) -> HardwareMetric:
    """Return a metric of readings.

    Args:
        quantities: values of the attribute, each with candidate quantities, as in `die=temperature_celsius`, or only
            quantities; the first available one is used.
    """
    sources = [(own, names.split("|")) for own, _, names in (each.rpartition("=") for each in quantities.split())]
    return HardwareMetric(
        MetricHead(name, unit, help, kind),
        attribute,
        lambda sample: [(own, _first(sample.reading, *names)) for own, names in sources],
        of_instances,
    )


def _traffic(sample: GpuRow) -> Iterator[tuple[str, Value]]:
    for way in ("receive", "transmit"):
        yield way, sample.result.counters.value(f"observed_pcie_{way}_bytes")


def _energy(sample: GpuRow) -> Iterator[tuple[str, Value]]:
    counters = sample.result.counters
    yield "", sum(counters.value("class_energy_joules", each) or 0.0 for each in WORKLOAD_CLASSES) or None


def _statuses(sample: GpuRow) -> Iterator[tuple[str, Value]]:
    if (status := status_of(sample.result.health)) is not None:
        yield from ((each, float(each == status)) for each in STATUSES)


METRICS: tuple[HardwareMetric, ...] = (
    _reading(
        "hw.gpu.utilization", "1", "Fraction of time spent in a specific task.", "gauge", "hw.gpu.task",
        "general=gpu_utilization_ratio|graphics_engine_active_ratio encoder=encoder_utilization_ratio "
        "decoder=decoder_utilization_ratio", of_instances=True,
    ),
    _reading(
        "hw.gpu.memory.limit", "By", "Size of the GPU memory.", "updown", "", "memory_bytes", of_instances=True
    ),
    _reading("hw.gpu.memory.usage", "By", "GPU memory used.", "updown", "", "memory_used_bytes", of_instances=True),
    _reading(
        "hw.gpu.memory.utilization", "1", "Fraction of GPU memory used.", "gauge", "", "memory_used_ratio",
        of_instances=True,
    ),
    HardwareMetric(
        MetricHead("hw.gpu.io", "By", "Received and transmitted bytes by the GPU, over PCIe.", "counter"),
        "network.io.direction",
        _traffic,
    ),
    _reading(
        "hw.errors", "{error}", "Number of errors encountered by the component.", "counter", "error.type",
        "corrected=ecc_sbe_aggregate_total|ecc_sbe_volatile_total "
        "uncorrected=ecc_dbe_aggregate_total|ecc_dbe_volatile_total",
    ),
    _reading(
        "hw.power", "W", "Instantaneous power consumed by the component.", "gauge", "",
        "power_instant_watts|power_watts",
    ),
    HardwareMetric(MetricHead("hw.energy", "J", "Energy consumed by the component.", "counter"), "", _energy),
    _reading(
        "hw.temperature", "Cel", "Temperature in degrees Celsius.", "gauge", "hw.sensor_location",
        "die=temperature_celsius memory=memory_temperature_celsius",
    ),
    HardwareMetric(
        MetricHead("hw.status", "1", "Operational status: 1 or 0 for each of the possible states.", "updown"),
        "hw.state",
        _statuses,
    ),
)  # fmt: skip


def hardware_points(store: TargetStore, now: float) -> Iterator[HardwarePoint]:
    """Yield the points of all GPUs of targets that are fresh at `now` (monotonic seconds), each GPU once."""
    samples = [row for _, row in shown_rows(store.fresh_ticks(now), store.node)]
    for sample in sorted(samples, key=lambda sample: node_of(sample.device, store.node)):
        node, common = node_of(sample.device, store.node), attributes_of(sample.device)
        for metric in METRICS:
            if metric.of_instances or sample.device.entity.kind == "gpu":
                for own, value in metric.points(sample):
                    if value is not None:
                        yield node, metric.head, (*common, (metric.attribute, own)) if own else common, value


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
