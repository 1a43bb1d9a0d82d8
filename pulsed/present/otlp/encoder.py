"""OTLP over HTTP: the series of the page as metrics `pulsed.*`, and those of the semantic conventions for hardware.

The name of a metric is that of its family with dots, without `_total`, which Prometheus' receiver appends again: rules
and dashboards find the names of the page. The unit stays in the name, because families differ in nothing else
(`memory_used_bytes`, `memory_used_ratio`). Must not depend on what the series mean, or on how messages are sent.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite

from pulsed import __version__
from pulsed.present.otlp.page_series import PageFamily, families_of, labels_of
from pulsed.present.otlp.wire import Buckets, JsonWire, MetricHead, MetricKind, Pairs, ProtobufWire, Wire

Encoded = tuple[bytes, int]
"""A message, and how many samples it has."""

ReadPages = Callable[[], AsyncIterator[bytes]]
"""Reads all series, as pages in the text format without timestamps, of which no series is on two."""

HardwarePoint = tuple[str, MetricHead, tuple[tuple[str, str], ...], float]
"""A node, a metric of its hardware, attributes, and a value."""

ReadHardware = Callable[[], Iterable[HardwarePoint]]

MESSAGE_SAMPLES = 2000
"""Samples of a message."""

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

_TEMPORARY = frozenset((429, 502, 503, 504))  # OTLP specification, "Failures"
_KINDS: Mapping[str, MetricKind] = {"counter": "counter", "histogram": "histogram"}
_GZIP_LEVEL = 1


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where messages go, and what a request needs.

    Attributes:
        url: may hold a user and password.
        certificates: files of authorities, client certificate and its key; an empty name for none.
        timeout: of a request, in seconds.
    """

    url: str
    headers: Mapping[str, str]
    bearer_token_file: str | None = None
    certificates: tuple[str, str, str] = ("", "", "")
    is_verified: bool = True
    timeout: float = 10.0


@dataclass(frozen=True, slots=True)
class OtlpPlan:
    """How series are sent.

    Attributes:
        interval: the time between two points of a series, in seconds.
        is_json: whether as JSON, else as protobuf.
        is_packed: whether by gzip.
        attributes: of the resource, in place of its own.
    """

    receiver: Receiver
    interval: float
    is_json: bool
    is_packed: bool
    attributes: Mapping[str, str]


@dataclass(slots=True)
class _Series:
    """What two messages have in common, and the last value, by which a reset is known: it begins the series again."""

    node: str
    head: MetricHead
    attributes: bytes
    start: int
    last: float = 0.0


class OtlpEncoder:
    """Writes requests with a point of each series, and reads the answers.

    Counters are cumulative, since they were first seen.

    Args:
        node: returns the name of this node.
    """

    def __init__(self, plan: OtlpPlan, read: ReadPages, hardware: ReadHardware, node: Callable[[], str]) -> None:
        self._plan, self._read, self._hardware, self._node = plan, read, hardware, node
        self._wire: Wire = JsonWire() if plan.is_json else ProtobufWire()
        self.media_type = self._wire.media_type
        self.headers: Mapping[str, str] = {"Content-Encoding": "gzip"} if plan.is_packed else {}
        self._series: dict[Hashable, _Series] = {}
        self._before = time.time_ns()

    async def messages(self) -> AsyncIterator[Encoded]:
        """Yield a point of each series, and the end of those that are gone."""
        now, before = time.time_ns(), self._series
        series: dict[Hashable, _Series] = {}
        batch = _Batch(self._wire)
        async for node, head, key, value in self._points():
            known = before.get(key)
            size = sum(value.counts) if isinstance(value, Buckets) else value
            if known is None:
                pairs = _pairs(key) if isinstance(key, bytes) else key[1]
                known = _Series(node, head, self._wire.attributes(pairs, head.kind), self._before)
            elif size < known.last and head.kind in ("counter", "histogram"):
                known.start = self._before
            known.last, series[key] = size, known
            if batch.is_full or batch.node != node:
                if batch.count:
                    yield self._request(batch)
                    await asyncio.sleep(0)
                batch = _Batch(self._wire, node)
            batch.add(known, now, value)
        if batch.count:
            yield self._request(batch)
        self._series, self._before = series, now
        for each in self._ends([before[key] for key in before.keys() - series.keys()], now):
            yield each

    def ended(self) -> Iterator[Encoded]:
        """Yield the end of all series."""
        series, self._series = self._series, {}
        return self._ends(series.values(), time.time_ns())

    def is_temporary(self, status: int) -> bool:
        """Return whether a message that was answered so is to be sent again."""
        return status in _TEMPORARY

    def refused(self, answer: bytes) -> tuple[int, str]:
        """Return how many points an answer of success refuses, and why."""
        try:
            return self._wire.refused(answer)
        except ValueError:  # servers that answer in words of their own have taken all
            return 0, ""

    async def _points(self) -> AsyncIterator[tuple[str, MetricHead, bytes | tuple[str, Pairs], float | Buckets]]:
        """Yield nodes, metrics, keys and values; the key of a series of the page is its name and labels."""
        here = self._node()
        async for page in self._read():
            for family in families_of(page):
                head = head_of(family.name, family.type, family.help)
                for series, value in _histograms(family) if head.kind == "histogram" else family.samples:
                    if isinstance(value, Buckets) or isfinite(value):
                        yield here, head, series, value
        for node, head, pairs, number in self._hardware():
            yield node, head, (f"{head.name} {node}", pairs), number

    def _ends(self, series: Iterable[_Series], now: int) -> Iterator[Encoded]:
        batch = _Batch(self._wire)
        for each in sorted(series, key=lambda one: (one.node, one.head)):
            if batch.is_full or batch.node != each.node:
                if batch.count:
                    yield self._request(batch)
                batch = _Batch(self._wire, each.node)
            batch.add(each, now, None)
        if batch.count:
            yield self._request(batch)

    def _request(self, batch: _Batch) -> Encoded:
        body = self._wire.request(self._resource(batch.node).items(), batch.metrics())
        if self._plan.is_packed:
            packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, 31)
            body = packer.compress(body) + packer.flush()
        return body, batch.count

    def _resource(self, node: str) -> Mapping[str, str]:
        here = self._node()
        own = {"service.name": "pulsed", "service.version": __version__, "service.instance.id": here, "host.name": here}
        return {**own, **self._plan.attributes, **({"host.name": node} if node != here else {})}


