from __future__ import annotations

import pytest

from pulsed.attribution.pod_resources import fields


def read(message: bytes) -> list[tuple[int, bytes]]:
    return [(number, bytes(content)) for number, content in fields(memoryview(message))]


def test_fields_with_a_length_are_found_between_numbers() -> None:
    numbers = b"\x08\x96\x01" + b"\x11" + bytes(8) + b"\x1d" + bytes(4)
    assert read(numbers + b"\x22\x02hi" + numbers + b"\xfa\x01\x00") == [(4, b"hi"), (31, b"")]


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (b"\x0a\x05abc", "longer than its message"),
        (b"\x0a", "cut off"),
        (b"\x08\x80", "cut off"),
        (b"\x08" + b"\xff" * 10, "more than 64 bits"),
        (b"\x0b", "wire type 3"),
        (b"\x11\x00", "cut off"),
    ],
)
def test_a_malformed_message(message: bytes, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        read(message)
