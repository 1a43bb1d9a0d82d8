"""What goes wrong with a running dmon, and how its source comes through."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import replace
from itertools import pairwise

import pytest

from pulsed.errors import StreamBroke
from pulsed.model.raw_tick import RawTick
from tests.reader.dcgmi.processes import is_there
from tests.reader.dcgmi.sources import PLAIN, fails, read, read_all, read_until, reading, recovers, row, rows
from tests.support.standin.fixture import standin
from tests.support.standin.install import Standin
from tests.support.standin.scenario import Fault, gpus
from tests.support.standin.signals import Constant, Sequence
from tests.support.waiting import SECONDS

__all__ = ["standin"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "reason", "words"),
    [
        (Fault("exit", after=2, starts=1, status=0), "stream_broke", "ended with exit code 0"),
        (Fault("exit", after=2, starts=1, status=3), "stream_broke", "ended with exit code 3"),
        (Fault("crash", after=2, starts=1), "stream_broke", "was killed by SIGSEGV"),
        (Fault("close", after=2, starts=1), "stream_broke", "closed its output"),
        (Fault("hang", after=2, starts=1), "hung", "nothing that can be read for 0.5 s"),
        (Fault("garbage", after=2, starts=1), "hung", "nothing that can be read"),
        (Fault("binary", after=2, starts=1), "hung", "nothing that can be read"),
        (Fault("engine_died", after=2, starts=1), "engine_unavailable", "cannot be reached"),
        (Fault("no_data", after=2, starts=1), "engine_unavailable", "No data returned"),
        (Fault("half_row", after=2, starts=1, status=1), "stream_broke", "ended with exit code 1"),
    ],
    ids=lambda value: value.kind if isinstance(value, Fault) else "",
)
async def test_each_trouble_is_one_error_and_then_there_is_data(
    standin: Standin, fault: Fault, reason: str, words: str
) -> None:
    standin.change(gpus=gpus("ampere", 2))
    async with reading(standin.path, read_timeout=0.5 if reason == "hung" else None) as source:
        before, _ = await recovers(source)  # a busy machine may need longer for a start
        standin.change(faults=(fault,))
        pid = source.pid
        error = await fails(source)
        assert error.reason == reason
        assert words in str(error)
        assert pid is not None
        assert not is_there(pid)
        after, failures = await recovers(source)
        assert failures == 0 or reason == "hung"
        assert after.clock > before.clock
        assert rows(after) == {"GPU 0", "GPU 1"}
        assert source.starts == 2


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.2.9", "4.2.3"])
async def test_an_engine_that_dies_is_understood_in_every_era(standin: Standin, version: str) -> None:
    standin.change(version=version)
    async with reading(standin.path) as source:
        await read(source)
        standin.change(engine=False)
        error = await fails(source)
        assert error.reason == "engine_unavailable"
        assert "systemctl start nvidia-dcgm" in error.remedy
        assert (await fails(source)).reason == "engine_unavailable"  # now at the start
        standin.change(engine=True)
        await recovers(source)


async def test_a_killed_child(standin: Standin) -> None:
    async with reading(standin.path) as source:
        await read(source)
        assert source.pid is not None
        os.kill(source.pid, signal.SIGKILL)
        error = await fails(source)
        assert error.reason == "stream_broke"
        assert "SIGKILL" in str(error)
        await recovers(source)


async def test_a_second_of_garbage_costs_a_second(standin: Standin) -> None:
    standin.change(faults=(Fault("garbage", after=3, lasts=1.0),))
    async with reading(standin.path) as source:
        ticks = [await read(source) for _ in range(8)]
        assert source.starts == 1
    clocks = [tick.clock for tick in ticks]
    assert max(b - a for a, b in pairwise(clocks)) > 0.9
    assert sum(sum(tick.rejected.values()) for tick in ticks) > 5
    for tick in ticks:
        assert row(tick, "0")["POWER"] is not None


async def test_a_row_cut_by_an_exit_shifts_nothing(standin: Standin) -> None:
    values = {"GPU 0": {155: Constant(100.5)}, "GPU 1": {155: Constant(200.25)}}
    standin.change(gpus=gpus("ampere", 2), values=values, faults=(Fault("half_row", after=2),))
    async with reading(standin.path, fast=(155, 150, 203)) as source:
        ticks: list[RawTick] = []
        with pytest.raises(StreamBroke):
            await read_all(source, ticks)
        seen = [(row(tick, "0")["POWER"], row(tick, "1")["POWER"]) for tick in ticks]
    assert set(seen) <= {(100.5, 200.25), (100.5, None)}
    assert (100.5, 200.25) in seen


async def test_a_stopped_child_is_only_late(standin: Standin) -> None:
    async with reading(standin.path, read_timeout=SECONDS) as source:
        await read(source)
        assert source.pid is not None
        os.kill(source.pid, signal.SIGSTOP)
        with contextlib.suppress(TimeoutError):
            while await asyncio.wait_for(source.read(), 1.0):  # what was under way
                pass
        stopped = time.monotonic()
        waiting = asyncio.create_task(read(source))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        os.kill(source.pid, signal.SIGCONT)
        tick = await waiting
        assert tick.clock - stopped >= 0.5
        assert source.starts == 1


async def test_a_child_that_stays_stopped_is_hung(standin: Standin) -> None:
    async with reading(standin.path, read_timeout=0.4) as source:
        await recovers(source)  # a busy machine may need longer for a start
        assert source.pid is not None
        os.kill(source.pid, signal.SIGSTOP)
        assert (await fails(source)).reason == "hung"
        await recovers(source)


async def test_an_engine_that_hangs_at_the_start(standin: Standin) -> None:
    standin.change(slow_start=60.0)
    async with reading(standin.path, read_timeout=0.3, discovery_timeout=0.1) as source:
        assert (await fails(source)).reason == "hung"
        standin.change(slow_start=0.0)
        await recovers(source)


async def test_a_flood_on_stderr_stops_nothing(standin: Standin) -> None:
    standin.change(faults=(Fault("stderr_flood", after=2),))
    async with reading(standin.path) as source:
        for _ in range(6):
            await read(source)
        assert source.starts == 1


async def test_ticks_that_come_at_once_are_given_one_by_one(standin: Standin) -> None:
    standin.change(burst=4)
    async with reading(standin.path, fast=PLAIN) as source:
        ticks = [await read(source) for _ in range(16)]
    clocks = [tick.clock for tick in ticks]
    assert all(b - a > 0.05 for a, b in pairwise(clocks))


async def test_a_pulsed_that_stands_still_loses_no_tick(standin: Standin) -> None:
    """Nor time: the ticks that waited cover it, so that what is counted goes on."""
    numbers = Sequence(tuple(float(number) for number in range(10_000)))
    standin.change(values={"GPU 0": {155: numbers}}, log_ticks=True)
    async with reading(standin.path, fast=PLAIN) as source:
        before = [await read(source), await read(source)][-1]
        time.sleep(0.75)  # noqa: ASYNC251 - that is what it is about
        back = time.monotonic()
        ticks = [before]
        while ticks[-1].clock < back:
            ticks.append(await read(source))
    seen = [row(tick, "0")["POWER"] for tick in ticks]
    first = int(float(str(seen[0])))
    assert seen == [float(first + number) for number in range(len(seen))], "a tick was lost"
    played = standin.ticks(100)[first : first + len(seen)]
    pause = max(b - a for a, b in pairwise(played))  # of the stand-in itself, on a machine without a free core
    assert max(b.clock - a.clock for a, b in pairwise(ticks)) < pause + 2 * source.interval, "that would be a gap"


async def test_a_gpu_that_is_lost_has_no_values_any_more(standin: Standin) -> None:
    both = gpus("ampere", 2)
    standin.change(gpus=both)
    async with reading(standin.path, fast=PLAIN) as source:
        await read(source)
        standin.change(gpus=(both[0], replace(both[1], state="lost")))
        tick = await read_until(source, lambda tick: row(tick, "1").get("POWER") is None)
        assert row(tick, "0")["POWER"] is not None
