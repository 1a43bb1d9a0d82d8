"""Fields of protobuf messages. Must not depend on what they mean."""

from __future__ import annotations


def varint(number: int) -> bytes:
    """Return a number, 0 or more, in base 128."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def field(number: int, content: bytes) -> bytes:
    """Return a field with a length: a text, bytes, a message, or packed numbers. `number` is 1 to 15."""
    return bytes((number << 3 | 2,)) + varint(len(content)) + content


def numbers(message: bytes) -> dict[int, int | bytes]:
    """Return the fields of a message by number, the last of each; raise ValueError where it is not one."""
    found: dict[int, int | bytes] = {}
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        if tag & 7 == 0:
            found[tag >> 3], at = _read_varint(message, at)
        elif tag & 7 == 2:
            size, at = _read_varint(message, at)
            found[tag >> 3] = message[at : at + size]
            at += size
        else:
            raise ValueError("a field of another type")
    return found


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(message) and shift < 64:
        number |= (message[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if message[at - 1] < 0x80:
            return number, at
    raise ValueError("a number without an end")
