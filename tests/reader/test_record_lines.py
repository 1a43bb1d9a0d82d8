"""The lines of a record: every tick comes back as it was, and no damage makes one up."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.errors import BadCapture
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import UNKNOWN_EPOCH, Epoch, Layout, RawTick, RawValue, Series
from pulsed.reader.record_lines import LAYOUTS_KEPT, RecordReader, RecordWriter, Session
from tests.reader.record_ticks import ONE, layout, record, said, session, tick
from tests.support.examples import examples

texts = st.text(max_size=5)
some = examples(100)
numbers = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    labels = st.dictionaries(texts, texts, max_size=3).map(lambda labels: tuple(labels.items()))
    blocks = draw(st.lists(labels, min_size=1, max_size=3))
    series = draw(st.lists(st.builds(Series, texts, st.sampled_from(blocks)), max_size=5))
    words = st.dictionaries(texts, texts, max_size=2)
    return Layout(draw(st.sampled_from(["exporter", "dmon"])), tuple(series), draw(words), draw(words))


@st.composite
def streams(draw: st.DrawFn) -> list[RawTick]:
    known = draw(st.lists(layouts(), min_size=1, max_size=6))
    values: st.SearchStrategy[RawValue] = st.none() | st.floats() | texts
    ticks = []
    for of in draw(st.lists(st.sampled_from(known), max_size=12)):
        some = draw(st.lists(values, min_size=len(of.series), max_size=len(of.series)))
        interval = draw(st.floats(0.1, 60))
        rejected = draw(st.dictionaries(texts, st.integers(1, 9), max_size=1))
        target = draw(st.sampled_from(["a", "b"]))
        epoch = draw(st.sampled_from([UNKNOWN_EPOCH, Epoch(engine="1"), Epoch("a", "b", "1", "2", Unix(3.5))]))
        ticks.append(
            RawTick(
                target, Unix(draw(numbers)), Monotonic(draw(numbers)), interval, of, some, rejected, 0.5, epoch=epoch
            )
        )
    return ticks


def read(data: bytes) -> list[RawTick]:
    reader = RecordReader()
    found = [reader.feed(line) for line in data.splitlines(keepends=True)]
    return [one for one in found if isinstance(one, RawTick)]


@some
@given(streams())
def test_every_tick_comes_back(ticks: list[RawTick]) -> None:
    found = read(record(ticks, "a", "b"))
    assert [said(one) for one in found] == [said(one) for one in ticks]
    for text in record(ticks).splitlines():  # NDJSON that every reader takes
        json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


@some
@given(streams(), st.data())
def test_a_record_cut_anywhere_gives_the_first_ticks(ticks: list[RawTick], data: st.DataObject) -> None:
    whole = record(ticks)
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    found = [said(one) for one in read(cut)]
    assert found == [said(one) for one in ticks[: len(found)]]
    assert len(found) >= cut.count(b'\n{"tick"') - 1
    more = read(cut + b"\n" + record(ticks))  # and can be gone on with
    assert len(more) == len(found) + len(ticks)


@some
@given(streams(), st.data())
def test_lines_that_are_lost_never_put_a_tick_under_another_layout(ticks: list[RawTick], data: st.DataObject) -> None:
    lines = (record(ticks) + record(ticks[::-1])).splitlines(keepends=True)
    lost = data.draw(st.sets(st.integers(0, len(lines) - 1)))
    kept = [b"{damage\n" if number in lost else line for number, line in enumerate(lines)]
    originals = [said(one)[5:] for one in ticks]
    assert all(said(one)[5:] in originals for one in read(b"".join(kept)))


@some
@given(st.binary(max_size=60) | st.recursive(st.none() | st.integers() | texts, st.lists).map(lambda v: b"%r" % v))
def test_no_line_makes_it_raise(line: bytes) -> None:
    assert RecordReader().feed(line) is None


@pytest.mark.parametrize(
    "damage",
    [
        b"[" * 100_000,
        b"7",
        b'{"pulsed_record":1}',
        b'{"pulsed_record":1,"version":"","source":"","node":"","started":"","targets":{"a":0}}',
        b'{"layout":"x","target":"a","dialect":"nvml","labels":[],"series":[]}',
        b'{"layout":"x","target":"a","dialect":"dmon","labels":[{}],"series":[["GPUTL",-1]]}',
        b'{"layout":"x","target":"a","dialect":"dmon","labels":[{}],"series":[["GPUTL",1]]}',
        b'{"layout":"x","target":"a","dialect":"dmon","labels":[{}],"series":[["GPUTL"]]}',
        b'{"tick":"y","target":"a","time":1,"clock":1,"interval":1,"values":[1]}',
        b'{"tick":"ok","target":"a","time":1,"clock":1,"interval":1,"values":[1,2]}',
        b'{"tick":"ok","target":"b","time":1,"clock":1,"interval":1,"values":[1]}',
        b'{"tick":"ok","target":"a","time":NaN,"clock":1,"interval":1,"values":[1]}',
        b'{"tick":"ok","target":"a","time":1,"clock":true,"interval":1,"values":[1]}',
        b'{"tick":"ok","target":"a","time":1,"clock":1,"interval":-1,"values":[1]}',
        b'{"tick":"ok","target":"a","time":1,"clock":1,"interval":1,"values":[true]}',
        b'{"tick":"ok","target":"a","time":1,"clock":1,"interval":1,"values":[["many"]]}',
        b'{"tick":"ok","target":"a","time":1,"clock":1,"interval":1,"values":[1' + b"0" * 400 + b"]}",
    ],
)
def test_damage_is_counted_with_the_next_tick(damage: bytes) -> None:
    reader = RecordReader()
    reader.feed(b'{"layout":"ok","target":"a","dialect":"dmon","labels":[{}],"series":[["GPUTL",0]]}')
    assert reader.feed(damage) is None
    good = b'{"tick":"ok","target":"a","time":1,"clock":1,"interval":1,"values":[1]}'
    after = [reader.feed(good), reader.feed(good)]
    assert [dict(one.rejected) for one in after if isinstance(one, RawTick)] == [{"damaged_line": 1}, {}]
    assert isinstance(after[0], RawTick)
    assert [type(value) for value in after[0].values] == [float]


def test_the_session_comes_back() -> None:
    given = Session("0.1.0", "exporter", "gpu1", "2026-01-01T00:00:00.000Z", {"http://a": 15.0, "b.prom": 1.5})
    assert RecordReader().feed(RecordWriter(given).start()) == given


def test_a_later_format_is_told() -> None:
    line = RecordWriter(session()).start().replace(b'{"pulsed_record":1', b'{"pulsed_record":2')
    with pytest.raises(BadCapture, match="format 2"):
        RecordReader().feed(line)


def test_what_a_later_pulsed_may_add_is_passed_over() -> None:
    data = record([tick(1.0, 0.0)]) + b'{"failure":"refused","target":"a"}\n' + record([tick(2.0, 1.0)])
    assert [dict(one.rejected) for one in read(data)] == [{}, {}]


def test_a_layout_is_written_once_and_is_one_object() -> None:
    other = layout("POWER")
    data = record([tick(float(n), float(n), of=(ONE, other)[n % 2]) for n in range(10)])
    assert data.count(b'{"layout"') == 2
    assert len({id(one.layout) for one in read(data)}) == 2


def test_neither_side_grows() -> None:
    ticks = [tick(1.0, float(n), of=layout(f"N{n}")) for n in range(50)]
    writer, reader = RecordWriter(session()), RecordReader()
    tick_lines = []
    for one in [*ticks, *ticks]:
        lines = writer.tick(one).splitlines()
        assert len(lines) == 2
        tick_lines.append(lines[1])
        found = [reader.feed(line) for line in lines][-1]
        assert isinstance(found, RawTick)
        assert said(found) == said(one)
    readable = [reader.feed(line) is not None for line in tick_lines[-50:]]
    assert readable == [False] * (50 - LAYOUTS_KEPT) + [True] * LAYOUTS_KEPT


def test_labels_that_many_series_share_are_written_once() -> None:
    labels = (("gpu", "0"), ("UUID", "GPU-a"))
    of = Layout("exporter", tuple(Series(f"N{n}", labels) for n in range(100)))
    data = record([RawTick("a", Unix(1.0), Monotonic(1.0), 1.0, of, [math.nan] * 100)])
    assert data.count(b"GPU-a") == 1
    assert data.count(b'["nan"]') == 100
