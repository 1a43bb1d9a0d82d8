"""OTLP of a real daemon to a receiver of the protocol's generated code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.daemon import serving
from tests.support.http_servers import running
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.waiting import until

DEMO = ("--source", "demo", "--set", "node=node-1", "--set", "publish.otlp.enabled=true")
HARDWARE = {
    "hw.energy": "J",
    "hw.errors": "{error}",
    "hw.gpu.io": "By",
    "hw.gpu.memory.limit": "By",
    "hw.gpu.memory.usage": "By",
    "hw.gpu.memory.utilization": "1",
    "hw.gpu.utilization": "1",
    "hw.power": "W",
    "hw.status": "1",
    "hw.temperature": "Cel",
}


def test_a_receiver_has_the_hardware_and_what_is_on_the_page(tmp_path: Path) -> None:
    """It fails at first."""
    with running(receiver := OtlpReceiver([503, 429])):
        with serving(
            tmp_path,
            *DEMO,
            OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
            OTEL_EXPORTER_OTLP_HEADERS="x-tenant=gpus",
            OTEL_METRIC_EXPORT_INTERVAL="500",
            OTEL_RESOURCE_ATTRIBUTES="k8s.cluster.name=a",
        ) as daemon:
            expected = {"hw.status", "pulsed.push.up", "pulsed.gpu.real_utilization_ratio"}
            until(lambda: expected <= {point.name for point in receiver.points()})
            until(lambda: 'pulsed_push_samples_total{protocol="otlp"}' in daemon.get("/metrics").text)
            assert 'pulsed_push_dropped_samples_total{protocol="otlp"} 0' in daemon.get("/metrics").text
            assert daemon.stop() == 0
        points = receiver.points()
        assert {point.name: point.unit for point in points if point.name.startswith("hw.")} == HARDWARE
        assert {point.node for point in points} == {"node-1"}
        known = {"hw.id", "hw.type", "hw.name", "hw.model", "hw.vendor", "hw.driver_version"}
        assert all(point.attributes.keys() >= known for point in points if point.name == "hw.power")
        states = [point for point in points if point.name == "hw.status"][:4]
        assert [each.attributes["hw.state"] for each in states] == ["ok", "degraded", "predicted_failure", "failed"]
        assert sum(each.value for each in states) == 1.0
        (one, *_) = (point for point in points if point.name == "pulsed.gpu.real_utilization_ratio")
        assert (one.unit, set(one.attributes)) == ("1", {"node", "gpu", "uuid"})
    assert {each["path"] for each in receiver.headers} == {"/v1/metrics"}
    assert {each["x-tenant"] for each in receiver.headers} == {"gpus"}
    assert {each["content-encoding"] for each in receiver.headers} == {"gzip"}


def test_without_a_receiver_all_else_works(tmp_path: Path) -> None:
    url = "publish.otlp.url=http://127.0.0.1:1"
    with serving(
        tmp_path, *DEMO, "--set", url, OTEL_METRIC_EXPORT_INTERVAL="100", OTEL_EXPORTER_OTLP_TIMEOUT="500"
    ) as daemon:
        until(lambda: "pulsed_push_dropped_samples_total" in daemon.get("/metrics").text)
        until(lambda: "Failed to export metrics" in daemon.log())
        assert "pulsed_source_up" in daemon.get("/metrics").text
        assert daemon.stop() == 0


def test_grpc_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(AssertionError), serving(tmp_path, *DEMO, OTEL_EXPORTER_OTLP_PROTOCOL="grpc"):
        pass
    (log,) = tmp_path.glob("pulsed-*.log")
    assert "use http/protobuf" in log.read_text()
    assert "Traceback" not in log.read_text()
