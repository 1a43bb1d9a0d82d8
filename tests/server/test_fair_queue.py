from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from pulsed.server.fair_queue import FairQueue, QueueFull


class Requests:
    """Requests to a queue, by names such as `a1`, whose first letter is the client; `served` has them in order."""

    def __init__(self, most_waiting: int = 100, patience: float = 60.0) -> None:
        self.queue = FairQueue(most_waiting, patience)
        self.served: list[str] = []
        self.refused: list[str] = []

    async def run(self, name: str) -> None:
        try:
            await self.queue.acquire(name[0])
        except QueueFull:
            self.refused.append(name)
            return
        try:
            self.served.append(name)
            await asyncio.sleep(0)
        finally:
            self.queue.release()

    async def all(self, names: Sequence[str]) -> None:
        await asyncio.gather(*map(self.run, names))


async def test_clients_have_their_turns_in_rotation() -> None:
    requests = Requests()
    await requests.all(["a1", "a2", "a3", "a4", "b1", "c1", "b2"])
    assert requests.served == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


async def test_a_full_queue_takes_from_the_client_with_the_most() -> None:
    requests = Requests(most_waiting=4)
    await requests.all(["a1", "a2", "a3", "a4", "a5", "a6", "b1", "b2", "c1"])
    assert requests.served == ["a1", "a2", "b1", "c1", "b2"]
    assert sorted(requests.refused) == ["a3", "a4", "a5", "a6"]


async def test_one_turn_per_iteration_of_the_loop() -> None:
    requests = Requests()
    iterations = 0

    async def count() -> None:
        nonlocal iterations
        while True:
            iterations += 1
            await asyncio.sleep(0)

    counter = asyncio.create_task(count())
    await requests.all([f"a{number}" for number in range(50)])
    counter.cancel()
    assert iterations >= 50


async def test_who_waits_for_too_long_is_refused() -> None:
    requests = Requests(patience=0.01)
    await requests.queue.acquire("x")
    await requests.run("a1")
    assert requests.refused == ["a1"]
    requests.queue.release()
    await requests.run("a2")
    assert requests.served == ["a2"]


@pytest.mark.parametrize("steps", range(6))
async def test_a_request_that_is_cancelled_loses_no_turn(steps: int) -> None:
    """At whatever moment it is cancelled, the next one has its turn."""
    requests = Requests()
    first = asyncio.create_task(requests.run("a1"))
    second = asyncio.create_task(requests.run("a2"))
    third = asyncio.create_task(requests.run("b1"))
    for _ in range(steps):
        await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(first, second, third, return_exceptions=True)
    assert [name for name in requests.served if name != "a2"] == ["a1", "b1"]
    await requests.run("c1")
    assert requests.served[-1] == "c1"


async def test_requests_of_clients_that_are_gone_take_no_place() -> None:
    queue = FairQueue(2, 60.0)
    await queue.acquire("a")
    gone: list[bool] = []
    left = [asyncio.create_task(queue.acquire("b", lambda: bool(gone))) for _ in range(2)]
    await asyncio.sleep(0)
    gone.append(True)
    stays = asyncio.create_task(queue.acquire("b"))
    assert [type(end) for end in await asyncio.gather(*left, return_exceptions=True)] == [QueueFull] * 2
    leaves = asyncio.create_task(queue.acquire("c", lambda: True))
    await asyncio.sleep(0)
    queue.release()
    await stays
    queue.release()
    with pytest.raises(QueueFull):
        await leaves
    await asyncio.wait_for(queue.acquire("d"), 60)
