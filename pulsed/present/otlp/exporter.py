"""The series of the page as metrics `pulsed.*` in OpenTelemetry's data model, and the exporter that sends them.

A metric has the name of its family with dots, without `_total`, which Prometheus' receiver appends again: rules
and dashboards find the names of the page. The unit stays in the name, because families differ in nothing else
(`memory_used_bytes`, `memory_used_ratio`). The start of a counter is unknown: many are the driver's, which began
long before pulsed, others continue over its restarts.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isfinite
from typing import Any
from urllib.parse import urlsplit

import requests
import urllib3
from google.protobuf.message import DecodeError
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.sdk.metrics import export as sdk
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from pulsed import __version__
from pulsed.http.credentials import BadCredentials
from pulsed.present.otlp.hardware_metrics import HardwarePoint, MetricHead
from pulsed.present.otlp.settings import OtlpSettings

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"

UNITS = {
    "_bytes_per_second": "By/s",
    "_seconds": "s",
    "_bytes": "By",
    "_joules": "J",
    "_watts": "W",
    "_celsius": "Cel",
    "_hertz": "Hz",
    "_ratio": "1",
}
"""Units in UCUM by the end of a family's name."""

_CUMULATIVE = sdk.AggregationTemporality.CUMULATIVE
_UNKNOWN = 0


def metrics_data(
    page: str, hardware: Iterable[HardwarePoint], node: str, attributes: Mapping[str, str], now: int
) -> sdk.MetricsData:
    """Return all series, a resource for each node.

    Args:
        page: in the text format without timestamps.
        hardware: points of GPUs, of this node or of others.
        attributes: of the resources, in place of their own and of those in `OTEL_RESOURCE_ATTRIBUTES`.
        now: in Unix nanoseconds.
    """
    metrics: defaultdict[str, list[sdk.Metric]] = defaultdict(list)
    metrics[node] += _page_metrics(page, now)
    points: defaultdict[tuple[str, MetricHead], list[sdk.NumberDataPoint]] = defaultdict(list)
    for its_node, head, pairs, value in hardware:
        points[its_node, head].append(sdk.NumberDataPoint(dict(pairs), _UNKNOWN, now, value))
    for (its_node, head), its_points in points.items():
        metrics[its_node].append(_metric(head, its_points))
    scope = InstrumentationScope("pulsed", __version__, SCHEMA_URL)
    return sdk.MetricsData(
        [
            sdk.ResourceMetrics(
                _resource(node, its_node, attributes), [sdk.ScopeMetrics(scope, its_metrics, SCHEMA_URL)], ""
            )
            for its_node, its_metrics in metrics.items()
        ]
    )


def head_of(name: str, type: str, help: str) -> MetricHead:
    """Return the metric of a family of the page; `name` is without `_total`.

    >>> head_of("pulsed_gpu_energy_joules", "counter", "")
    MetricHead(name='pulsed.gpu.energy_joules', unit='J', help='', kind='counter')
    """
    unit = next((unit for suffix, unit in UNITS.items() if name.endswith(suffix)), "")
    own = name.removeprefix("pulsed_")
    if own != name or name.startswith("process_"):
        name = f"pulsed.{own.replace('_', '.', 1)}"
    return MetricHead(name, unit, help, "counter" if type == "counter" else "gauge")


def _page_metrics(page: str, now: int) -> Iterator[sdk.Metric]:
    for family in text_string_to_metric_families(page):
        head = head_of(family.name, family.type, family.documentation)
        if family.type == "histogram":
            yield sdk.Metric(head.name, head.help, head.unit, _histogram(family.samples, now))
        elif points := [
            sdk.NumberDataPoint(_attributes(sample.labels), _UNKNOWN, now, sample.value)
            for sample in family.samples
            if isfinite(sample.value)
        ]:
            yield _metric(head, points)


def _metric(head: MetricHead, points: list[sdk.NumberDataPoint]) -> sdk.Metric:
    data = sdk.Gauge(points) if head.kind == "gauge" else sdk.Sum(points, _CUMULATIVE, head.kind == "counter")
    return sdk.Metric(head.name, head.help, head.unit, data)


