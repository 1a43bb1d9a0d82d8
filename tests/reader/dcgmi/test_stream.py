"""How output becomes ticks: pieces of lines, pieces of ticks, too much of everything. Scripts stand for dmon."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path

import pytest

from pulsed.errors import SourceError, StreamBroke, StreamHung
from pulsed.model.raw_tick import MAX_GPUS, RawTick
from pulsed.reader.dcgmi.stream import DmonStream
from tests.reader.dcgmi.processes import children, script
from tests.support.waiting import SECONDS, eventually, until

WALL = 1e9
"""What Unix time is ahead of the clock."""

HEADER = "#Entity    POWER             \\nID          W                \\n"


def line(gpu: int, watts: str) -> str:
    return f"GPU {gpu}      {watts.ljust(18)}\\n"


@contextlib.asynccontextmanager
async def stream(
    folder: Path, text: str, interval: float = 0.1, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[DmonStream]:
    made = DmonStream((script(folder, text),), interval, MAX_GPUS, clock, lambda: WALL + clock())
    try:
        await made.start()
        yield made
    finally:
        await made.end_now()
        assert children() == []


class Clock:
    """A clock that stands while pulsed is not standing still."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._now, self._planned, self._said = folder, 1000.0, 0, 0

    def __call__(self) -> float:
        return self._now

    def later(self, *ticks: str) -> str:
        """Return the line of a script that prints these at the next standstill that has no line yet."""
        go, said = (self._folder / f"{name}-{self._planned}" for name in ("go", "said"))
        self._planned += 1
        return f"until [ -e {go} ]; do sleep 0.01; done; printf '{''.join(ticks)}'; touch {said}"

    def stand_still(self, seconds: float) -> None:
        """Block the event loop until the ticks of the next line are in the pipe."""
        (self._folder / f"go-{self._said}").touch()
        until((self._folder / f"said-{self._said}").exists)
        self._said += 1
        self._now += seconds


def watts(arrival: RawTick) -> list[object]:
    return list(arrival.values)


async def test_the_first_tick_does_not_wait_for_the_second(tmp_path: Path) -> None:
    say = f"printf '{HEADER}{line(0, '1.000')}{line(1, '2.000')}'; sleep 60"
    async with stream(tmp_path, say, interval=30.0) as made:
        assert watts(await made.next(SECONDS)) == [1.0, 2.0]


async def test_pieces_of_lines_are_one_tick(tmp_path: Path) -> None:
    pieces = [HEADER[:20], HEADER[20:] + line(0, "1.000")[:9], line(0, "1.000")[9:] + line(1, "2.000")]
    say = "; sleep 0.01; ".join(f"printf '{piece}'" for piece in pieces)
    async with stream(tmp_path, f"{say}; sleep 60") as made:
        arrival = await made.next(SECONDS)
        assert watts(arrival) == [1.0, 2.0]
        assert arrival.rejected == {}


async def test_ticks_of_short_intervals_are_given_together_each_with_its_time(tmp_path: Path) -> None:
    ticks = [line(0, f"{number}.000") + line(1, "9.000") for number in range(1, 12)]
    say = f"printf '{HEADER}'; " + "; sleep 0.1; ".join(f"printf '{tick}'" for tick in ticks)
    async with stream(tmp_path, f"{say}; sleep 60") as made:
        found, given = [await made.next(SECONDS)], [time.monotonic()]
        for _ in ticks[1:-1]:
            found.append(await made.next(SECONDS))
            given.append(time.monotonic())
    assert [watts(arrival)[0] for arrival in found] == [float(number) for number in range(1, 11)]
    assert given[0] - found[0].clock < 0.1, "the first one does not wait"
    assert all(before.clock < after.clock for before, after in pairwise(found))
    assert found[-1].clock - found[0].clock > 0.8
    together = [after - before < 0.05 for before, after in pairwise(given)]
    assert sum(together) >= 5


async def test_a_tick_whose_pieces_arrive_in_two_batches_is_one() -> None:
    made = DmonStream(("dmon",), 0.1, MAX_GPUS, time.monotonic, time.time)
    first, pieces = HEADER + line(0, "1.000") + line(1, "1.500"), (line(0, "2.000"), line(1, "2.500"))
    made._receive(first.replace("\\n", "\n").encode())
    assert watts(await made.next(SECONDS)) == [1.0, 1.5]
    reader = asyncio.create_task(made.next(SECONDS))
    await asyncio.sleep(0)
    for piece in pieces:
        made._receive(piece.replace("\\n", "\n").encode())
        if piece is pieces[0]:
            assert made._parse_arrived(), "a batch ends between them"
    assert watts(await reader) == [2.0, 2.5]


