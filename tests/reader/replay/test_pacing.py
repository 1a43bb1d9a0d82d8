from __future__ import annotations

import asyncio

import pytest

from pulsed.reader.replay.pacing import Pacer


class Watch:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now, self.slept = 100.0, list[float]()

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.mark.parametrize(("speed", "slept"), [(1.0, [1.0, 2.0]), (10.0, [0.1, 0.2]), (0.0, [])])
async def test_ticks_come_at_the_recorded_distances(speed: float, slept: list[float]) -> None:
    watch = Watch()
    pacer = Pacer(speed, watch.clock, watch.sleep)
    for moment in (5.0, 6.0, 8.0):
        await pacer.wait(moment, 1.0)
    assert watch.slept == pytest.approx(slept)


async def test_a_late_reader_gets_no_burst() -> None:
    watch = Watch()
    pacer = Pacer(1.0, watch.clock, watch.sleep)
    await pacer.wait(0.0, 1.0)
    watch.now += 10.0
    await pacer.wait(1.0, 1.0)
    await pacer.wait(2.0, 1.0)
    assert watch.slept == [1.0]


async def test_a_reader_that_is_a_little_late_catches_up() -> None:
    watch = Watch()
    pacer = Pacer(1.0, watch.clock, watch.sleep)
    await pacer.wait(0.0, 1.0)
    watch.now += 1.5
    await pacer.wait(1.0, 1.0)
    await pacer.wait(2.0, 1.0)
    assert watch.slept == [0.5]


async def test_other_tasks_run_at_full_speed() -> None:
    turns: list[str] = []

    async def play(name: str) -> None:
        pacer = Pacer(0.0, Watch().clock, Watch().sleep)
        for moment in range(2):
            await pacer.wait(moment, 1.0)
            turns.append(name)

    await asyncio.gather(play("a"), play("b"))
    assert turns == ["a", "b", "a", "b"]
