"""Reads the wire format of Protocol Buffers: the fields of a message that have a length (messages and strings)."""

from __future__ import annotations

from collections.abc import Iterator

_FIXED_BYTES = {1: 8, 5: 4}


def fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield number and content of each field with a length, in their order; numbers are skipped.

    Raises:
        ValueError: the message is malformed.
    """
    position, end = 0, len(message)
    try:
        while position < end:
            tag, position = _varint(message, position)
            kind = tag & 7
            if kind == 2:
                length, position = _varint(message, position)
                if position + length > end:
                    raise ValueError("a field is longer than its message")
                yield tag >> 3, message[position : position + length]
                position += length
            elif kind == 0:
                _, position = _varint(message, position)
            elif kind in _FIXED_BYTES:
                position += _FIXED_BYTES[kind]
            else:
                raise ValueError(f"wire type {kind} is not valid")
    except IndexError:
        position = end + 1
    if position > end:
        raise ValueError("the message is cut off")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """Return a number and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than 64 bits")