async def test_a_last_line_without_newline_counts_if_it_is_whole(tmp_path: Path) -> None:
    say = f"printf '{HEADER}{line(0, '1.000')}{line(1, '2.000').rstrip(chr(92) + 'n')}'"
    async with stream(tmp_path, say) as made:
        assert watts(await made.next(SECONDS)) == [1.0, 2.0]
        with pytest.raises(StreamBroke, match="exit code 0"):
            await made.next(SECONDS)
        with pytest.raises(StreamBroke):
            await made.next(SECONDS)


async def test_what_was_rejected_without_a_tick_is_told_with_the_next(tmp_path: Path) -> None:
    say = f"printf '{HEADER}what\\nis\\nthis\\n'; sleep 0.2; printf '{line(0, '1.000')}'; sleep 60"
    async with stream(tmp_path, say) as made:
        assert (await made.next(SECONDS)).rejected == {"not_a_row": 3}


async def test_ticks_that_come_at_once_are_dated_back_to_when_they_were_printed(tmp_path: Path) -> None:
    """pulsed stood still, dmon did not: its ticks waited in the pipe."""
    clock = Clock(tmp_path)
    say = f"printf '{HEADER}{line(0, '1.000')}'; {clock.later(*(line(0, f'{number}.000') for number in range(2, 6)))}"
    async with stream(tmp_path, f"{say}; sleep 60", clock=clock) as made:
        first = await made.next(SECONDS)
        clock.stand_still(0.6)
        ticks = [first, *[await made.next(SECONDS) for _ in range(4)]]
    assert [watts(tick) for tick in ticks] == [[1.0], [2.0], [3.0], [4.0], [5.0]]
    assert [tick.clock - clock() for tick in ticks] == pytest.approx([-0.6, -0.3, -0.2, -0.1, 0.0])
    assert [tick.time - tick.clock for tick in ticks] == pytest.approx([WALL] * 5)
    assert made.late == 0