def _histogram(samples: Iterable[Sample], now: int) -> sdk.Histogram:
    below: defaultdict[tuple[tuple[str, str], ...], dict[float, float]] = defaultdict(dict)
    sums: dict[tuple[tuple[str, str], ...], float] = {}
    for sample in samples:
        labels = _attributes(sample.labels)
        bound = labels.pop("le", None)
        key = tuple(labels.items())
        if bound is not None:
            below[key][float(bound)] = sample.value
        elif sample.name.endswith("_sum"):
            sums[key] = sample.value
    return sdk.Histogram([_histogram_point(dict(key), below[key], sums[key], now) for key in below], _CUMULATIVE)


def _histogram_point(
    attributes: dict[str, str], below: Mapping[float, float], total: float, now: int
) -> sdk.HistogramDataPoint:
    counts = [round(count - lower) for count, lower in zip(below.values(), [0.0, *below.values()], strict=False)]
    bounds = [bound for bound in below if isfinite(bound)]
    return sdk.HistogramDataPoint(attributes, _UNKNOWN, now, sum(counts), total, counts, bounds, None, None)  # type: ignore[arg-type]  # extremes are unknown


def _attributes(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in labels.items() if value}


def _resource(here: str, node: str, attributes: Mapping[str, str]) -> Resource:
    own = {"service.name": "pulsed", "service.version": __version__, "service.instance.id": here, "host.name": here}
    resource = Resource(own).merge(OTELResourceDetector().detect()).merge(Resource(attributes))
    return resource if node == here else resource.merge(Resource({"host.name": node}))


log = logging.getLogger(__name__)

MAX_BATCH = 2000
"""Points of a request."""


class Exporter(OTLPMetricExporter):
    """An exporter; what is not set follows OpenTelemetry's variables of the environment.

    Args:
        on_refused: called with the number of points that the receiver refuses in an answer of success, which
            OpenTelemetry's exporter does not count.

    Attributes:
        authorization: headers of the next requests, before those of the settings; an error: none can be sent.
    """

    def __init__(self, settings: OtlpSettings, on_refused: Callable[[int], None]) -> None:
        self.authorization: Mapping[str, str] | BadCredentials = {}
        self._on_refused = on_refused
        session = _Session()
        session.hooks["response"].append(self._read_answer)
        session.trust_env = False  # otherwise REQUESTS_CA_BUNDLE goes before `ca_file`, and .netrc before the token
        session.auth = self._authorize if settings.bearer_token_file is not None else None
        is_packed = not any(os.environ.get(f"OTEL_EXPORTER_OTLP_{kind}COMPRESSION") for kind in ("", "METRICS_"))
        super().__init__(
            settings.url,
            settings.ca_file,
            settings.key_file,
            settings.cert_file,
            headers=settings.headers,
            timeout=settings.request_timeout,
            compression=Compression.Gzip if is_packed else None,
            session=session,
            max_export_batch_size=MAX_BATCH,
        )
        if settings.insecure_skip_verify:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
            session.verify = False

    def _authorize(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if isinstance(self.authorization, BadCredentials):
            raise requests.RequestException(str(self.authorization))
        request.headers.update(self.authorization)
        return request

    def _read_answer(self, response: requests.Response, **_: object) -> None:
        with contextlib.suppress(DecodeError):  # a receiver with an answer of its own has accepted all points
            refusal = ExportMetricsServiceResponse.FromString(response.content if response.ok else b"").partial_success
            if refusal.rejected_data_points:
                log.warning("otlp: points are refused", extra={"error": refusal.error_message[:500]})
                self._on_refused(refusal.rejected_data_points)


class _Session(requests.Session):
    """A session whose errors, which the exporter logs, do not repeat the query of the URL."""

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send a request."""
        try:
            return super().send(request, **options)
        except requests.RequestException as error:
            query = urlsplit(request.url or "").query
            text = str(error).replace(query, "***") if query else str(error)
            raise type(error)(text, request=request) from None