class _Batch:
    """The points of one request, all of one node."""

    def __init__(self, wire: Wire, node: str = "") -> None:
        self.node, self._wire = node, wire
        self.count = 0
        self._metrics: dict[MetricHead, list[bytes]] = {}

    @property
    def is_full(self) -> bool:
        return self.count >= MESSAGE_SAMPLES

    def add(self, series: _Series, now: int, value: float | Buckets | None) -> None:
        point = self._wire.point(series.head.kind, series.attributes, series.start, now, value)
        self._metrics.setdefault(series.head, []).append(point)
        self.count += 1

    def metrics(self) -> list[bytes]:
        return [self._wire.metric(head, points) for head, points in self._metrics.items()]


@lru_cache(maxsize=4096)
def head_of(name: str, type: str, help: str) -> MetricHead:
    """Return the metric of a family of the page.

    >>> head_of("pulsed_gpu_energy_joules_total", "counter", "")
    MetricHead(name='pulsed.gpu.energy_joules', unit='J', help='', kind='counter')
    """
    kind = _KINDS.get(type, "gauge")
    stem = name.removesuffix("_total") if kind == "counter" else name
    unit = next((unit for suffix, unit in UNITS.items() if stem.endswith(suffix)), "")
    own = stem.removeprefix("pulsed_")
    if own != stem or stem.startswith("process_"):
        stem = f"pulsed.{own.replace('_', '.', 1)}"
    return MetricHead(stem, unit, help, kind)


def _pairs(series: bytes) -> Iterator[tuple[str, str]]:
    return ((name.decode(), value.decode("utf-8", "replace")) for name, value in labels_of(series) if value)


def _histograms(family: PageFamily) -> Iterator[tuple[tuple[str, Pairs], Buckets]]:
    """Yield each histogram of a family, under its name and labels without `le`."""
    found: dict[tuple[tuple[str, str], ...], tuple[list[float], list[float]]] = {}
    sums: dict[tuple[tuple[str, str], ...], float] = {}
    for series, value in family.samples:
        labels = dict(_pairs(series))
        bound = labels.pop("le", None)
        key = tuple(labels.items())
        if bound is not None:
            bounds, below = found.setdefault(key, ([], []))
            bounds.append(float(bound))
            below.append(value)
        elif series.partition(b"{")[0].endswith(b"_sum"):
            sums[key] = value
    for key, (bounds, below) in found.items():
        counts = [round(count - lower) for count, lower in zip(below, [0.0, *below], strict=False)]
        yield (family.name, key), Buckets(bounds[:-1], counts, sums.get(key, 0.0))
