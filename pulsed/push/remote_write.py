"""Messages of Prometheus' remote write 1.0: protobuf in the block format of snappy.

Of a series only value and time change between two messages, so the bytes of its labels are kept. Series are lines of
the text format without timestamps. Must not depend on what the series mean, or on how messages are sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from struct import Struct

from pulsed.protobuf import field, varint
from pulsed.push.page_series import labels_of, series_of
from pulsed.push.pusher import MESSAGE_SAMPLES, Encoded, PushPlan, ReadPages

STALE = bytes.fromhex("020000000000f07f")
"""The value that ends a series: a NaN of these bits, little-endian."""

_TIME_BYTES = 6
"""Length of milliseconds since 1970 as a varint, from 2004 to 2109."""

_SAMPLE_HEAD = bytes((0x12, 1 + 8 + 1 + _TIME_BYTES, 0x09))
_DOUBLE = Struct("<d")
_TOO_MANY_REQUESTS = 429


@dataclass(frozen=True, slots=True)
class RemoteWritePlan(PushPlan):
    """How series are sent by remote write.

    Attributes:
        labels: for series that have no label of that name.
    """

    labels: Mapping[str, str]


class RemoteWriteEncoder:
    """Writes messages of a sample of each series, and of stale markers of those that are gone (`Encoder`)."""

    media_type = "application/x-protobuf"
    headers: Mapping[str, str] = {"Content-Encoding": "snappy", "X-Prometheus-Remote-Write-Version": "0.1.0"}

    def __init__(self, plan: RemoteWritePlan, read: ReadPages) -> None:
        self._read = read
        self._extra = {name.encode(): value.encode("utf-8", "replace") for name, value in plan.labels.items()}
        self._series: dict[bytes, bytes] = {}

    async def messages(self) -> AsyncIterator[Encoded]:
        """Yield a sample of each series, and the end of those that are gone."""
        milliseconds = time.time_ns() // 1_000_000
        before, series = self._series, dict[bytes, bytes]()
        samples: list[tuple[bytes, bytes]] = []
        async for page in self._read():
            for name, value in series_of(page):
                known = before.get(name) or encoded_labels(name, self._extra)
                series[name] = known
                samples.append((known, _DOUBLE.pack(value)))
                if len(samples) == MESSAGE_SAMPLES:
                    yield message(samples, milliseconds), len(samples)
                    samples = []
                    await asyncio.sleep(0)
        if samples:
            yield message(samples, milliseconds), len(samples)
        self._series = series
        for each in _ends([before[name] for name in before.keys() - series.keys()], milliseconds):
            yield each

    def ended(self) -> Iterator[Encoded]:
        """Yield the end of all series."""
        series, self._series = self._series, {}
        return _ends(list(series.values()), time.time_ns() // 1_000_000)

    def is_temporary(self, status: int) -> bool:
        """Return whether a message that was answered so is to be sent again."""
        return status >= 500 or status == _TOO_MANY_REQUESTS

    def refused(self, answer: bytes) -> tuple[int, str]:
        """Return how many samples an answer of success refuses, and why: none."""
        return 0, ""


def encoded_labels(series: bytes, extra: Mapping[bytes, bytes]) -> bytes:
    """Return all of a message's time series that comes before the value.

    Args:
        series: name and labels as in the text format.
        extra: labels for series that have no label of that name.
    """
    labels = {**extra, **dict(labels_of(series)), b"__name__": series.partition(b"{")[0]}
    content = b"".join(field(1, field(1, label) + field(2, value)) for label, value in sorted(labels.items()) if value)
    return b"\x0a" + varint(len(content) + len(_SAMPLE_HEAD) + 8 + 1 + _TIME_BYTES) + content + _SAMPLE_HEAD


def message(samples: Iterable[tuple[bytes, bytes]], milliseconds: int) -> bytes:
    """Return the body of a request: samples of one time, as results of `encoded_labels` and eight bytes of value."""
    end = b"\x10" + varint(milliseconds)
    return _snappy(b"".join([part for labels, value in samples for part in (labels, value, end)]))


def _ends(labels: list[bytes], milliseconds: int) -> Iterator[Encoded]:
    for first in range(0, len(labels), MESSAGE_SAMPLES):
        some = [(each, STALE) for each in labels[first : first + MESSAGE_SAMPLES]]
        yield message(some, milliseconds), len(some)


def _snappy(content: bytes) -> bytes:
    """Return content in snappy's block format as one literal: nothing is compressed."""
    return varint(len(content)) + b"\xfc" + (len(content) - 1).to_bytes(4, "little") + content
