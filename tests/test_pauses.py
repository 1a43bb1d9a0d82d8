from __future__ import annotations

import asyncio

import pytest

from pulsed.pauses import Backoff, within
from tests.support.waiting import SECONDS


def test_pauses_double_up_to_the_longest_and_begin_anew() -> None:
    pauses = Backoff(1.0, 60.0, lambda: 0.0)
    assert [pauses.next() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    pauses.reset()
    assert pauses.next() == 1


def test_chance_shortens_a_pause_by_half_at_most() -> None:
    numbers = iter([0.0, 0.5, 0.999])
    pauses = Backoff(4.0, 4.0, lambda: next(numbers))
    assert pauses.next() == 4.0
    assert pauses.next() == 3.0
    assert 2.0 < pauses.next() < 2.01


async def test_work_that_ends_in_time_gives_its_result_or_its_error() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    async def failing() -> int:
        raise KeyError("of the work")

    for seconds in (SECONDS, None):
        assert await within(seconds, work()) == 7
        with pytest.raises(KeyError, match="of the work"):
            await within(seconds, failing())


async def test_work_that_takes_too_long_has_ended_when_the_limit_is_told() -> None:
    ends = []

    async def work() -> None:
        try:
            await asyncio.sleep(SECONDS)
        finally:
            await asyncio.sleep(0.01)
            ends.append("ended")

    with pytest.raises(asyncio.TimeoutError):
        await within(0.01, work())
    assert ends == ["ended"]


@pytest.mark.parametrize("seconds", [SECONDS, None])
async def test_a_cancellation_that_comes_with_the_result_takes_effect(seconds: float | None) -> None:
    """As when a daemon is stopped at the moment at which a request of it is answered."""
    result = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(within(seconds, result))
    await asyncio.sleep(0)
    result.set_result("of the work")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
