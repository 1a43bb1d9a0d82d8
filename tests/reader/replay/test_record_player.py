"""Playing a record: the same ticks, in order, in time, target by target."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pulsed.errors import BadCapture, SourceEnded
from pulsed.model.raw_tick import RawTick
from pulsed.reader.replay import ReplaySettings
from pulsed.reader.replay.playback import recorded_targets
from pulsed.reader.replay.recording import recording_type
from pulsed.reader.replay.source import ReplaySource, replay_sources
from pulsed.reader.source import Source
from tests.reader.record_ticks import record, said, session, tick
from tests.support.sources import FakeClock, arrivals, turns_during

TICKS = [tick(float(n), 50.25 + n) for n in range(4)]
MIXED = [tick(float(n), 50.0 + n / 10, "abc"[n % 3]) for n in range(12)]


def play(path: Path, time: FakeClock | None = None, **settings: Any) -> Sequence[ReplaySource]:
    given = ReplaySettings(path, **settings)
    return replay_sources(given) if time is None else replay_sources(given, clock=time.clock, sleep=time.sleep)


def written(path: Path, *sessions: bytes) -> Path:
    path.write_bytes(b"".join(sessions))
    return path


async def played(sources: Sequence[Source], most: int = 1000) -> list[RawTick]:
    """All ticks of all sources in the order in which they came."""
    found: list[RawTick] = []

    async def follow(source: Source) -> None:
        try:
            while len(found) < most:
                found.append(await source.read())
                await asyncio.sleep(0)
        except SourceEnded:
            pass
        finally:
            await source.close()

    await asyncio.gather(*(follow(source) for source in sources))
    return found[:most]


async def times(path: Path, most: int = 1000) -> list[tuple[float, float]]:
    return [(one.time, one.clock) for one in await played(play(path, speed=0, loop=most < 1000), most)]


async def test_the_same_ticks_with_the_same_times(tmp_path: Path) -> None:
    path = written(tmp_path / "record", record(TICKS))
    (source,) = play(path, speed=0, interval=9.0, start=5.0)  # a record has its own
    assert (source.kind, source.target, source.interval) == ("replay", "a", 1.0)
    assert [said(one) for one in await played([source])] == [said(one) for one in TICKS]


async def test_several_targets_are_sources_that_take_turns_in_the_recorded_order(tmp_path: Path) -> None:
    path = written(tmp_path / "record", record(MIXED, "c", "b", "a"))
    sources = play(path, speed=0)
    assert [source.target for source in sources] == ["c", "b", "a"]
    assert [said(one) for one in await played(sources)] == [said(one) for one in MIXED]


async def test_a_target_without_a_tick_holds_up_nobody(tmp_path: Path) -> None:
    path = written(tmp_path / "record", record(MIXED, "silent", "a", "b", "c"))
    assert len(await played(play(path, speed=0))) == len(MIXED)


async def test_a_source_that_is_closed_leaves_its_turns_to_the_others(tmp_path: Path) -> None:
    a, b, c = play(written(tmp_path / "record", record(MIXED, "a", "b", "c")), speed=0)
    first = await a.read()
    waiting = asyncio.ensure_future(c.read())  # it is b's turn
    await asyncio.sleep(0)
    await b.close()
    await b.close()
    assert [said(first), said(await waiting)] == [said(MIXED[0]), said(MIXED[2])]
    with pytest.raises(SourceEnded, match="b was closed"):
        await b.read()
    rest = await played([a, c])
    assert [said(one) for one in rest] == [said(one) for one in MIXED[3:] if one.target != "b"]


async def test_closing_wakes_a_read_that_waits(tmp_path: Path) -> None:
    a, b, _ = play(written(tmp_path / "record", record(MIXED, "a", "b", "c")), speed=0)
    waiting = asyncio.ensure_future(b.read())
    await asyncio.sleep(0)
    await b.close()
    with pytest.raises(SourceEnded, match="closed"):
        await waiting
    await a.close()


async def test_the_end_is_told_to_all_and_stays(tmp_path: Path) -> None:
    sources = play(written(tmp_path / "record", record(MIXED, "a", "b", "c")), speed=0)
    for one in MIXED:
        source = next(source for source in sources if source.target == one.target)
        await source.read()
    for source in [*sources, *sources]:
        with pytest.raises(SourceEnded, match=r"record is over after 12 ticks$"):
            await source.read()
    for source in sources:
        await source.close()


@pytest.mark.parametrize(("speed", "moments"), [(1.0, [0, 1, 61, 62]), (2.0, [0, 0.5, 30.5, 31])])
async def test_the_pace_is_the_recorded_one_gaps_included(tmp_path: Path, speed: float, moments: list[float]) -> None:
    path = written(tmp_path / "record", record([tick(0.0, clock) for clock in (7.0, 8.0, 68.0, 69.0)]))
    time = FakeClock()
    (source,) = play(path, speed=speed, time=time)
    assert await arrivals(source, time, [0.0] * 4) == pytest.approx(moments)


# --- sessions and passes


async def test_between_two_sessions_the_wall_clock_tells_the_gap(tmp_path: Path) -> None:
    after_a_boot = [tick(0.0, clock, at=1100.0 + clock) for clock in (3.0, 4.0)]
    path = written(tmp_path / "record", record([tick(0.0, 50.0), tick(0.0, 51.0)]), record(after_a_boot))
    assert await times(path) == [(1050.0, 50.0), (1051.0, 51.0), (1103.0, 103.0), (1104.0, 104.0)]


async def test_a_wall_clock_that_was_put_back_lets_the_clock_grow_on(tmp_path: Path) -> None:
    path = written(tmp_path / "record", record(TICKS[:2]), record(TICKS[:2]))
    assert await times(path) == [(1050.25, 50.25), (1051.25, 51.25), (1050.25, 52.25), (1051.25, 53.25)]


async def test_a_loop_goes_on_one_interval_later(tmp_path: Path) -> None:
    path = written(tmp_path / "record", record(TICKS[:2]))
    assert await times(path, 5) == [(1050.25 + n, 50.25 + n) for n in range(5)]


async def test_a_loop_over_a_stepped_wall_clock_grows_with_each_pass(tmp_path: Path) -> None:
    back = [tick(0.0, 10.0, at=1000.0), tick(0.0, 11.0, at=400.0)]
    assert await times(written(tmp_path / "record", record(back)), 4) == [
        (1000.0, 10.0),
        (400.0, 11.0),
        (1001.0, 612.0),
        (401.0, 613.0),
    ]


async def test_a_loop_over_nothing_ends(tmp_path: Path) -> None:
    (source,) = play(written(tmp_path / "record", record([])), speed=0, loop=True)
    with pytest.raises(SourceEnded, match="over after 0 ticks"):
        await source.read()
    await source.close()


async def test_the_targets_of_all_sessions_with_their_longest_intervals(tmp_path: Path) -> None:
    path = written(tmp_path / "record", record(MIXED[:1], "a"), record(MIXED, "b", "a", "c"))
    path.write_bytes(
        path.read_bytes().replace(b'"b":1.0', b'"b":5.0').replace(b'"targets":{"a":1.0', b'"targets":{"a":2')
    )
    assert dict(recorded_targets(path)) == {"a": 2.0, "b": 5.0, "c": 1.0}


# --- damage


async def test_a_record_cut_anywhere_gives_the_first_ticks(tmp_path: Path) -> None:
    data = record(TICKS)
    for suffix, whole in (("", data), (".gz", gzip.compress(data))):
        path = tmp_path / f"cut{suffix}"
        counts = []
        for cut in range(len(whole) + 1):
            path.write_bytes(whole[:cut])
            found: list[RawTick] = []
            for source in play(path, speed=0):
                with contextlib.suppress(BadCapture):  # cut within its first line
                    found = await played([source])
            assert [said(one) for one in found] == [said(one) for one in TICKS[: len(found)]]
            counts.append(len(found))
        assert counts == sorted(counts)
        assert set(counts) >= ({0, 1, 2, 3, 4} if not suffix else {0, 4})


async def test_a_line_that_was_cut_and_gone_on_behind_costs_itself(tmp_path: Path) -> None:
    path = written(tmp_path / "record", record(TICKS)[:-20], b"\n", record(TICKS))
    found = await played(play(path, speed=0))
    assert [one.values for one in found] == [[0.0], [1.0], [2.0], [0.0], [1.0], [2.0], [3.0]]
    assert [dict(one.rejected) for one in found][2:5] == [{}, {"damaged_line": 1}, {}]


async def test_gzip_data_that_is_damaged_ends_the_record_and_says_so(tmp_path: Path) -> None:
    many = [tick(float(n), 50.0 + n) for n in range(1500)]  # more than what is looked at to find out what it is
    wrong = gzip.compress(record(many))[:-8] + b"checksum"
    (source,) = play(written(tmp_path / "record", wrong, gzip.compress(record(TICKS))), speed=0)
    for _ in many:
        await source.read()
    with pytest.raises(SourceEnded, match=r"over after 1500 ticks: cannot read"):
        await source.read()
    await source.close()


async def test_a_later_format_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "record", record(TICKS).replace(b'{"pulsed_record":1', b'{"pulsed_record":2'))
    (source,) = play(path, speed=0)
    with pytest.raises(BadCapture, match=r"record is a record of format 2.*newer"):
        await source.read()
    await source.close()


async def test_a_later_format_behind_one_that_can_be_read(tmp_path: Path) -> None:
    later = record(TICKS).replace(b'{"pulsed_record":1', b'{"pulsed_record":2')
    path = written(tmp_path / "record", record(TICKS), later)
    with pytest.raises(BadCapture, match="format 2"):
        recorded_targets(path)


async def test_other_tasks_run_while_garbage_is_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path / "record", record(TICKS[:1]), b"garbage\n" * 5000, record(TICKS[:1]))
    (source,) = play(path, speed=0)
    await source.read()
    (found,), turns = await turns_during(source, 1)
    assert found.rejected == {"damaged_line": 5000}
    assert turns >= 3
    await source.close()


# --- what a path is


def test_a_record_is_known_by_its_first_line(tmp_path: Path) -> None:
    assert recording_type(written(tmp_path / "any name", record([]))) == "record"
    assert recording_type(written(tmp_path / "zipped", gzip.compress(record([])))) == "record"
    assert recording_type(written(tmp_path / "gone on with", b'{"pulsed_\n', record([]))) == "record"


async def test_a_record_that_appears_later_needs_a_new_start(tmp_path: Path) -> None:
    path = tmp_path / "late"
    (source,) = play(path)
    assert isinstance(source, ReplaySource)
    written(path, record(TICKS))
    with pytest.raises(BadCapture, match="Start pulsed again"):
        await source.read()
    await source.close()


async def test_a_record_of_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "record", record([]).replace(b'"targets":{"a":1.0}', b'"targets":{}'))
    with pytest.raises(BadCapture, match="record without targets"):
        await play(path)[0].read()


def test_it_is_a_source(tmp_path: Path) -> None:
    source: Source = play(written(tmp_path / "record", record([])))[0]
    assert dict(session().targets) == {source.target: 1.0}
