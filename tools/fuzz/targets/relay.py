"""Relays between an exporter and pulsed, which the bytes of an input choose: no false statement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.sequences.relays import false_statements
from tools.fuzz.target import MAX_BYTES, FuzzTarget


def _read(data: bytes) -> list[str]:
    return list(false_statements(data[:MAX_BYTES].hex()))


def _verify(data: bytes, outcome: Any) -> None:
    assert outcome == [], outcome


def _seeds() -> Iterator[bytes]:
    yield from (bytes([number]) for number in range(8))


RELAY = FuzzTarget("relay", _read, (), _verify, _seeds)
