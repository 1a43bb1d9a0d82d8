"""GPUs as metrics `hw.*` of OpenTelemetry's semantic conventions for hardware, version 1.44.

What these conventions have no metric for is under `pulsed.*`. A missing reading has no point, nor has a GPU of a stale
target; a GPU whose health is unknown has no status.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

from pulsed.model.gpu import Device, GpuKey, key_of, node_of
from pulsed.model.health import Health
from pulsed.model.target_store import TargetStore
from pulsed.model.tick import GpuRow, shown_rows
from pulsed.model.vocabulary import Reading, Value

STATUSES = ("ok", "degraded", "predicted_failure", "failed")
"""The values of `hw.state`."""

WEAR = ("row_remap_growth", "smoothing_wear")
"""Checks on what wears out before it fails."""

_SPARE = 64

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
        attribute: its own, in addition to those of every GPU; empty for none.
        points: returns its values for one GPU; none of a metric with `sources`.
        of_instances: whether MIG instances have it as well.
        sources: of counters of the GPU: by the value of the attribute, the quantities of which the first that a GPU has
            counts, the same one from then on.
    """

    head: MetricHead
    attribute: str
    points: Callable[[GpuRow], Points] = lambda sample: ()
    of_instances: bool = False
    sources: Mapping[str, tuple[str, ...]] = MappingProxyType({})


def status_of(health: Health) -> str | None:
    """Return the status in the words of the conventions; None if the health is unknown."""
    if health.state == "unknown":
        return None
    if health.state == "crit":
        return "failed"
    if any(check.severity > 0 for check in health.checks if check.id in WEAR):
        return "predicted_failure"
    return "ok" if health.state in ("ok", "info") else "degraded"


def _statuses(sample: GpuRow) -> Points:
    status = status_of(sample.result.health)
    return [] if status is None else [(each, float(each == status)) for each in STATUSES]


def _first(*values: Value) -> Value:
    return next((value for value in values if value is not None), None)


def _alone(get: Callable[[GpuRow], Value]) -> Callable[[GpuRow], Points]:
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
        sources={
            "corrected": ("ecc_sbe_volatile_total", "ecc_sbe_aggregate_total"),
            "uncorrected": ("ecc_dbe_volatile_total", "ecc_dbe_aggregate_total"),
        },
    ),
    HardwareMetric(
        MetricHead("hw.power", "W", "Instantaneous power consumed by the component.", "gauge"),
        "",
        _alone(lambda sample: _first(sample.reading.power_instant_watts, sample.reading.power_watts)),
    ),
    HardwareMetric(
        MetricHead("hw.energy", "J", "Energy consumed by the component.", "counter"),
        "",
        sources={"": ("energy_joules_total",)},
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


@dataclass(slots=True)
class _DeviceCounter:
    """A counter that a GPU keeps itself: its first value and all increases since; the total never falls."""

    quantity: str
    total: float = 0.0
    last: float = 0.0

    def update(self, value: float) -> float:
        """Return the total with a new value; one that has fallen started again from 0."""
        self.total += value - self.last if value >= self.last else value
        self.last = value
        return self.total


class DeviceCounters:
    """The counters that GPUs keep themselves, each as one series with one source that never falls.

    The driver starts them again when it is loaded, and a source may lack one of two quantities at times.
    """

    def __init__(self) -> None:
        self._counters: dict[tuple[GpuKey, str, str], _DeviceCounter] = {}

    def __len__(self) -> int:
        return len(self._counters)

    def points(self, metric: HardwareMetric, key: GpuKey, reading: Reading) -> Points:
        """Return the values of a metric for one GPU; None where its source has none now."""
        for own, quantities in metric.sources.items():
            series = key, metric.head.name, own
            counter = self._counters.get(series)
            if counter is None:
                quantity = next((name for name in quantities if getattr(reading, name) is not None), None)
                if quantity is None:
                    continue
                counter = self._counters[series] = _DeviceCounter(quantity)
            value = getattr(reading, counter.quantity)
            yield own, None if value is None else counter.update(value)

    def forget_others(self, keys: Collection[GpuKey]) -> None:
        """Forget GPUs that are gone, once most of them are."""
        counter_keys = {key for key, _, _ in self._counters}
        if len(counter_keys) > 2 * len(keys) + _SPARE:
            self._counters = {series: counter for series, counter in self._counters.items() if series[0] in keys}


def hardware_points(store: TargetStore, now: float, counters: DeviceCounters) -> Iterator[HardwarePoint]:
    """Yield the points of all GPUs of targets that are fresh at `now` (monotonic seconds), each GPU once."""
    shown = [row for _, row in shown_rows(store.fresh_ticks(now), store.node)]
    for sample in sorted(shown, key=lambda sample: node_of(sample.device, store.node)):
        node, common = node_of(sample.device, store.node), attributes_of(sample.device)
        for metric in METRICS:
            if metric.of_instances or sample.device.entity.kind == "gpu":
                key = key_of(sample.device, store.node)
                for own, value in (*metric.points(sample), *counters.points(metric, key, sample.reading)):
                    if value is not None:
                        yield node, metric.head, (*common, (metric.attribute, own)) if own else common, value
    counters.forget_others({key_of(sample.device, store.node) for sample in shown})


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
