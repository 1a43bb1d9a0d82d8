"""OTLP metrics on the wire, as protobuf and as JSON: attributes, data points, metrics and requests, each as bytes.

Field numbers: opentelemetry-proto 1.x, `metrics/v1/metrics.proto`; JSON: the OTLP specification, "JSON Protobuf
Encoding". Must not depend on what the metrics mean.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import Literal, NamedTuple, Protocol

from pulsed import __version__
from pulsed.protobuf import field, numbers

Pairs = Iterable[tuple[str, str]]
"""Names and values of attributes."""

MetricKind = Literal["gauge", "counter", "updown", "histogram"]

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"

_CUMULATIVE = 2
_ENDED = 1
"""The flag of a point without a value, the end of its series: `NO_RECORDED_VALUE`."""


_PAYLOADS: Mapping[MetricKind, tuple[int, bytes]] = {
    "gauge": (5, b"gauge"),
    "counter": (7, b"sum"),
    "updown": (7, b"sum"),
    "histogram": (9, b"histogram"),
}
"""Number and name of the field of a metric that holds its points."""


class Buckets(NamedTuple):
    """The value of a histogram: counts per bucket, of which the last has no upper bound."""

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float


class MetricHead(NamedTuple):
    """A metric without its points; the unit is UCUM, empty for none."""

    name: str
    unit: str
    help: str
    kind: MetricKind


class Wire(Protocol):
    """An encoding of requests and answers."""

    media_type: str

    def attributes(self, pairs: Pairs, kind: MetricKind) -> bytes:
        """Return the attributes of a point of such a metric."""

    def point(self, kind: MetricKind, attributes: bytes, start: int, time: int, value: float | Buckets | None) -> bytes:
        """Return a data point, times in nanoseconds; without a value the end of its series."""

    def metric(self, head: MetricHead, points: Sequence[bytes]) -> bytes:
        """Return a metric with its points."""

    def request(self, resource: Pairs, metrics: Sequence[bytes]) -> bytes:
        """Return a whole request."""

    def refused(self, answer: bytes) -> tuple[int, str]:
        """Return how many points an answer of success refuses, and why; raise ValueError where it is none."""


class ProtobufWire:
    """Messages as protobuf."""

    media_type = "application/x-protobuf"
    _times = Struct("<BQBQ")
    _double, _fixed = Struct("<Bd"), Struct("<BQ")

    def attributes(self, pairs: Pairs, kind: MetricKind) -> bytes:  # noqa: D102
        return self._attributes(pairs, 9 if kind == "histogram" else 7)

    def _attributes(self, pairs: Pairs, number: int) -> bytes:
        return b"".join(
            field(number, field(1, name.encode()) + field(2, field(1, value.encode("utf-8", "replace"))))
            for name, value in pairs
        )

    def point(self, kind: MetricKind, attributes: bytes, start: int, time: int, value: float | Buckets | None) -> bytes:  # noqa: D102
        found = attributes + self._times.pack(0x11, start, 0x19, time)
        if value is None:
            return found + bytes((0x50 if kind == "histogram" else 0x40, _ENDED))
        if not isinstance(value, Buckets):
            return found + self._double.pack(0x21, value)
        counts = Struct(f"<{len(value.counts)}Q").pack(*value.counts)
        bounds = Struct(f"<{len(value.bounds)}d").pack(*value.bounds)
        whole = self._fixed.pack(0x21, sum(value.counts)) + self._double.pack(0x29, value.sum)
        return found + whole + field(6, counts) + field(7, bounds)

    def metric(self, head: MetricHead, points: Sequence[bytes]) -> bytes:  # noqa: D102
        data = b"".join([field(1, point) for point in points])
        if head.kind != "gauge":
            data += bytes((0x10, _CUMULATIVE)) + (b"\x18\x01" if head.kind == "counter" else b"")
        texts = field(1, head.name.encode()) + field(2, head.help.encode()) + field(3, head.unit.encode())
        return texts + field(_PAYLOADS[head.kind][0], data)

    def request(self, resource: Pairs, metrics: Sequence[bytes]) -> bytes:  # noqa: D102
        scope = field(1, field(1, b"pulsed") + field(2, __version__.encode()))
        scoped = scope + b"".join([field(2, metric) for metric in metrics]) + field(3, SCHEMA_URL.encode())
        return field(1, field(1, self._attributes(resource, 1)) + field(2, scoped))

    def refused(self, answer: bytes) -> tuple[int, str]:  # noqa: D102
        partial = numbers(answer).get(1, b"")
        found = numbers(partial) if isinstance(partial, bytes) else {}
        count, why = found.get(1, 0), found.get(2, b"")
        return (count if isinstance(count, int) else 0), (
            why.decode("utf-8", "replace") if isinstance(why, bytes) else ""
        )


class JsonWire:
    """Messages as JSON: parts are pieces of its text."""

    media_type = "application/json"

    def attributes(self, pairs: Pairs, kind: MetricKind) -> bytes:  # noqa: D102
        return _json([{"key": name, "value": {"stringValue": value}} for name, value in pairs])

    def point(self, kind: MetricKind, attributes: bytes, start: int, time: int, value: float | Buckets | None) -> bytes:  # noqa: D102
        if value is None:
            rest = b'"flags":%d' % _ENDED
        elif isinstance(value, Buckets):
            document = {
                "count": str(sum(value.counts)),
                "sum": value.sum,
                "bucketCounts": [str(count) for count in value.counts],
                "explicitBounds": list(value.bounds),
            }
            rest = _json(document)[1:-1]
        else:
            rest = b'"asDouble":%s' % repr(float(value)).encode()
        times = b'"startTimeUnixNano":"%d","timeUnixNano":"%d"' % (start, time)
        return b'{"attributes":%s,%s,%s}' % (attributes, times, rest)

    def metric(self, head: MetricHead, points: Sequence[bytes]) -> bytes:  # noqa: D102
        sums = b"" if head.kind == "gauge" else b',"aggregationTemporality":%d' % _CUMULATIVE
        sums += b',"isMonotonic":true' if head.kind == "counter" else b""
        texts = _json({"name": head.name, "description": head.help, "unit": head.unit})[:-1]
        return b'%s,"%s":{"dataPoints":[%s]%s}}' % (texts, _PAYLOADS[head.kind][1], b",".join(points), sums)

    def request(self, resource: Pairs, metrics: Sequence[bytes]) -> bytes:  # noqa: D102
        scope = _json({"name": "pulsed", "version": __version__})
        scoped = b'{"scope":%s,"metrics":[%s],"schemaUrl":"%s"}' % (scope, b",".join(metrics), SCHEMA_URL.encode())
        owner = self.attributes(resource, "gauge")
        return b'{"resourceMetrics":[{"resource":{"attributes":%s},"scopeMetrics":[%s]}]}' % (owner, scoped)

    def refused(self, answer: bytes) -> tuple[int, str]:  # noqa: D102
        document = json.loads(answer or b"{}")
        partial = document.get("partialSuccess") if isinstance(document, dict) else None
        if not isinstance(partial, dict):
            return 0, ""
        return int(partial.get("rejectedDataPoints") or 0), str(partial.get("errorMessage") or "")


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
