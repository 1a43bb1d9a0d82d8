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


def test_sleeps_that_begin_at_different_times_end_together() -> None:
    assert {next_multiple(0.5, begun) for begun in (7.0, 7.05, 7.1, 6.9)} == {7.5}


async def test_a_sleep_lasts_until_the_multiple() -> None:
    loop = asyncio.get_running_loop()
    due = next_multiple(0.1, loop.time())
    await aligned_sleep(0.1)
    assert loop.time() >= due - 0.002  # timers have a resolution of a millisecond
