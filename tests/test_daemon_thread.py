from __future__ import annotations

import asyncio
import threading

import pytest

from pulsed.daemon_thread import SharedCall
from tests.support.waiting import SECONDS, eventually

NAME = "pulsed-attribution"


async def test_results_and_errors_are_the_callers() -> None:
    thread = SharedCall[int](NAME)
    assert await thread.call(lambda: 1) == 1

    def fail() -> int:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await thread.call(fail)
    assert await thread.call(lambda: 2) == 2
    thread.close()
    await eventually(lambda: NAME not in {each.name for each in threading.enumerate()})
    assert await thread.call(lambda: 3) == 3
    thread.close()


async def test_a_call_that_hangs_costs_one_thread() -> None:
    thread, free, calls = SharedCall[int](NAME), threading.Event(), []

    def hang() -> int:
        calls.append(threading.current_thread())
        free.wait(SECONDS)
        return len(calls)

    for _ in range(20):
        waiting = asyncio.ensure_future(thread.call(hang))
        await asyncio.sleep(0.01)
        waiting.cancel()
    assert [call.daemon for call in calls] == [True]
    waiting = asyncio.ensure_future(thread.call(hang))
    free.set()
    assert await waiting == 1
    assert await thread.call(hang) == 2
    assert calls[0] is calls[1]
    thread.close()


async def test_an_error_that_comes_too_late_is_not_reported_as_lost(caplog: pytest.LogCaptureFixture) -> None:
    thread, free = SharedCall[int](NAME), threading.Event()

    def fail() -> int:
        free.wait(SECONDS)
        raise KeyError("x")

    waiting = asyncio.ensure_future(thread.call(fail))
    await asyncio.sleep(0.01)
    waiting.cancel()
    free.set()
    thread.close()
    await eventually(lambda: NAME not in {each.name for each in threading.enumerate()})
    await asyncio.sleep(0)
    del thread, waiting
    assert caplog.records == []


def test_the_loop_may_end_before_the_call() -> None:
    thread, free = SharedCall[None](NAME), threading.Event()

    async def abandon() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(thread.call(lambda: (free.wait(SECONDS), None)[1]), 0.05)

    asyncio.run(abandon())
    free.set()
    thread.close()
