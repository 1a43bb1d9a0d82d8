"""A receiver of OTLP/HTTP metrics, made of the protocol's own generated code."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from http.server import ThreadingHTTPServer
from typing import NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from tests.support.http_servers import QuietHandler


class Point(NamedTuple):
    """A point with a value, and what it belongs to."""

    name: str
    unit: str
    attributes: dict[str, str]
    value: float
    node: str


class OtlpReceiver(ThreadingHTTPServer):
    """Answers with these statuses, then takes requests; keeps those that it took, and the headers of all."""

    def __init__(self, statuses: Sequence[int] = ()) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses = list(statuses)
        self.headers: list[dict[str, str]] = []
        self.requests: list[ExportMetricsServiceRequest] = []
        self.refuses = 0
        self.url = f"http://127.0.0.1:{self.server_port}"

    def points(self) -> list[Point]:
        """Return the points of all requests, the newest last."""
        return [point for request in tuple(self.requests) for point in _points(request)]


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    server: OtlpReceiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.headers.append({**headers, "path": self.path})
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        if status == 200:
            self.server.requests.append(ExportMetricsServiceRequest.FromString(body))
        refusal = ExportMetricsPartialSuccess(rejected_data_points=self.server.refuses, error_message="too old")
        answer = ExportMetricsServiceResponse(partial_success=refusal).SerializeToString()
        self.send_response(status)
        self.send_header("Content-Type", headers["content-type"])
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def _metrics(request: ExportMetricsServiceRequest) -> Iterator[tuple[str, Metric]]:
    for resource in request.resource_metrics:
        (node,) = (each.value.string_value for each in resource.resource.attributes if each.key == "host.name")
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                yield node, metric


def _points(request: ExportMetricsServiceRequest) -> Iterator[Point]:
    for node, metric in _metrics(request):
        for point in (*metric.gauge.data_points, *metric.sum.data_points):
            pairs = {each.key: each.value.string_value for each in point.attributes}
            yield Point(metric.name, metric.unit, pairs, point.as_double, node)
