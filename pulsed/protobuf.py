"""The wire format of Protocol Buffers, as far as pulsed reads and writes it."""

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


def numbers(message: bytes) -> dict[int, int | bytes]:
    """Return the fields of a message by number, the last of each; raise ValueError where it is not one."""
    found: dict[int, int | bytes] = {}
    data, at = memoryview(message), 0
    try:
        while at < len(message):
            tag, at = _varint(data, at)
            if tag & 7 == 0:
                found[tag >> 3], at = _varint(data, at)
            elif tag & 7 == 2:
                size, at = _varint(data, at)
                found[tag >> 3] = message[at : at + size]
                at += size
            else:
                raise ValueError("a field of another type")
    except IndexError:
        raise ValueError("a number without an end") from None
    return found


def field(number: int, content: bytes) -> bytes:
    """Return a field with a length: a text, bytes, a message, or packed numbers."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(number: int) -> bytes:
    """Return a number that is not negative in seven bits a byte, the lowest first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
