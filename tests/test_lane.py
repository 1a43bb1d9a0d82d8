"""Work that one request does at a time."""

from __future__ import annotations

import asyncio

import pytest

from pulsed.lane import Lane, LaneFull


async def test_the_first_that_comes_is_the_first() -> None:
    lane, order = Lane(10.0), list[int]()

    async def work(number: int) -> None:
        async with lane.turn():
            order.append(number)
            await asyncio.sleep(0)
            order.append(number)

    await asyncio.gather(*map(work, range(5)))
    assert order == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


async def test_who_waits_for_too_long_is_refused_and_the_next_gets_the_turn() -> None:
    lane = Lane(0.01)
    await lane.acquire()
    with pytest.raises(LaneFull):
        await lane.acquire()
    lane.release()
    await lane.acquire()


async def test_so_many_may_wait_of_all_and_of_one_client() -> None:
    lane = Lane(10.0, max_waiting=3, max_per_client=2)
    await lane.acquire("a")
    waiting = [asyncio.create_task(lane.acquire("a")) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(LaneFull):
        await lane.acquire("a")
    other = asyncio.create_task(lane.acquire("b"))
    await asyncio.sleep(0)
    with pytest.raises(LaneFull):
        await lane.acquire("c")
    for each in (*waiting, other):
        lane.release()
        await each


async def test_who_is_gone_gives_the_turn_to_the_next() -> None:
    lane = Lane(10.0)
    await lane.acquire()
    gone = asyncio.create_task(lane.acquire(is_gone=lambda: True))
    await asyncio.sleep(0)
    next_one = asyncio.create_task(lane.acquire())
    lane.release()
    with pytest.raises(LaneFull):
        await gone
    await next_one


async def test_a_cancelled_request_does_not_keep_the_turn() -> None:
    lane = Lane(10.0)
    await lane.acquire()
    waiting = asyncio.create_task(lane.acquire())
    await asyncio.sleep(0)
    lane.release()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(1), lane.turn():
        pass
