"""The page and the hardware in OpenTelemetry's data model, encoded by its SDK: names, units, values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric, ResourceMetrics

from pulsed.present.exposition.families import COUNTER_FAMILIES, DERIVED, QUANTITY_FAMILIES
from pulsed.present.otlp.exporter import head_of, metrics_data
from pulsed.present.otlp.hardware_metrics import HardwarePoint, MetricHead
from pulsed.present.otlp.settings import OtlpSettings

PAGE = """\
# HELP pulsed_gpu_power_watts Board power
# TYPE pulsed_gpu_power_watts gauge
pulsed_gpu_power_watts{gpu="0",model="a \\"b\\""} 300.5
pulsed_gpu_power_watts{gpu="1",model=""} NaN
# HELP pulsed_gpu_energy_joules_total Energy
# TYPE pulsed_gpu_energy_joules_total counter
pulsed_gpu_energy_joules_total{gpu="0"} 12
# HELP pulsed_tick_duration_seconds Time
# TYPE pulsed_tick_duration_seconds histogram
pulsed_tick_duration_seconds_bucket{layer="read",le="0.1"} 2
pulsed_tick_duration_seconds_bucket{layer="read",le="1.0"} 5
pulsed_tick_duration_seconds_bucket{layer="read",le="+Inf"} 6
pulsed_tick_duration_seconds_count{layer="read"} 6
pulsed_tick_duration_seconds_sum{layer="read"} 7.5
"""
FAN: HardwarePoint = ("other-node", MetricHead("hw.status", "1", "", "updown"), (("hw.id", "GPU-1"),), 1.0)


def resources(page: str = PAGE) -> Sequence[ResourceMetrics]:
    attributes = {"a.b": "c", "service.name": "gpus"}
    return encode_metrics(metrics_data(page, [FAN], "node-1", attributes, 1_800_000_000_000_000_000)).resource_metrics


def metrics_of(resource: ResourceMetrics) -> Iterator[Metric]:
    for scope in resource.scope_metrics:
        assert scope.schema_url == "https://opentelemetry.io/schemas/1.44.0"
        assert scope.scope.name == "pulsed"
        yield from scope.metrics


def attributes(holder: object) -> dict[str, str]:
    return {each.key: each.value.string_value for each in holder.attributes}  # type: ignore[attr-defined]  # a message


def test_a_page_and_the_hardware_become_metrics_by_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=of-environment,d=e")
    own, other = resources()
    here, there = attributes(own.resource), attributes(other.resource)
    assert here["service.name"] == there["service.name"] == "gpus"
    assert (here["host.name"], there["host.name"], here["a.b"], here["d"]) == ("node-1", "other-node", "c", "e")
    assert here["service.instance.id"] == there["service.instance.id"] == "node-1"
    power, energy, duration = metrics_of(own)
    assert (power.name, power.unit, power.description) == ("pulsed.gpu.power_watts", "W", "Board power")
    (point,) = power.gauge.data_points
    assert (attributes(point), point.as_double) == ({"gpu": "0", "model": 'a "b"'}, 300.5)
    assert point.time_unix_nano == 1_800_000_000_000_000_000
    assert (energy.name, energy.unit) == ("pulsed.gpu.energy_joules", "J")
    assert energy.sum.is_monotonic
    assert energy.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    assert energy.sum.data_points[0].start_time_unix_nano == 0, "the driver's counter began at an unknown time"
    (bins,) = duration.histogram.data_points
    assert (duration.name, duration.unit, attributes(bins)) == ("pulsed.tick.duration_seconds", "s", {"layer": "read"})
    assert (list(bins.explicit_bounds), list(bins.bucket_counts)) == ([0.1, 1.0], [2, 3, 1])
    assert (bins.count, bins.sum) == (6, 7.5)
    assert not bins.HasField("min")
    (status,) = metrics_of(other)
    assert status.name == "hw.status"
    assert not status.sum.is_monotonic


WORDS = {
    "": "",
    "1": "",
    "s": "seconds",
    "By": "bytes",
    "By/s": "second",
    "J": "joules",
    "W": "watts",
    "Cel": "celsius",
    "Hz": "hertz",
}


def of_prometheus(head: MetricHead) -> str:
    """Return the name that Prometheus' receiver makes (OpenTelemetry specification, Prometheus compatibility)."""
    name = re.sub(r"[^a-zA-Z0-9]+", "_", head.name)
    words = name.split("_")
    words += [] if (word := WORDS[head.unit]) in words else [word]
    if head.kind == "counter" or (head.kind, head.unit) == ("gauge", "1"):
        end = "total" if head.kind == "counter" else "ratio"
        words = [*(word for word in words if word != end), end]
    return "_".join(filter(None, words))


def test_prometheus_makes_the_name_of_the_page_of_each_metric() -> None:
    for family in [*QUANTITY_FAMILIES, *COUNTER_FAMILIES, *DERIVED]:
        head = head_of(family.name.removesuffix("_total"), family.type, "")
        assert of_prometheus(head) == family.name, family.name
        assert re.fullmatch(r"pulsed\.gpu\.[a-z0-9_]+", head.name), family.name


def test_no_two_families_have_one_name() -> None:
    families = [*QUANTITY_FAMILIES, *COUNTER_FAMILIES, *DERIVED]
    assert len({head_of(family.name, family.type, "").name for family in families}) == len(families)


def test_names_of_families_that_are_not_of_gpus() -> None:
    names = ("process_cpu_seconds_total", "DCGM_FI_DEV_GPU_TEMP", "pulsed_node_pci_gpus")
    assert [head_of(name, "gauge", "").name for name in names] == [
        "pulsed.process.cpu_seconds_total",
        "DCGM_FI_DEV_GPU_TEMP",
        "pulsed.node.pci_gpus",
    ]


OTLP = "OTEL_EXPORTER_OTLP_"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (10.0, 60.0)),
        ({OTLP + "TIMEOUT": "2500", "OTEL_METRIC_EXPORT_INTERVAL": "5000"}, (2.5, 5.0)),
        ({OTLP + "TIMEOUT": "2500", OTLP + "METRICS_TIMEOUT": "1500"}, (1.5, 60.0)),
    ],
)
def test_variables_stand_in_for_keys_that_are_not_set(
    variables: dict[str, str], expected: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = OtlpSettings(enabled=True)
    assert (settings.request_timeout, settings.export_interval) == expected
    given = OtlpSettings(enabled=True, timeout=3.0, interval=4.0)
    assert (given.request_timeout, given.export_interval) == (3.0, 4.0)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (OTLP + "PROTOCOL", "grpc", "PROTOCOL is 'grpc': pulsed sends OTLP over HTTP; use http/protobuf"),
        (OTLP + "METRICS_PROTOCOL", "http/json", "use http/protobuf"),
        (OTLP + "TIMEOUT", "10s", "milliseconds"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "0", "above 0"),
    ],
)
def test_variables_that_cannot_be_used(name: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    ((key, problem),) = OtlpSettings(enabled=True).problems()
    assert key == "enabled"
    assert message in problem
    assert list(OtlpSettings().problems()) == []


def test_a_missing_package_is_a_problem_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsed.present.otlp.settings.find_spec", lambda name: None)
    ((key, problem),) = OtlpSettings(enabled=True).problems()
    assert (key, "pip install 'pulsed[otlp]'" in problem) == ("enabled", True)
    assert list(OtlpSettings().problems()) == []
