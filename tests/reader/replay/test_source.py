"""Replay: what a path is found to be, what its ticks are stamped, and how a recording ends."""

from __future__ import annotations

import contextlib
import gzip
import os
import random
import tracemalloc
from datetime import UTC
from pathlib import Path

import pytest

from pulsed.errors import BadCapture, BadPage, SourceEnded, SourceError
from pulsed.model.raw_tick import RawTick
from pulsed.reader.replay import DEFAULT_START
from pulsed.reader.replay.recording import recording_type
from pulsed.reader.source import Source
from tests.support.samples import SAMPLES, needs_samples
from tests.support.sources import FakeClock, arrivals, cancel_read, replayed, ticks_of, turns_during

HEADER = "#Entity   GPUTL        POWER             \nID                     W                 \n"
CONNECT_ERROR = """Error: unable to establish a connection to the specified host: localhost
Error: Unable to connect to host engine. Host engine connection invalid/disconnected.
"""


def row(gpu: int, util: object, power: object) -> str:
    return f"{f'GPU {gpu}':<10}{util!s:<13}{power!s:<18}\n"


def capture(ticks: int) -> str:
    return HEADER + "".join(row(gpu, 10 * n + gpu, f"{100 + n}.000") for n in range(ticks) for gpu in (0, 1))


def page(value: int) -> str:
    return f'# TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-aaaa"}} {value}\n'


async def count_rest(source: Source) -> int:
    count = 0
    with contextlib.suppress(SourceEnded):
        while await source.read():
            count += 1
    await source.close()
    return count


def values(ticks: list[RawTick]) -> list[list[object]]:
    return [list(tick.values) for tick in ticks]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "capture.txt"
    path.write_text(capture(3))
    return path


# --- captures of dcgmi dmon


async def test_a_capture_with_deterministic_time(recorded: Path) -> None:
    source: Source = replayed(recorded, speed=0)
    assert (source.kind, source.target, source.interval) == ("replay", str(recorded), 1.0)
    await source.close()
    ticks = await ticks_of(replayed(recorded, speed=0))
    assert [(tick.time, tick.clock) for tick in ticks] == [(DEFAULT_START + n, float(n)) for n in range(3)]
    assert {(tick.target, tick.interval, tick.layout.dialect) for tick in ticks} == {(str(recorded), 1.0, "dmon")}
    assert values(ticks)[0] == [0.0, 100.0, 1.0, 100.0]
    assert [series.name for series in ticks[0].layout.series] == ["GPUTL", "POWER", "GPUTL", "POWER"]
    assert len({id(tick.layout) for tick in ticks}) == 1
    again = await ticks_of(replayed(recorded, speed=0))
    assert [(tick.time, list(tick.values)) for tick in again] == [(tick.time, list(tick.values)) for tick in ticks]


def test_the_default_start_is_what_it_is_said_to_be() -> None:
    from datetime import datetime

    assert datetime.fromtimestamp(DEFAULT_START, UTC).isoformat() == "2026-01-01T00:00:00+00:00"


async def test_interval_and_start_can_be_given(recorded: Path) -> None:
    source = replayed(recorded, speed=0, interval=0.1, start=50.0)
    assert source.interval == 0.1
    ticks = await ticks_of(source)
    assert [tick.time for tick in ticks] == pytest.approx([50.0, 50.1, 50.2])
    assert {tick.interval for tick in ticks} == {0.1}


async def test_a_gzipped_capture_by_any_name(tmp_path: Path, recorded: Path) -> None:
    for name in ("capture.txt.gz", "capture"):
        zipped = tmp_path / name
        zipped.write_bytes(gzip.compress(capture(3).encode()))
        assert values(await ticks_of(replayed(zipped, speed=0))) == values(await ticks_of(replayed(recorded, speed=0)))


