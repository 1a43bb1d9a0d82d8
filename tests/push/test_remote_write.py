"""Messages of remote write, taken apart by a reader of protobuf that is as small as they are."""

from __future__ import annotations

import math
import struct

import pytest

from pulsed.push.page_series import series_of
from pulsed.push.remote_write import STALE, encoded_labels, message

MILLISECONDS = 1_790_000_000_123


def varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return number, at


def fields(data: bytes) -> list[tuple[int, bytes | int]]:
    """Return the fields of a message: numbers and contents."""
    found: list[tuple[int, bytes | int]] = []
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            number, at = varint(data, at)
            found.append((tag >> 3, number))
        else:
            size, at = (8, at) if tag & 7 == 1 else varint(data, at)
            found.append((tag >> 3, data[at : at + size]))
            at += size
    return found


def content(body: bytes) -> bytes:
    """Unpack snappy's block format, of one literal."""
    size, at = varint(body, 0)
    assert body[at] == 0xFC
    assert int.from_bytes(body[at + 1 : at + 5], "little") + 1 == size == len(body) - at - 5
    return body[at + 5 :]


def series(body: bytes) -> list[tuple[list[tuple[str, str]], bytes, int]]:
    found = []
    for number, one in fields(content(body)):
        assert number == 1
        assert isinstance(one, bytes)
        *labels, (two, sample) = fields(one)
        assert two == 2
        assert isinstance(sample, bytes)
        (_, value), (_, time) = fields(sample)
        assert isinstance(value, bytes)
        assert isinstance(time, int)
        pairs = [tuple(text.decode() for _, text in fields(each)) for _, each in labels]  # type: ignore[union-attr, arg-type]  # contents
        found.append((pairs, value, time))
    return found  # type: ignore[return-value]  # pairs have two texts


def test_a_page_becomes_sorted_labels_with_values_and_one_time() -> None:
    page = b'# TYPE a gauge\na{z="1",empty="",b="x y"} 2.5\na 1e9\nc{d="NaN"} NaN\nc{d="i"} +Inf\n'
    extra = {b"job": b"pulsed", b"b": b"not this"}
    body = message(
        [(encoded_labels(name, extra), struct.pack("<d", value)) for name, value in series_of(page)], MILLISECONDS
    )
    first, second, third, fourth = series(body)
    assert first[0] == [("__name__", "a"), ("b", "x y"), ("job", "pulsed"), ("z", "1")]
    assert second[0] == [("__name__", "a"), ("b", "not this"), ("job", "pulsed")]
    numbers = [struct.unpack("<d", each[1])[0] for each in (first, second, third, fourth)]
    assert numbers[:2] == [2.5, 1e9]
    assert math.isnan(numbers[2])
    assert numbers[3] == math.inf
    assert {each[2] for each in (first, second, third, fourth)} == {MILLISECONDS}


@pytest.mark.parametrize("text", ['"', "\\", "\n", '\\n"}', "a,b={}", "µ", "n\\"])
def test_escaped_labels_are_as_they_were(text: str) -> None:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    page = f'a{{b="{escaped}",c="d"}} 1\n'.encode()
    ((name, value),) = series_of(page)
    ((labels, _, _),) = series(message([(encoded_labels(name, {}), struct.pack("<d", value))], MILLISECONDS))
    assert labels == [("__name__", "a"), ("b", text), ("c", "d")]


def test_the_stale_marker_is_that_of_prometheus() -> None:
    assert struct.unpack("<Q", STALE) == (0x7FF0000000000002,)
