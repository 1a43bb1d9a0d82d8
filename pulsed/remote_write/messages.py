"""Messages of Prometheus' remote write 1.0: protobuf in the block format of snappy.

Of a series only value and time change between two messages, so the bytes of its labels are kept. Series are lines of
the text format without timestamps. Must not depend on what the series mean, or on how messages are sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from struct import Struct

MEDIA_TYPE = "application/x-protobuf"

HEADERS: Mapping[str, str] = {"Content-Encoding": "snappy", "X-Prometheus-Remote-Write-Version": "0.1.0"}

STALE = bytes.fromhex("020000000000f07f")
"""The value that ends a series: a NaN of these bits, little-endian."""

_LABEL = re.compile(rb',?([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(rb"\\(.)")
_ESCAPES = {b"n": b"\n"}
_TIME_BYTES = 6
"""Length of milliseconds since 1970 as a varint, from 2004 to 2109."""

_SAMPLE_HEAD = bytes((0x12, 1 + 8 + 1 + _TIME_BYTES, 0x09))
_DOUBLE = Struct("<d")


def encoded_labels(series: bytes, extra: Mapping[bytes, bytes]) -> bytes:
    """Return all of a message's time series that comes before the value.

    Args:
        series: name and labels as in the text format.
        extra: labels for series that have no label of that name.
    """
    name, _, rest = series.partition(b"{")
    labels = dict(extra)
    at = 0
    while matched := _LABEL.match(rest, at):
        label, value = matched.groups()
        labels[label] = _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), value) if b"\\" in value else value
        at = matched.end()
    labels[b"__name__"] = name
    content = b"".join(
        _field(0x0A, _field(0x0A, label) + _field(0x12, value)) for label, value in sorted(labels.items()) if value
    )
    return b"\x0a" + _varint(len(content) + len(_SAMPLE_HEAD) + 8 + 1 + _TIME_BYTES) + content + _SAMPLE_HEAD


def values(page: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield each series of a page in the text format, and its value as eight bytes."""
    pack = _DOUBLE.pack
    for line in page.splitlines():
        if line and line[0] != 0x23:
            series, _, value = line.rpartition(b" ")
            yield series, pack(float(value))


def message(samples: Iterable[tuple[bytes, bytes]], milliseconds: int) -> bytes:
    """Return the body of a request: samples of one time, as results of `encoded_labels` and eight bytes of value."""
    end = b"\x10" + _varint(milliseconds)
    return _snappy(b"".join([part for labels, value in samples for part in (labels, value, end)]))


def _snappy(content: bytes) -> bytes:
    """Return content in snappy's block format as one literal: nothing is compressed."""
    return _varint(len(content)) + b"\xfc" + (len(content) - 1).to_bytes(4, "little") + content


def _field(tag: int, content: bytes) -> bytes:
    return bytes((tag,)) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