async def test_gzip_that_is_cut_off_gives_what_came_before(tmp_path: Path) -> None:
    rng = random.Random(1)
    text = HEADER + "".join(row(gpu, rng.randrange(100), rng.randrange(700)) for _ in range(5000) for gpu in (0, 1))
    cut = tmp_path / "cut.gz"
    data = gzip.compress(text.encode())
    cut.write_bytes(data[: len(data) // 2])
    whole = tmp_path / "whole.txt"
    whole.write_text(text)
    before = await ticks_of(replayed(cut, speed=0))
    assert 1000 < len(before) < 5000
    assert values(before)[:-1] == values(await ticks_of(replayed(whole, speed=0), len(before)))[:-1]
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes(data[:30] + b"\xff" * 100)
    with pytest.raises(BadCapture, match=r"cannot read .*damaged\.gz"):
        await ticks_of(replayed(damaged, speed=0))


async def test_a_headerless_capture_needs_columns(tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_text(row(0, 79, "43.000") + row(0, 92, "50.000"))
    with pytest.raises(BadCapture, match=r"without its header.*source\.replay\.columns"):
        await replayed(path, speed=0).read()
    ticks = await ticks_of(replayed(path, columns=("GPUTL", "POWER"), speed=0))
    assert values(ticks) == [[79.0, 43.0], [92.0, 50.0]]


@pytest.mark.slow
async def test_a_big_capture_is_streamed(tmp_path: Path) -> None:
    path = tmp_path / "big.txt.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write(HEADER)
        for n in range(20_000):  # 0.8 MB of text
            file.write(row(0, n % 100, "100.000"))
    source = replayed(path, speed=0)
    await source.read()
    tracemalloc.start()
    count = 1 + await count_rest(source)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 20_000
    assert peak < 300_000


# --- recordings without data


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CONNECT_ERROR, "unable to establish a connection to the specified host: localhost"),
        (
            HEADER + "Error setting watches. Result: -33: This request is serviced by a module that is not loaded\n\n",
            "Error setting watches. Result: -33",
        ),
        (HEADER, "no data"),
        ("", "is empty"),
        (" \n\n", "is empty"),
        ("<html><body>404</body></html>", "HTML"),
        ("time,node,gpu,uuid\n2026-01-01T00:00:00.000Z,n,0,GPU-a", "is a CSV file"),
        ("timestamp,gpu_id,model\n1.00,0,H100\n", "is a CSV file"),
        ("Dear diary,\ntoday nothing happened.\n", "begins with 'Dear diary,'"),
        ("\x7fELF\0\0", "binary"),
        ("# HELP a b\n# TYPE a gauge\n", "no sample"),
    ],
)
async def test_what_is_no_recording(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "given"
    path.write_text(text)
    source = replayed(path, speed=0)
    for _ in range(2):  # asking again gives the same answer, not an end
        with pytest.raises(BadCapture) as caught:
            await source.read()
        assert str(path) in str(caught.value)
        assert words in str(caught.value)
        assert len(caught.value.remedy.split()) > 2
    await source.close()


async def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadCapture, match=r"cannot read .*missing: No such file"):
        await replayed(tmp_path / "missing").read()
    with pytest.raises(BadCapture, match="folder without files"):
        await replayed(tmp_path).read()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadCapture, match="not a regular file"):
        await replayed(tmp_path / "pipe").read()
    with pytest.raises(BadCapture, match="is not a path"):
        await replayed("zero\0byte").read()


async def test_a_page_that_became_a_fifo_costs_itself_only(tmp_path: Path) -> None:
    """The folder is listed once per pass, which may last for hours."""
    for number in range(3):
        (tmp_path / f"page-{number}").write_text(page(number))
    source = replayed(tmp_path, speed=0)
    assert list((await source.read()).values) == [0.0]
    (tmp_path / "page-1").unlink()
    os.mkfifo(tmp_path / "page-1")
    with pytest.raises(BadCapture, match="not a regular file"):
        await source.read()
    assert list((await source.read()).values) == [2.0]
    await source.close()


