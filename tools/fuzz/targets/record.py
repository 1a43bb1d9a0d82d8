"""Records that replay reads: their lines, and the same ticks recorded again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulsed.errors import BadCapture
from pulsed.model.raw_tick import Layout, RawTick, Series
from pulsed.reader.record_lines import RecordReader, RecordWriter, Session
from tests.reader.record_ticks import record, said, session, tick
from tools.bench.ticks import raw_ticks
from tools.fuzz.json_mutator import mutate_json
from tools.fuzz.target import FuzzTarget

_Found = list[Session | RawTick]


def _read(data: bytes) -> _Found:
    reader = RecordReader()
    return [found for line in data.split(b"\n") if (found := reader.feed(line)) is not None]


def _verify(data: bytes, outcome: Any) -> None:
    if isinstance(outcome, BadCapture):
        assert outcome.remedy
        return
    ticks = [found for found in outcome if isinstance(found, RawTick)]
    assert all(len(tick.values) == len(tick.layout.series) for tick in ticks)
    again = _read(record(ticks))
    assert [said(tick) for tick in again if isinstance(tick, RawTick)] == list(map(said, ticks)), "recorded again"
    for each in outcome:
        if isinstance(each, Session):
            assert _read(RecordWriter(each).start()) == [each]


def _seeds() -> Iterator[bytes]:
    yield record(raw_ticks(1, 2), "bench")
    yield record([tick(value, 1.0) for value in (1.5, 3, None, "text", float("nan"), float("-inf"))])
    named = Layout("exporter", (Series("a", (("gpu", "0"),)),), {"a": "help"}, {"a": "gauge"})
    yield record([tick(1.0, 1.0, of=named), tick(2.0, 2.0, target="b")], "a", "b")
    yield RecordWriter(session()).start().replace(b":1,", b":2,", 1)
    yield b'{"target":"a","layout":"x"}\n{"other":[]}\n{"tick":"5f"\n[]\n1\n'


RECORD = FuzzTarget(
    "record",
    _read,
    (BadCapture,),
    _verify,
    _seeds,
    (
        *(b'{"tick":"', b'{"layout":"', b'{"pulsed_record":1,', b'"values":[', b'"series":[["', b'"labels":[{"'),
        *(b'"target":"a"', b'"clock":', b'"interval":', b'"rejected":{', b'["nan"]', b'["-inf"]', b"null", b"1e400"),
        *(b'"dialect":"pulsed"', b'"help":{', b'"types":{', b"\\u0000", b"\\ud800", b"\n"),
    ),
    mutate_json,
)
