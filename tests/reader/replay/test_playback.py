from __future__ import annotations

import asyncio

import pytest

from pulsed.reader.replay.playback import Pacer
from tests.support.sources import FakeClock


@pytest.mark.parametrize(("speed", "slept"), [(1.0, [1.0, 2.0]), (10.0, [0.1, 0.2]), (0.0, [])])
async def test_ticks_come_at_the_recorded_distances(speed: float, slept: list[float]) -> None:
    watch = FakeClock()
    pacer = Pacer(speed, watch.clock, watch.sleep)
    for moment in (5.0, 6.0, 8.0):
        await pacer.wait(moment, 1.0)
    assert watch.slept == pytest.approx(slept)


@pytest.mark.parametrize(("late", "slept"), [(10.0, [1.0]), (1.5, [0.5])], ids=["no burst", "catches up"])
async def test_a_late_reader(late: float, slept: list[float]) -> None:
    watch = FakeClock()
    pacer = Pacer(1.0, watch.clock, watch.sleep)
    await pacer.wait(0.0, 1.0)
    watch.now += late
    await pacer.wait(1.0, 1.0)
    await pacer.wait(2.0, 1.0)
    assert watch.slept == slept


async def test_other_tasks_run_at_full_speed() -> None:
    turns: list[str] = []

    async def play(name: str) -> None:
        pacer = Pacer(0.0, FakeClock().clock, FakeClock().sleep)
        for moment in range(2):
            await pacer.wait(moment, 1.0)
            turns.append(name)

    await asyncio.gather(play("a"), play("b"))
    assert turns == ["a", "b", "a", "b"]