async def test_a_recording_that_appears_later_is_found(tmp_path: Path) -> None:
    path = tmp_path / "late.prom"
    source = replayed(path, speed=0)
    with pytest.raises(BadCapture):
        await source.read()
    path.write_text(page(5))
    tick = await source.read()
    assert (list(tick.values), tick.interval, source.interval) == ([5.0], 15.0, 15.0)
    await source.close()


async def test_the_end_tells_the_error_that_ended_the_capture(tmp_path: Path) -> None:
    path = tmp_path / "died.txt"
    path.write_text(capture(2) + "Error getting values information. Return -21: Host engine connection invalid\n")
    source = replayed(path, speed=0)
    await source.read()
    await source.read()
    for _ in range(2):
        with pytest.raises(SourceEnded, match="over after 2 ticks: Error getting values information"):
            await source.read()
    await source.close()


# --- pages


async def test_a_page_is_one_tick(tmp_path: Path) -> None:
    path = tmp_path / "page.prom"
    path.write_text(page(37))
    ticks = await ticks_of(replayed(path, speed=0))
    assert values(ticks) == [[37.0]]
    assert (ticks[0].interval, ticks[0].time, ticks[0].layout.dialect) == (15.0, DEFAULT_START, "exporter")


async def test_a_folder_in_natural_order(tmp_path: Path) -> None:
    for n in (1, 2, 9, 10, 11):
        (tmp_path / f"page-{n}.prom").write_text(page(n))
    (tmp_path / "page-12.metrics.gz").write_bytes(gzip.compress(page(12).encode()))
    (tmp_path / ".hidden").write_text("no page")
    (tmp_path / "sub").mkdir()
    source = replayed(tmp_path, speed=0)
    assert source.interval == 15.0
    ticks = await ticks_of(source)
    assert values(ticks) == [[1.0], [2.0], [9.0], [10.0], [11.0], [12.0]]
    assert [tick.clock for tick in ticks] == [0.0, 15.0, 30.0, 45.0, 60.0, 75.0]
    assert len({id(tick.layout) for tick in ticks}) == 1


async def test_a_bad_page_costs_its_tick_only(tmp_path: Path) -> None:
    (tmp_path / "1.prom").write_text(page(1))
    (tmp_path / "2.prom").write_text("<html>")
    (tmp_path / "3.prom").write_text("")
    (tmp_path / "4.prom.gz").write_bytes(gzip.compress(page(4).encode())[:-12])
    (tmp_path / "5.prom").write_text(page(5))
    source = replayed(tmp_path, speed=0)
    first = await source.read()
    for name in ("2.prom", "3.prom", "4.prom.gz"):
        with pytest.raises(SourceError, match=name):
            await source.read()
    last = await source.read()
    with pytest.raises(SourceEnded):
        await source.read()
    await source.close()
    assert [(tick.clock, tick.values[0]) for tick in (first, last)] == [(0.0, 1.0), (60.0, 5.0)]


@pytest.mark.parametrize("loop", [False, True])
async def test_a_folder_of_bad_pages_only(tmp_path: Path, loop: bool) -> None:
    (tmp_path / "1.prom").write_text("<html>")
    source = replayed(tmp_path, speed=0, loop=loop)
    with pytest.raises(BadPage):
        await source.read()
    with pytest.raises(BadCapture, match="no page that can be read"):
        await source.read()
    with pytest.raises(BadPage):
        await source.read()
    await source.close()


# --- pace, loop, end


async def test_a_loop_starts_over_and_time_goes_on(recorded: Path) -> None:
    ticks = await ticks_of(replayed(recorded, speed=0, loop=True), 8)
    assert [tick.clock for tick in ticks] == [float(n) for n in range(8)]
    assert values(ticks)[3] == values(ticks)[0]
    assert len({id(tick.layout) for tick in ticks}) == 1


