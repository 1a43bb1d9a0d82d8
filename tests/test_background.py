"""Work beside the event loop: results, errors and cancellation."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from pulsed.background import TURN_SECONDS, in_background, turn
from tests.support.waiting import SECONDS


async def test_the_result_and_the_thread() -> None:
    assert await in_background(threading.get_ident) != threading.get_ident()
    assert await in_background(threading.get_ident) == await in_background(threading.get_ident)


async def test_an_error_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await in_background(lambda: 1 / 0)


async def test_the_event_loop_runs_meanwhile() -> None:
    go = threading.Event()
    work = asyncio.create_task(in_background(lambda: go.wait(SECONDS)))
    await asyncio.sleep(0.01)
    assert not work.done()
    go.set()
    assert await work


async def test_much_work_is_spread_over_iterations_of_the_event_loop() -> None:
    iterations, done = 0, 0

    async def work() -> None:
        nonlocal done
        await turn()
        time.sleep(TURN_SECONDS)  # noqa: ASYNC251 (this is the work)
        done += 1

    tasks = [asyncio.create_task(work()) for _ in range(8)]
    while done < len(tasks):
        await asyncio.sleep(0)
        iterations += 1
    assert iterations >= len(tasks)


async def test_a_cancellation_waits_for_work_that_has_begun_and_drops_other_work() -> None:
    begun, go, done = threading.Event(), threading.Event(), list[str]()

    def work() -> None:
        begun.set()
        go.wait(SECONDS)
        done.append("first")

    first = asyncio.create_task(in_background(work))
    second = asyncio.create_task(in_background(lambda: done.append("second")))
    assert await asyncio.to_thread(begun.wait, SECONDS)
    first.cancel()
    second.cancel()
    await asyncio.wait({second})
    await asyncio.sleep(0.01)
    assert not first.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await first
    await in_background(lambda: None)
    assert done == ["first"]
