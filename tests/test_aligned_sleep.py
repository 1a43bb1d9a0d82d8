from __future__ import annotations

import asyncio

import pytest

from pulsed.pauses import aligned_sleep, next_multiple


@pytest.mark.parametrize(
    ("seconds", "now", "expected"),
    [(1.0, 7.0, 8.0), (1.0, 7.49, 8.0), (1.0, 7.5, 9.0), (1.0, 6.999, 8.0), (2.0, 7.5, 10.0), (0.1, 7.31, 7.4)],
)
def test_the_multiple_is_half_an_interval_to_one_and_a_half_later(seconds: float, now: float, expected: float) -> None:
    assert next_multiple(seconds, now) == pytest.approx(expected)
    assert 0.5 * seconds <= expected - now <= 1.5 * seconds


async def test_sleeps_that_began_at_different_times_end_together() -> None:
    loop = asyncio.get_running_loop()

    async def end(delay: float) -> float:
        await asyncio.sleep(delay)
        await aligned_sleep(0.5)
        return loop.time()

    begun = next_multiple(0.5, loop.time())
    await asyncio.sleep(begun - loop.time())
    ends = await asyncio.gather(end(0.0), end(0.05), end(0.1))
    assert all(each >= begun + 0.5 - 0.002 for each in ends)  # timers have a resolution of a millisecond
    assert max(ends) - min(ends) < 0.05
