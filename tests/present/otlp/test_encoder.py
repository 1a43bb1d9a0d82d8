"""OTLP, read by the protocol's own generated code: names, units, values, and what a receiver answers."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import AsyncIterator, Iterator, Mapping

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric

from pulsed.present.exposition.families import COUNTER_FAMILIES, DERIVED, QUANTITY_FAMILIES
from pulsed.present.otlp.encoder import HardwarePoint, OtlpEncoder, OtlpPlan, Receiver, head_of
from pulsed.present.otlp.settings import BadVariable, OtlpSettings
from pulsed.present.otlp.wire import MetricHead

PAGE = b"""\
# HELP pulsed_gpu_power_watts Board power
# TYPE pulsed_gpu_power_watts gauge
pulsed_gpu_power_watts{gpu="0",model="a \\"b\\""} 300.5
pulsed_gpu_power_watts{gpu="1",model=""} NaN
# TYPE pulsed_gpu_energy_joules_total counter
pulsed_gpu_energy_joules_total{gpu="0"} 12
# TYPE pulsed_tick_duration_seconds histogram
pulsed_tick_duration_seconds_bucket{layer="read",le="0.1"} 2
pulsed_tick_duration_seconds_bucket{layer="read",le="1.0"} 5
pulsed_tick_duration_seconds_bucket{layer="read",le="+Inf"} 6
pulsed_tick_duration_seconds_count{layer="read"} 6
pulsed_tick_duration_seconds_sum{layer="read"} 7.5
"""
FAN: HardwarePoint = ("other-node", MetricHead("hw.status", "1", "", "updown"), (("hw.id", "GPU-1"),), 1.0)


class Sent:
    """An encoder, whose pages can be changed, and what its messages hold."""

    def __init__(self, *, is_json: bool = False, is_packed: bool = False, page: bytes = PAGE) -> None:
        self.page, self.hardware = page, [FAN]
        plan = OtlpPlan(Receiver("http://localhost", {}), 1.0, is_json, is_packed, {"a.b": "c", "service.name": "gpus"})
        self.encoder = OtlpEncoder(plan, self.read, lambda: self.hardware, lambda: "node-1")
        self.is_json, self.is_packed = is_json, is_packed

    async def read(self) -> AsyncIterator[bytes]:
        yield self.page

    def requests(self) -> list[tuple[ExportMetricsServiceRequest, int]]:
        async def take() -> list[tuple[bytes, int]]:
            return [each async for each in self.encoder.messages()]

        return [(self.request(body), count) for body, count in asyncio.run(take())]

    def request(self, body: bytes) -> ExportMetricsServiceRequest:
        content = gzip.decompress(body) if self.is_packed else body
        request = ExportMetricsServiceRequest()
        return Parse(content, request) if self.is_json else ExportMetricsServiceRequest.FromString(content)

    def metrics(self) -> Mapping[str, Metric]:
        return {metric.name: metric for request, _ in self.requests() for metric in metrics_of(request)}


def metrics_of(request: ExportMetricsServiceRequest) -> Iterator[Metric]:
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            assert scope.schema_url == "https://opentelemetry.io/schemas/1.44.0"
            assert scope.scope.name == "pulsed"
            yield from scope.metrics


def attributes(holder: object) -> dict[str, str]:
    return {each.key: each.value.string_value for each in holder.attributes}  # type: ignore[attr-defined]  # a message


@pytest.mark.parametrize(("is_json", "is_packed"), [(False, False), (False, True), (True, False), (True, True)])
def test_a_page_and_the_hardware_become_metrics_by_node(is_json: bool, is_packed: bool) -> None:
    sent = Sent(is_json=is_json, is_packed=is_packed)
    (own, count), (other, one) = sent.requests()
    assert (count, one) == (3, 1)
    here, there = (attributes(request.resource_metrics[0].resource) for request in (own, other))
    assert here["service.name"] == there["service.name"] == "gpus"
    assert (here["host.name"], there["host.name"], here["a.b"]) == ("node-1", "other-node", "c")
    assert here["service.instance.id"] == there["service.instance.id"] == "node-1"
    power, energy, duration = metrics_of(own)
    assert (power.name, power.unit, power.description) == ("pulsed.gpu.power_watts", "W", "Board power")
    (point,) = power.gauge.data_points
    assert (attributes(point), point.as_double) == ({"gpu": "0", "model": 'a "b"'}, 300.5)
    assert point.time_unix_nano >= point.start_time_unix_nano > 1.7e18
    assert (energy.name, energy.unit) == ("pulsed.gpu.energy_joules", "J")
    assert energy.sum.is_monotonic
    assert energy.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    (bins,) = duration.histogram.data_points
    assert (duration.name, duration.unit, attributes(bins)) == ("pulsed.tick.duration_seconds", "s", {"layer": "read"})
    assert (list(bins.explicit_bounds), list(bins.bucket_counts)) == ([0.1, 1.0], [2, 3, 1])
    assert (bins.count, bins.sum) == (6, 7.5)
    (status,) = metrics_of(other)
    assert status.name == "hw.status"
    assert not status.sum.is_monotonic


@pytest.mark.parametrize("is_json", [False, True])
def test_counters_begin_anew_after_a_reset_and_series_end(is_json: bool) -> None:
    sent = Sent(is_json=is_json)

    def energy(value: str) -> tuple[int, int]:
        sent.page = PAGE.replace(b"} 12\n", b"} " + value.encode() + b"\n")
        (point,) = sent.metrics()["pulsed.gpu.energy_joules"].sum.data_points
        return point.start_time_unix_nano, point.time_unix_nano

    start, first = energy("12")
    same, second = energy("13")
    anew, third = energy("1")
    assert start < first < second < third
    assert (same, anew) == (start, second)
    sent.page, sent.hardware = b"", []
    ended = sent.metrics()
    assert len(ended) == 4
    assert [point.flags for point in ended["pulsed.gpu.energy_joules"].sum.data_points] == [1]
    assert [point.flags for point in ended["pulsed.tick.duration_seconds"].histogram.data_points] == [1]
    assert sent.metrics() == {}
    assert list(sent.encoder.ended()) == []
    sent.page = PAGE
    sent.requests()
    assert sum(count for _, count in sent.encoder.ended()) == 3


def test_large_pages_are_sent_in_parts() -> None:
    lines = [b"# TYPE pulsed_gpu_power_watts gauge", *(b'pulsed_gpu_power_watts{gpu="%d"} 1' % n for n in range(4500))]
    assert [count for _, count in Sent(page=b"\n".join(lines)).requests()] == [2000, 2000, 500, 1]


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


@pytest.mark.parametrize("family", [*QUANTITY_FAMILIES, *COUNTER_FAMILIES, *DERIVED], ids=lambda family: family.name)
def test_prometheus_makes_the_name_of_the_page_of_each_metric(family: object) -> None:
    head = head_of(family.name, family.type, "")  # type: ignore[attr-defined]  # of three types
    assert of_prometheus(head) == family.name  # type: ignore[attr-defined]
    assert re.fullmatch(r"pulsed\.gpu\.[a-z0-9_]+", head.name)


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


def test_what_a_receiver_refuses_of_a_request() -> None:
    refusal = ExportMetricsServiceResponse(
        partial_success=ExportMetricsPartialSuccess(rejected_data_points=3, error_message="too old")
    ).SerializeToString()
    protobuf, json = Sent().encoder, Sent(is_json=True).encoder
    assert protobuf.refused(refusal) == (3, "too old")
    assert json.refused(b'{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"too old"}}') == (3, "too old")
    for answer in (
        b"",
        b"{}",
        b"<html>",
        b"[]",
        b'{"partialSuccess":1}',
        b"\x0a\xff\xff",
        b"\x0a\x01\x80",
        b"\x08\x05",
    ):
        assert protobuf.refused(answer) == json.refused(answer) == (0, "")
    assert [status for status in (400, 429, 500, 502, 503, 504) if protobuf.is_temporary(status)] == [
        429,
        502,
        503,
        504,
    ]


OTLP = "OTEL_EXPORTER_OTLP_"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, {"url": "http://localhost:4318/v1/metrics", "headers": {}, "timeout": 10.0, "interval": 60.0}),
        ({OTLP + "ENDPOINT": "https://a:1/x/"}, {"url": "https://a:1/x/v1/metrics"}),
        ({OTLP + "ENDPOINT": "https://a", OTLP + "METRICS_ENDPOINT": "https://b/c"}, {"url": "https://b/c"}),
        ({OTLP + "HEADERS": "a=b%20c, d = e"}, {"headers": {"a": "b c", "d": "e"}}),
        ({OTLP + "HEADERS": "a=b", OTLP + "METRICS_HEADERS": "c=d"}, {"headers": {"c": "d"}}),
        ({OTLP + "TIMEOUT": "2500", "OTEL_METRIC_EXPORT_INTERVAL": "5000"}, {"timeout": 2.5, "interval": 5.0}),
        ({OTLP + "COMPRESSION": "none", OTLP + "PROTOCOL": "http/json"}, {"is_packed": False, "is_json": True}),
        ({OTLP + "METRICS_PROTOCOL": "http/protobuf", OTLP + "PROTOCOL": "grpc"}, {"is_json": False}),
        (
            {OTLP + "CERTIFICATE": "ca", OTLP + "CLIENT_CERTIFICATE": "cert", OTLP + "CLIENT_KEY": "key"},
            {"certificates": ("ca", "cert", "key")},
        ),
        (
            {"OTEL_RESOURCE_ATTRIBUTES": "a=b%2Cc,service.name=x", "OTEL_SERVICE_NAME": "y"},
            {"attributes": {"a": "b,c", "service.name": "y"}},
        ),
    ],
)
def test_variables_stand_in_for_keys_that_are_not_set(
    environment: Mapping[str, str], expected: Mapping[str, object]
) -> None:
    plan = OtlpSettings(enabled=True).plan(environment)
    assert plan is not None
    seen = {name: getattr(plan, name, getattr(plan.receiver, name, None)) for name in expected}
    assert seen == expected
    assert OtlpSettings().plan(environment) is None


def test_keys_go_before_variables() -> None:
    settings = OtlpSettings(
        "http://k/p", {"a": "k"}, enabled=True, protocol="http/json", compression="none", interval=2.0, timeout=3.0
    )
    variables = {"ENDPOINT": "http://v", "HEADERS": "a=v", "PROTOCOL": "grpc", "COMPRESSION": "zstd", "TIMEOUT": "x"}
    plan = settings.plan({OTLP + name: value for name, value in variables.items()})
    receiver = Receiver("http://k/p", {"a": "k"}, timeout=3.0)
    with pytest.raises(BadVariable, match="PROTOCOL"):
        OtlpSettings(enabled=True).plan({OTLP + "PROTOCOL": "grpc"})
    assert plan == OtlpPlan(receiver, 2.0, True, False, {})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (OTLP + "PROTOCOL", "grpc", r"PROTOCOL is 'grpc': pulsed sends OTLP over HTTP; use http/protobuf"),
        (OTLP + "PROTOCOL", "thrift", "use http/protobuf or http/json"),
        (OTLP + "COMPRESSION", "zstd", "COMPRESSION is 'zstd': use gzip or none"),
        (OTLP + "TIMEOUT", "10s", "milliseconds"),
        (OTLP + "ENDPOINT", "localhost:4318", "is not a URL"),
        (OTLP + "METRICS_HEADERS", "secret", "METRICS_HEADERS use name=value"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a", "name=value"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "0", "above 0"),
    ],
)
def test_variables_that_cannot_be_used(name: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadVariable, match=message) as raised:
        OtlpSettings(enabled=True).plan({name: value})
    assert "secret" not in str(raised.value)
    monkeypatch.setenv(name, value)
    assert [key for key, _ in OtlpSettings(enabled=True).problems()] == ["enabled"]
    assert list(OtlpSettings().problems()) == []
