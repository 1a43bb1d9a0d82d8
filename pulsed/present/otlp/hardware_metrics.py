"""GPUs as metrics `hw.*` of OpenTelemetry's semantic conventions for hardware, version 1.44.

What these conventions have no metric for is under `pulsed.*`. A missing reading has no point, nor has a GPU of a stale
target; a GPU whose health is unknown has no status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from pulsed.model.computed_tick import GpuSample, gpu_samples, without_duplicates
from pulsed.model.gpu import Device, node_of
from pulsed.model.health import Health
from pulsed.model.target_store import TargetStore
from pulsed.model.vocabulary import Value

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

Points = Iterable[tuple[str, Value]]
"""Values by the metric's own attribute; the attribute is left out where its value is empty."""


class HardwareMetric(NamedTuple):
    """A metric of the conventions.

    Attributes:
        attribute: its own, beside those of every GPU; empty for none.
        points: returns its values for one GPU.
        of_instances: whether MIG instances have it as well.
    """

    head: MetricHead
    attribute: str
    points: Callable[[GpuSample], Points]
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


def _statuses(sample: GpuSample) -> Points:
    status = status_of(sample.result.health)
    return [] if status is None else [(each, float(each == status)) for each in STATUSES]


def _first(*values: Value) -> Value:
    return next((value for value in values if value is not None), None)


def _alone(get: Callable[[GpuSample], Value]) -> Callable[[GpuSample], Points]:
    return lambda sample: [("", get(sample))]


METRICS: tuple[HardwareMetric, ...] = (
    HardwareMetric(
        MetricHead("hw.gpu.utilization", "1", "Fraction of time spent in a specific task.", "gauge"),
        "hw.gpu.task",
        lambda sample: [
            ("general", _first(sample.reading.gpu_utilization_ratio, sample.reading.graphics_engine_active_ratio)),
            ("encoder", sample.reading.encoder_utilization_ratio),
            ("decoder", sample.reading.decoder_utilization_ratio),
        ],
        True,
    ),
    HardwareMetric(
        MetricHead("hw.gpu.memory.limit", "By", "Size of the GPU memory.", "updown"),
        "",
        _alone(lambda sample: sample.reading.memory_bytes),
        True,
    ),
    HardwareMetric(
        MetricHead("hw.gpu.memory.usage", "By", "GPU memory used.", "updown"),
        "",
        _alone(lambda sample: sample.reading.memory_used_bytes),
        True,
    ),
    HardwareMetric(
        MetricHead("hw.gpu.memory.utilization", "1", "Fraction of GPU memory used.", "gauge"),
        "",
        _alone(lambda sample: sample.reading.memory_used_ratio),
        True,
    ),
    HardwareMetric(
        MetricHead("hw.gpu.io", "By", "Received and transmitted bytes by the GPU, over PCIe.", "counter"),
        "network.io.direction",
        lambda sample: [
            (way, sample.result.counters.value(f"observed_pcie_{way}_bytes")) for way in ("receive", "transmit")
        ],
    ),
    HardwareMetric(
        MetricHead("hw.errors", "{error}", "Number of errors encountered by the component.", "counter"),
        "error.type",
        lambda sample: [
            ("corrected", _first(sample.reading.ecc_sbe_volatile_total, sample.reading.ecc_sbe_aggregate_total)),
            ("uncorrected", _first(sample.reading.ecc_dbe_volatile_total, sample.reading.ecc_dbe_aggregate_total)),
        ],
    ),
    HardwareMetric(
        MetricHead("hw.power", "W", "Instantaneous power consumed by the component.", "gauge"),
        "",
        _alone(lambda sample: _first(sample.reading.power_instant_watts, sample.reading.power_watts)),
    ),
    HardwareMetric(
        MetricHead("hw.energy", "J", "Energy consumed by the component.", "counter"),
        "",
        _alone(lambda sample: sample.reading.energy_joules_total),
    ),
    HardwareMetric(
        MetricHead("hw.temperature", "Cel", "Temperature in degrees Celsius.", "gauge"),
        "hw.sensor_location",
        lambda sample: [
            ("die", sample.reading.temperature_celsius),
            ("memory", sample.reading.memory_temperature_celsius),
        ],
    ),
    HardwareMetric(
        MetricHead("hw.status", "1", "Operational status: 1 or 0 for each of the possible states.", "updown"),
        "hw.state",
        _statuses,
    ),
)


def hardware_points(store: TargetStore, now: float) -> Iterator[HardwarePoint]:
    """Yield the points of all GPUs of targets that are fresh at `now` (monotonic seconds), each GPU once."""
    ticks = store.fresh_ticks(now)
    shown = [sample for tick in without_duplicates(ticks, store.node) for sample in gpu_samples(tick)]
    for sample in sorted(shown, key=lambda sample: node_of(sample.device, store.node)):
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
    }
    return tuple((name, value) for name, value in pairs.items() if value)
