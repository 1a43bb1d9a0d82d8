"""The wire format of Protocol Buffers, and the pods in a response."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.owners.attribution.kubelet import parse_pod_resources
from pulsed.protobuf import fields
from tests.support.kubernetes.fake_kubelet import container, pods


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


@given(st.binary())
def test_whatever_arrives_is_parsed_or_malformed(response: bytes) -> None:
    try:
        parse_pod_resources(response)
    except ValueError:
        return


@given(st.integers(0))
def test_a_response_that_was_cut_off_never_loses_pods_silently(at: int) -> None:
    whole = pods({"name": "train-0", "namespace": "ml", "containers": [container("main", "GPU-aa", "GPU-bb")]})
    cut = whole[: at % len(whole)]
    try:
        found = parse_pod_resources(cut)
    except ValueError:
        return
    assert cut == b""
    assert found == ([], [])