async def test_a_pulsed_that_stands_still_does_not_take_its_child_for_hung(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    say = f"printf '{HEADER}{line(0, '1.000')}'; {clock.later(line(0, '2.000'))}; sleep 60"
    async with stream(tmp_path, say, clock=clock) as made:
        await made.next(SECONDS)
        waiting = asyncio.create_task(made.next(0.05))
        await asyncio.sleep(0)
        clock.stand_still(0.1)
        time.sleep(0.1)  # noqa: ASYNC251 - longer than the patience
        assert watts(await waiting) == [2.0]


async def test_more_ticks_at_once_than_the_time_has_room_for_share_it(tmp_path: Path) -> None:
    ticks = "".join(line(0, f"{number}.000") + line(1, f"{number}.500") for number in range(5))
    began = time.monotonic()
    async with stream(tmp_path, f"sleep 0.2; printf '{HEADER}{ticks}'; sleep 60") as made:
        seen = [await made.next(SECONDS) for _ in range(5)]
    assert [watts(tick) for tick in seen] == [[float(number), number + 0.5] for number in range(5)]
    assert seen[0].clock >= began
    steps = [after.clock - before.clock for before, after in pairwise(seen)]
    assert 0.0 < steps[0] <= 0.1 + 1e-6, "but for rounding"
    assert steps == pytest.approx([steps[0]] * 4)


async def test_ticks_of_unknown_age_do_not_count(tmp_path: Path) -> None:
    """pulsed stood still for longer than these ticks fill: nobody knows how old the newest of them is."""
    clock = Clock(tmp_path)
    late = clock.later(line(0, "2.000"), line(0, "3.000"))
    say = f"printf '{HEADER}{line(0, '1.000')}'; {late}; {clock.later(line(0, '4.000'))}; sleep 60"
    async with stream(tmp_path, say, clock=clock) as made:
        assert watts(await made.next(SECONDS)) == [1.0]
        fourth = asyncio.create_task(made.next(SECONDS))
        await asyncio.sleep(0)
        clock.stand_still(1.0)
        await eventually(lambda: made.late == 2)
        clock.stand_still(0.1)
        assert watts(await fourth) == [4.0]
        assert made.late == 2


async def test_ticks_that_nobody_fetches_wait(tmp_path: Path) -> None:
    say = f"printf '{HEADER}{line(0, '1.000')}'; sleep 0.3; printf 'what\n{line(0, '2.000')}'; sleep 60"
    async with stream(tmp_path, say) as made:
        await asyncio.sleep(0.7)
        first, second = await made.next(SECONDS), await made.next(SECONDS)
    assert (watts(first), first.rejected) == ([1.0], {})
    assert (watts(second), second.rejected) == ([2.0], {"not_a_row": 1})
    assert second.clock - first.clock >= 0.25
    assert made.late == 0


async def test_ticks_that_wait_are_bounded_and_what_was_rejected_with_them_is_told(tmp_path: Path) -> None:
    ticks = "".join(f"; printf '{line(0, f'{number}.000')}what\n'; sleep 0.01" for number in range(70))
    # At a longer interval than they come in, ticks that a busy machine reads two at a time are not of unknown age.
    async with stream(tmp_path, f"printf '{HEADER}'{ticks}; sleep 60", interval=1.0) as made:
        await eventually(lambda: made.late == 69 - 64)  # the last tick is in progress
        seen = [await made.next(SECONDS)]
        while watts(seen[-1]) != [69.0]:
            seen.append(await made.next(SECONDS))
        assert made.late in (5, 6)
    assert [watts(tick) for tick in seen] == [[float(number)] for number in range(made.late, 70)]
    assert sum(tick.rejected.get("not_a_row", 0) for tick in seen) == 70


async def test_of_very_many_ticks_at_once_the_newest_are_kept_and_the_others_counted(tmp_path: Path) -> None:
    ticks = "".join(line(0, f"{number}.000") for number in range(100))
    async with stream(tmp_path, f"printf '{HEADER}what\\n{ticks}'; sleep 60", interval=0.01) as made:
        seen = [await made.next(SECONDS) for _ in range(64)]
        assert made.late == 100 - 64
    assert [watts(tick) for tick in seen] == [[float(number)] for number in range(36, 100)]
    assert seen[0].rejected == {"not_a_row": 1}


async def test_a_line_without_end_is_cut(tmp_path: Path) -> None:
    long = "head -c 300000 /dev/zero | tr '\\0' x; echo"
    say = f"printf '{HEADER}'; {long}; printf '{line(0, '1.000')}'; sleep 60"
    async with stream(tmp_path, say) as made:
        arrival = await made.next(SECONDS)
        assert watts(arrival) == [1.0]
        assert arrival.rejected.keys() == {"not_a_row"}
        assert arrival.rejected["not_a_row"] > 1, "the line was kept whole"


@pytest.mark.slow
@pytest.mark.parametrize("flood", ["yes", "cat /dev/zero", "yes 'GPU 0 what'"])
async def test_a_flood_is_no_dmon(tmp_path: Path, flood: str) -> None:
    async with stream(tmp_path, f"exec {flood}") as made:
        with pytest.raises(StreamHung, match="does not print a dmon table"):
            await made.next(SECONDS)


async def test_silence_is_told(tmp_path: Path) -> None:
    async with stream(tmp_path, f"printf '{HEADER}'; sleep 60") as made:
        with pytest.raises(StreamHung, match=r"for 0\.2 s"):
            await made.next(0.2)


async def test_last_words_of_both_streams_are_in_the_error(tmp_path: Path) -> None:
    async with stream(tmp_path, "echo 'Error: one'; echo two >&2; exit 9") as made:
        with pytest.raises(SourceError, match="exit code 9: Error: one / two"):
            await made.next(SECONDS)


async def test_a_command_that_is_no_program(tmp_path: Path) -> None:
    path = tmp_path / "dcgmi"
    path.write_text("")
    made = DmonStream((str(path),), 0.1, MAX_GPUS, time.monotonic, time.time)
    await made.start()
    with pytest.raises(SourceError) as raised:
        await made.next(SECONDS)
    assert raised.value.reason == "dcgmi_missing"
    await made.end_now()


async def test_a_stream_that_never_started_can_be_ended() -> None:
    made = DmonStream(("/bin/true",), 0.1, MAX_GPUS, time.monotonic, time.time)
    await made.end()
    await made.end_now()
