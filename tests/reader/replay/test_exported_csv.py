"""CSV of `pulsed export`, read: what is a tick, which series it has, and what is wrong with a file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pulsed.errors import BadCapture, SourceEnded
from pulsed.model.raw_tick import RawTick
from pulsed.model.vocabulary import QUANTITIES
from pulsed.present.api.sample_fields import NUMBERS, WORDS
from pulsed.present.csv.pulsed_csv import COLUMNS
from pulsed.reader.replay.exported_csv import IDENTITY, TIME
from pulsed.reader.replay.recording import recording_type
from tests.support.sources import replayed, ticks_of

START = 1767225600.0
HEADER = "time,node,gpu,power_watts,sm_active_ratio\n"


def at(seconds: float, gpu: object = 0, power: object = "70.0", sm: object = "0.5", node: str = "n1") -> str:
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    minutes, whole = divmod(whole, 60)
    return f"2026-01-01T00:{minutes:02}:{whole:02}.{milliseconds:03}Z,{node},{gpu},{power},{sm}\n"


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "export.csv"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def said(tick: RawTick) -> list[tuple[str, str, object]]:
    """GPU, column and value, without the series that only says that there is a row."""
    return [
        (dict(series.labels)["gpu"], series.name, value)
        for series, value in zip(tick.layout.series, tick.values, strict=True)
        if series.name != TIME
    ]


def test_the_columns_are_those_that_are_written() -> None:
    derived = [name for name in COLUMNS if name in WORDS or name in NUMBERS]
    assert [*COLUMNS] == [TIME, *IDENTITY, *derived, *QUANTITIES]


async def test_rows_of_one_time_are_a_tick(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER, at(0), at(0, 1, "", ""), at(0.1, 0, "71.25"), at(0.3, 1, "60.5"))
    first, second, third = await ticks_of(replayed(path, speed=0))
    assert [tick.time for tick in (first, second, third)] == [START, START + 0.1, START + 0.3]
    assert [tick.clock for tick in (first, second, third)] == [0.0, 0.1, 0.3]
    assert (first.target, first.layout.dialect, first.rejected) == (str(path), "pulsed", {})
    assert said(first) == [("0", "power_watts", 70.0), ("0", "sm_active_ratio", 0.5)]
    assert said(second) == [("0", "power_watts", 71.25), ("0", "sm_active_ratio", 0.5)]
    assert said(third) == [("1", "power_watts", 60.5), ("1", "sm_active_ratio", 0.5)]
    labels = {series.labels for series in first.layout.series}
    assert labels == {(("node", "n1"), ("gpu", "0")), (("node", "n1"), ("gpu", "1"))}, "a row without values is there"


async def test_the_layout_stays_while_the_same_gpus_have_the_same_columns(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER, at(0, sm=""), at(1, sm=""), at(2), at(3, power=""), at(4))
    ticks = await ticks_of(replayed(path, speed=0))
    assert ticks[0].layout is ticks[1].layout
    assert [series.name for series in ticks[1].layout.series] == ["time", "power_watts"]
    assert ticks[2].layout is ticks[3].layout is ticks[4].layout
    assert said(ticks[3]) == [("0", "power_watts", None), ("0", "sm_active_ratio", 0.5)]
    assert all(len(tick.values) == len(tick.layout.series) for tick in ticks)


async def test_the_interval_is_the_usual_distance(tmp_path: Path) -> None:
    lines = [at(seconds, gpu) for seconds in (0, 15, 30, 75, 90) for gpu in (0, 1)]
    path = written(tmp_path, HEADER, *lines)
    ticks = await ticks_of(replayed(path, speed=0))
    assert {tick.interval for tick in ticks} == {15.0}
    assert [tick.clock for tick in ticks] == [0.0, 15.0, 30.0, 75.0, 90.0]
    assert replayed(path, interval=5.0).interval == 5.0
    assert replayed(written(tmp_path, HEADER, at(0))).interval == 1.0


async def test_nodes_that_are_not_in_step(tmp_path: Path) -> None:
    lines = [at(n * 10 + shift, node=node) for n in range(3) for node, shift in (("a", 0.0), ("b", 0.25))]
    ticks = await ticks_of(replayed(written(tmp_path, HEADER, *lines), speed=0))
    assert [tick.clock for tick in ticks] == [0.0, 0.25, 10.0, 10.25, 20.0, 20.25]
    assert {tick.interval for tick in ticks} == {10.0}


async def test_columns_in_any_order_and_others_left_out(tmp_path: Path) -> None:
    path = written(
        tmp_path, "power_watts,raw_class,gpu,time,saturation_ratio\n", "70.5,idle,3,2026-01-01T00:00:00.000Z,0.5\n"
    )
    (tick,) = await ticks_of(replayed(path, speed=0))
    assert said(tick) == [("3", "power_watts", 70.5)]


async def test_quoted_cells_and_foreign_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    row = '2026-01-01T00:00:00.000Z,0,"a ""b"", c\nd",70.0\r\n'
    path.write_bytes(("\ufefftime,gpu,model,power_watts\r\n" + row).encode())
    (tick,) = await ticks_of(replayed(path, speed=0))
    assert dict(tick.layout.series[0].labels) == {"gpu": "0", "model": 'a "b", c\nd'}


async def test_a_torn_last_row_is_left_out_and_counted(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER, at(0), at(1), at(1, 1, "71.5").rstrip("\n"))
    first, second = await ticks_of(replayed(path, speed=0))
    assert (first.rejected, second.rejected) == ({}, {"half_row": 1})
    assert [gpu for gpu, *_ in said(second)] == ["0", "0"]
    path = written(tmp_path, "time,gpu,model\n", '2026-01-01T00:00:00.000Z,0,H100\n2026-01-01T00:00:00.000Z,1,"H1\n')
    (only,) = await ticks_of(replayed(path, speed=0))
    assert (len(only.values), only.rejected) == (1, {"half_row": 1})


async def test_gzip_also_when_it_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "export.csv.gz"
    path.write_bytes(gzip.compress((HEADER + at(0) + at(1)).encode()))
    assert recording_type(path) == "csv"
    assert len(await ticks_of(replayed(path, speed=0))) == 2
    rows = "".join(at(n / 10, power=n * n * 7919 % 10007) for n in range(3000))
    path.write_bytes(gzip.compress((HEADER + rows).encode())[:-4000])
    assert 100 < len(await ticks_of(replayed(path, speed=0), 3000)) < 3000


async def test_one_export_appended_to_another(tmp_path: Path) -> None:
    """Time is as written; the clock grows."""
    for second in ([at(0), at(1)], [at(1)]):
        path = written(tmp_path, HEADER, at(0), at(1), HEADER, *second, HEADER, at(9))
        ticks = await ticks_of(replayed(path, speed=0))
        count = len(second)
        assert [tick.time - START for tick in ticks] == [0.0, 1.0, *(n + 2.0 - count for n in range(count)), 9.0]
        clocks = [tick.clock for tick in ticks]
        assert clocks[:3] == [0.0, 1.0, 2.0]
        assert clocks == sorted(set(clocks))


async def test_a_loop_goes_on_in_time(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER, at(0), at(2), at(3), at(4))
    ticks = await ticks_of(replayed(path, speed=0, loop=True), 6)
    assert [tick.clock for tick in ticks] == [0.0, 2.0, 3.0, 4.0, 5.0, 7.0]
    assert [tick.time - START for tick in ticks] == [tick.clock for tick in ticks]


async def test_the_pace_is_that_of_the_times(tmp_path: Path) -> None:
    now, slept = [100.0], []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    path = written(tmp_path, HEADER, at(0), at(1), at(2), at(6))
    source = replayed(path, speed=2, clock=lambda: now[0], sleep=sleep)
    await ticks_of(source)
    assert slept == pytest.approx([0.5, 0.5, 2.0])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (at(1, power="many"), "line 3: 'many' in column power_watts is not a number"),
        (at(1, power="nan"), "line 3: 'nan' in column power_watts is not a number"),
        (at(1, power="1,5"), "line 3: 6 cells under a header of 5"),
        ("2026-01-01T00:00:01,n1,0,1.0,1.0\n", "line 3: '2026-01-01T00:00:01' in column time is not an RFC 3339 time"),
        ("yesterday,n1,0,1.0,1.0\n", "line 3: 'yesterday' in column time"),
        (at(0), "line 3: the GPU of this row comes twice at this time"),
        (at(1, gpu='"0') + "x" * 70_000 + "\n", "line 3: a quotation mark is not closed"),
    ],
)
async def test_a_bad_row_ends_the_recording(tmp_path: Path, line: str, words: str) -> None:
    path = written(tmp_path, HEADER, at(0), line, at(2))
    source = replayed(path, speed=0)
    await source.read()
    with pytest.raises(BadCapture) as caught:
        await source.read()
    assert f"{path}, {words}" in str(caught.value)
    assert len(caught.value.remedy.split()) > 2
    with pytest.raises(SourceEnded, match="line 3"):
        await source.read()
    path = written(tmp_path, HEADER, line if line != at(0) else at(0) * 2)
    if line != at(0):
        source = replayed(path, speed=0)
        for _ in range(2):
            with pytest.raises(BadCapture, match="line 2"):
                await source.read()


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("timestamp,gpu_id,model,real_util_pct", "KempnerPulse"),
        ("gpu,power_watts", "no time or no GPU"),
        ("time,power_watts", "no time or no GPU"),
        ("time,gpu,gpu", "two columns 'gpu'"),
    ],
)
async def test_a_header_that_cannot_be_replayed(tmp_path: Path, header: str, words: str) -> None:
    path = written(tmp_path, header + "\n", "1,2,3,4\n")
    with pytest.raises(BadCapture, match=words) as caught:
        recording_type(path)
    assert str(path) in str(caught.value)
    assert "pulsed export" in caught.value.remedy or "Export with" in caught.value.remedy
