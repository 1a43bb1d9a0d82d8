"""Work that one request does at a time."""

from __future__ import annotations

import asyncio

import pytest

from pulsed.lane import FairSemaphore, Lane, LaneFull


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
        await lane.acquire("b")
    first = asyncio.create_task(lane.acquire("c"))  # the first one of each client may wait
    await asyncio.sleep(0)
    for each in (waiting[0], other, first, waiting[1]):
        lane.release()
        await each


async def test_clients_take_turns() -> None:
    semaphore, order = FairSemaphore(2), list[str]()

    async def work(client: str) -> None:
        await semaphore.acquire(client)
        order.append(client)
        await asyncio.sleep(0)
        semaphore.release()

    await asyncio.gather(*map(work, ["crowd"] * 6 + ["probe", "other"]))
    assert order == ["crowd", "crowd", "crowd", "probe", "other", "crowd", "crowd", "crowd"]


async def test_who_no_longer_waits_takes_no_turn() -> None:
    semaphore = FairSemaphore(1)
    await semaphore.acquire("a")
    gone, served, late = (asyncio.create_task(semaphore.acquire("a")) for _ in range(3))
    await asyncio.sleep(0)
    gone.cancel()
    semaphore.release()
    served.cancel()  # it has just got its turn
    await asyncio.gather(gone, served, return_exceptions=True)
    async with asyncio.timeout(5):
        await late
        semaphore.release()
        await semaphore.acquire("b")


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