async def test_a_page_in_a_loop(tmp_path: Path) -> None:
    path = tmp_path / "page.prom"
    path.write_text(page(37))
    ticks = await ticks_of(replayed(path, speed=0, loop=True), 3)
    assert [tick.clock for tick in ticks] == [0.0, 15.0, 30.0]


@pytest.mark.parametrize(("speed", "moments"), [(1.0, [0, 1, 2]), (4.0, [0, 0.25, 0.5]), (0.5, [0, 2, 4])])
async def test_the_pace(recorded: Path, speed: float, moments: list[float]) -> None:
    time = FakeClock()
    source = replayed(recorded, speed=speed, clock=time.clock, sleep=time.sleep)
    assert await arrivals(source, time, [0.0] * 3) == moments
    assert [tick.clock for tick in await ticks_of(replayed(recorded, speed=0))] == [0.0, 1.0, 2.0]


async def test_a_cancelled_read_loses_no_tick(recorded: Path) -> None:
    time = FakeClock()
    source = replayed(recorded, clock=time.clock, sleep=time.sleep)
    first = await source.read()
    await cancel_read(source, time)
    rest = await ticks_of(source)
    assert values([first, *rest]) == values(await ticks_of(replayed(recorded, speed=0)))
    assert [tick.clock for tick in rest] == [1.0, 2.0]


async def test_other_tasks_run_while_it_plays_as_fast_as_possible(recorded: Path) -> None:
    source = replayed(recorded, speed=0, loop=True)
    _, turns = await turns_during(source, 50)
    await source.close()
    assert turns >= 50


async def test_close_ends_it(recorded: Path) -> None:
    source = replayed(recorded, speed=0)
    await source.read()
    await source.close()
    await source.close()
    with pytest.raises(SourceEnded, match="closed"):
        await source.read()


# --- real recordings


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


@needs_samples
def test_what_each_sample_is_found_to_be() -> None:
    for path in sorted((SAMPLES / "exporter").glob("*.prom")):
        assert recording_type(path) == "page", path.name
    for path in sorted((SAMPLES / "dmon").glob("*.txt")):
        if path.name != "dmon-3x-error-connect.txt":
            assert recording_type(path) == "dmon", path.name


@needs_samples
@pytest.mark.parametrize("path", sorted((SAMPLES / "dmon").glob("*.txt")), ids=lambda path: path.stem)
async def test_every_sample_capture(path: Path) -> None:
    source = replayed(path, speed=0)
    if "error" in path.name:
        with pytest.raises(BadCapture) as caught:
            await source.read()
        error_line = next(line for line in lines(path) if line.startswith("Error"))
        assert error_line.removeprefix("Error: ")[:40] in str(caught.value)
        await source.close()
        return
    ticks = await ticks_of(source)
    rows = [line for line in lines(path) if line.lstrip().startswith("GPU")]
    assert 1 <= len(ticks) <= len(rows)
    assert all(len(tick.values) == len(tick.layout.series) for tick in ticks)
    cells = {cell for line in rows for cell in line.split()[2:]}
    numbers = {value for tick in ticks for value in tick.values if value is not None}
    assert bool(numbers) == bool(cells - {"N/A"})


@needs_samples
async def test_the_sample_pages_as_one_folder() -> None:
    folder = SAMPLES / "exporter"
    ticks = await ticks_of(replayed(folder, speed=0))
    assert len(ticks) == len(list(folder.glob("*.prom")))
    assert all(any(isinstance(value, float) for value in tick.values) for tick in ticks)


@needs_samples
@pytest.mark.parametrize("path", sorted((SAMPLES / "exporter").glob("*.prom")), ids=lambda path: path.stem)
async def test_every_sample_page(path: Path) -> None:
    (tick,) = await ticks_of(replayed(path, speed=0))
    rows = {line.rpartition(" ")[0] for line in lines(path) if line and not line.startswith("#")}  # some pages repeat
    assert sum(value is not None for value in tick.values) + sum(tick.rejected.values()) == len(rows)
